"""What each command does, once its arguments are read. Every function returns the exit status."""

import dataclasses
import logging
import math
import shutil
import subprocess
import sys
import threading
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.table import Table

from analysis.inputs import load as load_run
from analysis.verdicts import check_run, judgement_table
from hostagent.core import Core
from hostagent.protocols import PROTOCOLS
from scenarios import catalogue
from scenarios.faults import load as load_faults
from simulator import cases
from simulator.swarm import TROUBLES, draw_case
from testbed import campaign as campaigns
from testbed import doctor, faults, record, runner, simulated
from testbed.emulation import refuse_impossible
from testbed.errors import CannotRun
from testbed.terminal import bar, errors, output, progress
from topologies import Network, NetworkError, choices, dump, find
from topologies.files import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.summary import Summary

HOLDS, VIOLATED, UNKNOWN = 0, 1, 2
# Failures that are shrunk and printed; where there are many, they are mostly the same.
MOST_SHRUNK = 5
ROOT = Path(__file__).parent.parent


def run(arguments: Namespace) -> int:
    """Run a scenario with each protocol asked for, then analyse and compare."""
    definition = catalogue.find(arguments.scenario)
    settings, parameters = _split_settings(arguments.set)
    scenario = definition.build(settings)
    if arguments.faults:
        scenario = dataclasses.replace(scenario, faults=(*scenario.faults, *load_faults(arguments.faults)))
    protocols = arguments.protocol or list(scenario.protocols)
    _check_parameters(protocols, parameters)
    out = arguments.out or Path("results", f"{definition.name}-{datetime.now():%Y%m%d-%H%M%S}")  # noqa: DTZ005 - the user's own clock
    tasks = [
        runner.Task(
            definition.name, scenario, settings, protocol, parameters.get(protocol, {}), arguments.seed + repeat, directory
        )
        for protocol in protocols
        for repeat, directory in enumerate(_directories(out / protocol, arguments.repeat))
    ]
    run_all = _in_virtual_time if arguments.on == "simulator" else _on_mininet
    spark = run_all(tasks, out, arguments.spark_master)
    return _analyse([task.output for task in tasks], spark, out, as_json=arguments.json)


def _on_mininet(tasks: Sequence[runner.Task], out: Path, master: str) -> "_SparkStart":
    machine = doctor.require(out)
    scenario = tasks[0].scenario
    refuse_impossible(scenario.network, machine)
    faults.refuse_impossible(scenario.faults, machine)
    errors.print(
        f"{scenario.network.name}: {machine.datapath} datapath; links by {machine.shaping}; results in {out}", soft_wrap=True
    )
    spark = _SparkStart(master)
    with _removed_on_failure(out):
        for task in tasks:
            with progress(f"{task.scenario_name}, {task.protocol}, seed {task.seed}") as show:
                runner.run(task, machine, show, before_traffic=spark.wait)
    return spark


def _in_virtual_time(tasks: Sequence[runner.Task], out: Path, master: str) -> "_SparkStart":
    doctor.require(out, mininet=False)
    errors.print(f"{tasks[0].scenario.network.name}: virtual time; results in {out}", soft_wrap=True)
    spark = _SparkStart(master)
    with _removed_on_failure(out):
        for task in tasks:
            with progress(f"{task.scenario_name}, {task.protocol}, seed {task.seed}") as show:
                simulated.run(task, show)
    return spark


def demo(arguments: Namespace) -> int:
    """The main job in one word: the clusters scenario with its protocols."""
    arguments.scenario, arguments.protocol = "clusters", None
    return run(arguments)


def analyse(arguments: Namespace) -> int:
    """Analyse runs that were made before, here or elsewhere; needs no root."""
    for directory in arguments.runs:
        load_run(directory)
    spark = _SparkStart(arguments.spark_master)
    return _analyse(arguments.runs, spark, arguments.out or arguments.runs[0].parent, as_json=arguments.json)


