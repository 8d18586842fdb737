"""The commands run, demo, replay and analyse. Every function of a command returns the exit status."""

import dataclasses
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from analysis.crew import Crew
from analysis.figures.claims import Claim, MeasuredRun, read_claims, status_word, write_claims
from analysis.figures.hints import hints
from analysis.figures.repeats import Group, grouped
from analysis.pages.terminal_tables import claims_table, summary_table, told_of
from hostagent.runtime import own
from hostagent.runtime.guests.catalogue import PREFIX
from runfiles.format import OWN_PROTOCOL
from runfiles.reading import RunInput, runs_in
from runfiles.reading import load as load_run
from scenarios import Variant, catalogue
from scenarios.faults import load as load_faults
from scenarios.scenario import load as load_scenario
from testbed.commands.compare import about
from testbed.commands.sharing import opened
from testbed.errors import CannotRun
from testbed.network import vm
from testbed.ownership import hand_over
from testbed.running import engines
from testbed.running.settings import check_parameters, choose, split_settings
from testbed.running.tasks import Task, is_finished, unfinished_removed
from testbed.status import HOLDS, status_of
from testbed.terminal import errors, output, print_sentence, print_table, progress


def run(arguments: Namespace) -> int:
    """Run a scenario with each chosen protocol, then analyse and compare the runs."""
    definition = catalogue.find(arguments.scenario)
    settings, parameters = split_settings(arguments.set)
    more_faults = load_faults(arguments.faults) if arguments.faults else ()
    variants = choose(definition.build(settings), arguments.protocol or (), parameters)
    out = arguments.out or new_results(definition.name)
    tasks = [
        Task(
            definition.name,
            dataclasses.replace(variant.scenario, faults=(*variant.scenario.faults, *more_faults)),
            settings,
            variant.protocol,
            dict(variant.parameters),
            arguments.seed + repeat,
            directory,
            variant.label,
            arguments.pack,
            variant.medium or arguments.medium,
            arguments.full_packets,
        )
        for variant in variants
        for repeat, directory in enumerate(_directories(out / variant.label, arguments.repeat))
    ]
    return _run_all(tasks, arguments.on, out, definition, arguments)


def replay(arguments: Namespace) -> int:
    """Repeat recorded runs: the same scenario, packing, medium and seed, with the same protocol and parameters or with others."""
    place = opened(arguments.run)
    runs = [load_run(directory) for directory in runs_in([place])]
    name = _the_same(place, "scenarios", {recorded.run.scenario for recorded in runs}, "replay them one by one")
    engine = arguments.on or _the_same(place, "engines", {recorded.run.engine for recorded in runs}, "choose one with --on")
    out = arguments.out or new_results(f"{Path(name).name}-replay")
    # Runs with seeds N, N+1, ... keep the differences between their seeds.
    shift = 0 if arguments.seed is None else arguments.seed - min(recorded.run.seed for recorded in runs)
    settings, parameters = split_settings(arguments.set)
    if settings or (parameters and not arguments.protocol):
        raise CannotRun(
            "a replay is as it was recorded: beside --protocol, --set takes PROTOCOL.PARAMETER=VALUE, and nothing else"
        )
    protocols = [own.find(word) for word in arguments.protocol or ()]
    check_parameters(protocols, parameters)
    tasks = [
        _again(recorded, place, out, shift, arguments, protocol, parameters.get(protocol, {}))
        for protocol in dict.fromkeys(protocols or [""])
        for recorded in runs
    ]
    # Runs that differ in the protocol alone become the same.
    tasks = list({task.output: task for task in tasks}.values())
    # What the scenario claims is about its own protocols.
    definition = catalogue.find(name) if name in catalogue.names() and not protocols else None
    return _run_all(tasks, engine, out, definition, arguments)


def _the_same(place: Path, what: str, found: set[str], remedy: str) -> str:
    """The value that all runs have in common; several values are refused."""
    if len(found) > 1:
        raise CannotRun(f"{place} holds runs of several {what} ({', '.join(sorted(found))}): {remedy}")
    return found.pop()