def _analyse(directories: Sequence[Path], spark: "_SparkStart", out: Path, *, as_json: bool) -> int:
    with progress("analysis") as show:
        show("starting Spark")
        session = spark.wait()
        # Only now: two threads that import PySpark at the same time get in each other's way.
        from analysis import job
        from analysis.summary import comparison

        summaries = job.analyse(directories, session, show)
        plots = job.compare(summaries, out / "plots")
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(summaries) + b"\n")
    else:
        output.print(comparison(summaries))
        _explain(summaries)
        for directory in directories:
            _tell_rerouting(directory)
        for plot in (*plots, *(directory / "plots" for directory in directories)):
            output.print(f"  {plot}", soft_wrap=True)
    return _status(summaries)


def _explain(summaries: "Sequence[Summary]") -> None:
    for summary in summaries:
        for reason in summary.verdict_reasons:
            output.print(f"{summary.protocol}: {reason}", soft_wrap=True)


def _tell_rerouting(directory: Path) -> None:
    """How long the controller took to route around what failed; its log has the rest."""
    log = directory / "controller.jsonl"
    for event in map(msgspec.json.decode, log.read_bytes().splitlines() if log.exists() else ()):
        if event["event"] == "rerouted" and event["flows_changed"]:
            what = f"{event['flows_changed']} flows on {event['switches']} switches in {event['took_ms']:.0f} ms"
            output.print(f"{directory.name}: re-routed {what} ({event['cause']} at {event['switch']})", soft_wrap=True)


def _status(summaries: "Sequence[Summary]") -> int:
    verdicts = {str(summary.verdict) for summary in summaries}
    return VIOLATED if "violated" in verdicts else HOLDS if verdicts == {"holds"} else UNKNOWN


def campaign(arguments: Namespace) -> int:
    """Random cases in virtual time, or one of them again."""
    protocol = arguments.protocol
    _, parameters = _split_settings(arguments.set)
    _check_parameters([protocol], parameters)
    if arguments.replay:
        return _replay(protocol, arguments.replay, parameters.get(protocol, {}))
    out = arguments.out or Path("results", f"campaign-{protocol}-{datetime.now():%Y%m%d-%H%M%S}")  # noqa: DTZ005 - the user's own clock
    seeds = range(arguments.seed, arguments.seed + arguments.schedules)
    tally = _run_campaign(protocol, seeds, parameters.get(protocol, {}), arguments)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(tally) + b"\n")
    else:
        _print_tally(protocol, tally)
    for line in tally.failures[:MOST_SHRUNK]:
        with progress(f"seed {line.seed}") as show:
            show("shrinking")
            path = campaigns.keep(draw_case(protocol, line.seed, parameters.get(protocol, {}))[0], out)
        errors.print(f"seed {line.seed}: {line.reason}", soft_wrap=True, markup=False)
        errors.print(f"  replay: ./castbed campaign --protocol {protocol} --replay {line.seed}", soft_wrap=True)
        errors.print(f"  shrunk: ./castbed campaign --protocol {protocol} --replay {path}", soft_wrap=True)
    return VIOLATED if tally.failures else UNKNOWN if tally.within["unknown"] else HOLDS


def _run_campaign(protocol: str, seeds: range, parameters: dict[str, Any], arguments: Namespace) -> campaigns.Tally:
    master = f"local[{arguments.jobs}]" if arguments.jobs else arguments.spark_master
    tally = campaigns.Tally()
    with bar(f"{protocol}", len(seeds)) as advance:
        for line in campaigns.lines(_SparkStart(master).wait(), protocol, seeds, parameters):
            tally.add(line)
            advance(f"{len(tally.failures)} failures")
    return tally


def _print_tally(protocol: str, tally: campaigns.Tally) -> None:
    every = math.comb(len(TROUBLES), 2)
    output.print(
        f"{protocol}: {tally.cases} cases, {tally.events} events, {len(tally.pairs)} of {every} pairs of troubles covered"
    )
    output.print(f"  within its assumptions:  {_verdicts(tally.within)}")
    if tally.beyond:
        lost = ", ".join(f"{name} in {count}" for name, count in sorted(tally.lost_beyond.items())) or "nothing lost"
        output.print(f"  beyond them:             {_verdicts(tally.beyond)}; {lost}")