def _again(
    recorded: RunInput,
    place: Path,
    out: Path,
    seed_shift: int,
    arguments: Namespace,
    other: str = "",
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> Task:
    """The task that repeats a run, with its own protocol or another one, checked like a user's input.

    Its results have the same place in `out` as the run has in `place`, but for the label, which names another protocol.
    """
    run, asked = recorded.run, recorded.directory / "scenario.json"
    if not asked.exists():
        raise CannotRun(
            f"{recorded.directory} has no scenario.json, as it was recorded by an early version: "
            f"run the scenario again with ./castbed run {run.scenario}"
        )
    protocol = other or _recorded_protocol(recorded, trusted=arguments.trust)
    is_same = not other or other == run.protocol
    label, output = run.label or run.protocol, out / _place_of(recorded, place)
    if not is_same:
        label = other if label == run.protocol else f"{label}-{other}"
        # Repeats are numbered below their label.
        output = out / label / (output.name if output.name.isdigit() else "")
    values = {**(run.parameters if is_same else {}), **parameters}
    (variant,) = choose([Variant(label, load_scenario(asked, recorded.network), protocol, values)], (), {})
    return Task(
        run.scenario,
        variant.scenario,
        run.settings,
        variant.protocol,
        dict(variant.parameters),
        run.seed + seed_shift,
        output,
        label,
        run.pack_ms,
        arguments.medium or run.medium,
        arguments.full_packets,
    )


def _place_of(recorded: RunInput, place: Path) -> Path:
    label = recorded.run.label or recorded.run.protocol
    return Path(label) if recorded.directory == place else recorded.directory.relative_to(place)


def _recorded_protocol(recorded: RunInput, *, trusted: bool) -> str:
    """The protocol of a run. One that came with the run is a program from anywhere, and is loaded only if the user trusts it."""
    name = recorded.run.protocol
    if recorded.run.guest:
        return f"{PREFIX}{name}"
    files = {file.stem: file for file in (recorded.directory / OWN_PROTOCOL).glob("*")}
    if name not in files:
        # The record may name any file as its protocol.
        check_parameters([name], {})
        return name
    if not trusted:
        raise CannotRun(
            f"{files[name]} came with the run, and a replay would execute it: "
            "read it and add --trust, or give a file with --protocol"
        )
    if recorded.run.program is None:
        return str(files[name])
    # An archive does not say which files are programs.
    files[name].chmod(0o755)
    return f"{own.MAELSTROM}{shlex.join([str(files[name]), *recorded.run.program])}"


def new_results(name: str) -> Path:
    """The default directory for results."""
    return Path("results", f"{name}-{datetime.now():%Y%m%d-%H%M%S}")  # noqa: DTZ005 - the user's own clock


def _run_all(tasks: Sequence[Task], engine: str, out: Path, definition: catalogue.Definition | None, arguments: Namespace) -> int:
    status, crew = HOLDS, None
    outputs = [task.output for task in tasks]
    hand_over(out)
    with kept_runs_told(outputs, out):
        if engine == "mininet" and arguments.vm_words is not None:
            status, crew = in_guest(arguments.vm_words, outputs, out, arguments.spark_master)
        else:
            crew = _measure(tasks, engines.find(engine, out), out, arguments.spark_master)
        if crew is None:
            return status
        return analyse_runs(outputs, crew, out, definition, as_json=arguments.json)


def _measure(tasks: Sequence[Task], engine: engines.Engine, out: Path, master: str | None) -> Crew | None:
    """Run every task. In a guest of `castbed vm` Spark is not started, as the process outside analyses the runs."""
    for task in tasks:
        engine.refuse_impossible(task)
    networks = dict.fromkeys(task.scenario.network.name for task in tasks)
    errors.print(f"{', '.join(networks)}: {engine.about}; results in {out}", soft_wrap=True)
    crew = None if vm.is_guest() else Crew(master)
    before_traffic = crew.session if crew else vm.wait_for_host
    if crew and engine.captures:
        crew.begin()
    for task in tasks:
        with progress(f"{task.scenario_name}, {task.label}, seed {task.seed}") as show:
            engine.run(task, show, before_traffic)
    return crew


def in_guest(
    words: Sequence[str], outputs: Sequence[Path], out: Path, master: str | None, *, reads: bool = False
) -> tuple[int, Crew | None]:
    """Run the tasks in a virtual machine. If that fails, the guest has printed the reason, and there is nothing to analyse."""
    crew = Crew(master)
    crew.begin()
    # A guest that is killed does not remove its unfinished runs.
    with unfinished_removed(*outputs):
        status = vm.run([*words, "--out", str(out)], crew.session, reads=reads)
    return status, crew if status == HOLDS else None


def demo(arguments: Namespace) -> int:
    """Run the scenario clusters with its protocols."""
    arguments.scenario, arguments.protocol = "clusters", None
    return run(arguments)


def analyse(arguments: Namespace) -> int:
    """Analyse runs that exist, from this machine or another. Needs no root."""
    places = [opened(place) for place in arguments.runs]
    directories = runs_in(places)
    crew = Crew(arguments.spark_master)
    crew.begin_for([load_run(directory) for directory in directories])
    out = arguments.out or places[0]
    hand_over(*directories, out)
    return analyse_runs(directories, crew, out, as_json=arguments.json)


def analyse_runs(
    directories: Sequence[Path], crew: Crew, out: Path, definition: catalogue.Definition | None = None, *, as_json: bool
) -> int:
    """Analyse runs, evaluate the claims of their scenario, and write the report."""
    with progress("analysis") as show:
        from analysis import job

        summaries = job.analyse(directories, crew, show)
        runs = [MeasuredRun(load_run(directory), summary) for directory, summary in zip(directories, summaries, strict=True)]
        groups = grouped(runs)
        plots = job.compare({group.name: group.summaries for group in groups}, out / "plots")
    if not as_json:
        _tell(runs)
    claims = definition.conclude(runs) if definition else read_claims([out])
    if definition and claims:
        write_claims(claims, out)
    if definition and (sweeps := definition.pictures(runs)):
        plots += job.draw(sweeps, out / "plots")
    report = _report(groups, claims, out, definition)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode({"runs": summaries, "claims": claims}) + b"\n")
    else:
        if claims:
            print_table(claims_table(claims))
        for plot in (*plots, *(directory / "plots" for directory in directories), report):
            output.print(f"  {plot}", soft_wrap=True)
    return status_of((*(summary.verdict for summary in summaries), *map(status_word, claims)))