def _verdicts(verdicts: Counter[str]) -> str:
    return ", ".join(f"{verdict} {verdicts[verdict]}" for verdict in ("holds", "violated", "unknown", "empty"))


def _replay(protocol: str, what: str, parameters: dict[str, Any]) -> int:
    """One case again, from its seed or its file, with its verdict and its trace."""
    case = draw_case(protocol, int(what), parameters)[0] if what.isdigit() else cases.load(Path(what))
    result = cases.run(case)
    output.print(msgspec.json.format(msgspec.json.encode(case)).decode(), markup=False)
    output.print(judgement_table(result.judgement))
    output.print(f"trace {result.trace}", soft_wrap=True)
    return {"holds": HOLDS, "violated": VIOLATED}.get(str(result.judgement.verdict), UNKNOWN)


def check(arguments: Namespace) -> int:
    """Hold runs against what their protocols promise, from their event logs alone."""
    worst = HOLDS
    for directory in arguments.runs:
        judgement = check_run(directory)
        if arguments.json:
            sys.stdout.buffer.write(msgspec.json.encode(judgement) + b"\n")
        else:
            output.print(judgement_table(judgement))
        status = {"holds": HOLDS, "violated": VIOLATED}.get(str(judgement.verdict), UNKNOWN)
        worst = VIOLATED if VIOLATED in {worst, status} else max(worst, status)
    return worst


def list_all(arguments: Namespace) -> int:
    """Everything that can be named on a command line."""
    entries = {
        "scenarios": [(definition.name, definition.summary) for definition in catalogue.every()],
        "protocols": [(core.name, f"{core.summary}; assumes {core.assumes}") for core in PROTOCOLS.values()],
        "topologies": choices(),
    }
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode({kind: dict(rows) for kind, rows in entries.items()}) + b"\n")
        return HOLDS
    for kind, rows in entries.items():
        table = Table(title=kind, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2))
        for name, description in rows:
            table.add_row(name, description)
        output.print(table)
    return HOLDS


def examine(arguments: Namespace) -> int:
    """What this machine can and cannot do."""
    machine = doctor.examine(arguments.out or Path("results"))
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(machine) + b"\n")
    else:
        table = Table(box=None, padding=(0, 2), show_header=False)
        for finding in machine.findings:
            mark = "ok" if not finding.remedy else "missing" if finding.needed else "note"
            table.add_row(mark, finding.what, finding.state, finding.remedy)
        output.print(table)
        output.print(f"Packets are switched by the {machine.datapath} datapath; links are shaped by {machine.shaping}.")
    return UNKNOWN if machine.missing else HOLDS


def clean(arguments: Namespace) -> int:  # noqa: ARG001 - it takes no arguments
    """Unmake what runs that were killed left behind."""
    if not doctor.is_root():
        raise CannotRun("clean removes bridges and namespaces: run it with sudo")
    tags = record.clean()
    output.print(f"cleaned up after {len(tags)} dead runs: {', '.join(tags)}" if tags else "nothing to clean up")
    return HOLDS


def routes(arguments: Namespace) -> int:
    """The flows that the controller would install, and the path between any two hosts."""
    from controller.explain import explain, rows

    network = find(arguments.topology)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode([row._asdict() for row in rows(network)]) + b"\n")
    else:
        for line in explain(network):
            output.print(line, soft_wrap=True, markup=False)
    return HOLDS


def controller(arguments: Namespace) -> int:
    """Run the controller by hand, for a network that was made elsewhere."""
    from controller.log import Log
    from controller.server import run as serve

    host, port = arguments.listen
    serve(find(arguments.topology), host, port, Log(sys.stdout))


def topology(arguments: Namespace) -> int:
    """What a network is: its size, its clusters and what follows; and the network as a file or a picture."""
    network = find(arguments.topology)
    facts = {
        "name": network.name,
        "hosts": len(network.hosts),
        "switches": len(network.switches),
        "links": len(network.links),
        "expensive_links": sum(link.expensive for link in network.links),
        "clusters": network.clusters,
        "lower_bound": network.lower_bound,
    }
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(facts) + b"\n")
    else:
        _print_facts(network, facts)
    for path in arguments.save:
        _save(network, path)
        errors.print(f"wrote {path}", soft_wrap=True)
    return HOLDS


def _print_facts(network: Network, facts: dict[str, Any]) -> None:
    output.print(f"{facts['name']}: {facts['hosts']} hosts, {facts['switches']} switches, {facts['links']} links", soft_wrap=True)
    output.print(f"{facts['expensive_links']} of the links are expensive; they join {len(network.clusters)} clusters")
    output.print(f"at least {network.lower_bound} expensive packets carry a message to every cluster")
    for number, cluster in enumerate(network.clusters, start=1):
        output.print(f"  cluster {number}: {' '.join(cluster)}", soft_wrap=True)


def _save(network: Network, path: Path) -> None:
    if path.suffix in FORMATS:
        dump(network, path)
    elif path.suffix in {".png", ".svg", ".pdf"}:
        from topologies.drawing import figure

        figure(network, title=network.name).savefig(path)
    else:
        raise NetworkError(f"cannot save {path}: the name must end in {', '.join(FORMATS)}, .png, .svg or .pdf")


def test(arguments: Namespace) -> int:
    """Everything that must hold before a change is good: style, types, behaviour."""
    python = sys.executable
    steps = [
        [python, "-m", "ruff", "check", "--quiet", "."],
        [python, "-m", "ruff", "format", "--quiet", "--check", "."],
        [python, "-m", "mypy"],
        [python, "-m", "pytest", *arguments.pytest],
    ]
    for step in steps if not arguments.pytest else steps[-1:]:
        errors.print(f"castbed test: {' '.join(step[2:])}", soft_wrap=True)
        status = subprocess.run(step, cwd=ROOT, check=False).returncode
        if status != 0:
            return status
    return HOLDS


class _SparkStart:
    """Starts Spark in the background, so that its start costs the user nothing, and is over before anything is measured."""

    def __init__(self, master: str) -> None:
        self._master = master
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        from analysis.spark import start_session

        # Py4J logs every call that Ctrl-C interrupts, with a traceback; what matters comes as an exception.
        logging.disable(logging.CRITICAL)
        try:
            self._session = start_session(self._master)
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits
            self._failure = error

    def wait(self) -> "SparkSession":
        """The session, as soon as it is there."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._session


def _split_settings(pairs: Sequence[str]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """`key=value` sets a key of the scenario, `protocol.key=value` a parameter of a protocol."""
    settings: dict[str, str] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CannotRun(f"--set {pair} has no value: write --set key=value")
        protocol, dot, parameter = key.partition(".")
        if dot:
            parameters.setdefault(protocol, {})[parameter] = _number_or_text(value)
        else:
            settings[key] = value
    return settings, parameters


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _check_parameters(protocols: Sequence[str], parameters: dict[str, dict[str, Any]]) -> None:
    """Refuse unknown protocols and parameters before anything is made."""
    for protocol in (*protocols, *parameters):
        if protocol not in PROTOCOLS:
            raise CannotRun(f"there is no protocol {protocol!r}: choose from {', '.join(PROTOCOLS)}")
    for protocol, values in parameters.items():
        _check_values(PROTOCOLS[protocol], values)


def _check_values(core: type[Core], values: dict[str, Any]) -> None:
    try:
        msgspec.convert(values, core.Parameters, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(core.Parameters.__struct_fields__) or "none"
        raise CannotRun(f"protocol {core.name}: {error}; its parameters are: {known}") from None


def _directories(directory: Path, repeat: int) -> list[Path]:
    return [directory] if repeat == 1 else [directory / str(number) for number in range(1, repeat + 1)]


@contextmanager
def _removed_on_failure(out: Path) -> Iterator[None]:
    """A run that does not finish leaves no half of a result; what was there before stays."""
    before = set(out.iterdir()) if out.is_dir() else None
    try:
        yield
    except BaseException:
        for path in out.iterdir() if out.is_dir() else ():
            if before is None or path not in before:
                shutil.rmtree(path)
        if before is None and out.is_dir():
            out.rmdir()
        raise