def _report(groups: Sequence[Group], claims: Sequence[Claim], out: Path, definition: catalogue.Definition | None) -> Path:
    """Write the page of the report, with the plots that exist and a picture of the network."""
    from analysis.figures.comparison import compared
    from analysis.pages import gallery, report

    runs = [run for group in groups for run in group.runs]
    known = {definition.name: definition.summary} if definition else about(runs)
    pictures, networks = gallery.of_analysis(groups, out / "plots"), gallery.networks(runs, out / "plots")
    return report.write(report.Page(groups, compared(groups, "label"), pictures, networks, claims, known), out)


def _tell(runs: Sequence[MeasuredRun]) -> None:
    """Print the figures of runs, the reasons for their verdicts, and what the controller did about failures."""
    summaries = [run.summary for run in runs]
    print_table(summary_table(summaries))
    for line in told_of(summaries, lambda summary: summary.verdict_reasons):
        print_sentence(line)
    for hint in hints((run.input, run.summary.checks) for run in runs):
        print_sentence(hint)
    for run in runs:
        _tell_rerouting(run.directory)


def _tell_rerouting(directory: Path) -> None:
    """Print how long the controller took to route around each failure; its log has the details."""
    log = directory / "controller.jsonl"
    for event in map(msgspec.json.decode, log.read_bytes().splitlines() if log.exists() else ()):
        if event["event"] == "rerouted" and event["flows_changed"]:
            what = f"{event['flows_changed']} flows on {event['switches']} switches in {event['took_ms']:.0f} ms"
            print_sentence(f"{directory.name}: re-routed {what} ({event['cause']} at {event['switch']})")


def _directories(directory: Path, repeat: int) -> list[Path]:
    return [directory] if repeat == 1 else [directory / str(number) for number in range(1, repeat + 1)]


@contextmanager
def kept_runs_told(outputs: Sequence[Path], out: Path, remedy: str = "analyse them with ./castbed analyse {}") -> Iterator[None]:
    """If the body fails or is interrupted, print how many of its runs are finished, where they are and what to do with them."""
    before = set(filter(is_finished, outputs))
    try:
        yield
    except BaseException:
        if kept := sum(is_finished(output) for output in outputs if output not in before):
            told = f"castbed: {kept} of {len(outputs)} runs are finished and kept in {out}; {remedy.format(out)}"
            errors.print(told, soft_wrap=True)
        raise
