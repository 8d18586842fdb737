"""One run: a scenario with one protocol on an emulated network, from nothing to a result directory."""

import platform
import secrets
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from analysis.results import Capture, Fault, LinkDrops, Run
from hostagent.agent import Setting
from hostagent.protocols import PROTOCOLS
from hostagent.wire import PORT
from scenarios import LinkFault, Scenario
from testbed import record, shaping
from testbed.agents import Agents
from testbed.captures import Captures
from testbed.doctor import Machine
from testbed.emulation import Emulation, Progress, emulate
from testbed.errors import CannotRun
from testbed.shell import ip
from topologies import files

# Once nothing has arrived for this long, apart from what links delay by design, nothing is in flight.
QUIET_S = 0.3
_PACKAGES = ("ryu", "pyspark", "matplotlib", "msgspec")


@dataclass(frozen=True)
class Task:
    """What to run."""

    scenario_name: str
    scenario: Scenario
    settings: dict[str, str]
    protocol: str
    parameters: dict[str, Any]
    seed: int
    output: Path


def run(task: Task, machine: Machine, progress: Progress, before_traffic: Callable[[], None] = lambda: None) -> None:
    """Run a task and leave its result directory. `before_traffic` is called when the network is ready and still silent."""
    _make_output(task.output)
    network = task.scenario.network
    files.dump(network, task.output / "network.json")
    with record.claim() as private, ExitStack() as stack:
        emulation = stack.enter_context(emulate(network, machine, private, task.output / "controller.jsonl", progress))
        before_traffic()
        captures = Captures(emulation.plan, task.output / "captures", private)
        stack.callback(captures.kill)
        setting = _setting(task, private)
        agents = Agents(emulation.plan, setting)
        stack.callback(agents.kill)
        measured = _measure(task.scenario, emulation, captures, agents, task.output, progress)
    (task.output / "counters.json").write_bytes(msgspec.json.encode(measured.counters))
    (task.output / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(_record(task, machine, setting, measured))))


@dataclass(frozen=True)
class _Measured:
    """What came out of a run besides the files that were written during it."""

    started_ns: int
    ended_ns: int
    counters: dict[str, dict[str, int]]
    captures: tuple[Capture, ...]
    drops: tuple[LinkDrops, ...]
    problems: tuple[str, ...]


def _measure(
    scenario: Scenario, emulation: Emulation, captures: Captures, agents: Agents, output: Path, progress: Progress
) -> _Measured:
    """Let the agents broadcast, let it settle, and close the books."""
    drops_before = shaping.read_drops(emulation.plan)
    started_ns = time.time_ns()
    _play(scenario, emulation, agents, output, progress)
    progress("waiting until nothing is in flight")
    agents.hush()
    _wait_until_quiet(scenario, agents)
    counters = agents.counters()
    agents.stop()
    problems = [*agents.deaths, *(f"the capture {file} ended early" for file in captures.dead())]
    return _Measured(
        started_ns, time.time_ns(), counters, captures.stop(), _drops_since(emulation, drops_before), tuple(problems)
    )


def _play(scenario: Scenario, emulation: Emulation, agents: Agents, output: Path, progress: Progress) -> None:
    """Do everything in its time: broadcasts and faults, then wait for the rest of the settling time."""
    workload = scenario.workload
    timeline: list[tuple[float, LinkFault | int]] = [(number * workload.interval, number) for number in range(workload.messages)]
    timeline += [(fault.at_ms, fault) for fault in scenario.faults]
    timeline.sort(key=lambda item: item[0])
    start = time.monotonic()
    with (output / "faults.jsonl").open("wb") as faults:
        for at_ms, action in timeline:
            _sleep_until(start + at_ms / 1000, agents, emulation)
            if isinstance(action, LinkFault):
                faults.write(msgspec.json.encode(_inject(action, emulation)) + b"\n")
                faults.flush()
            else:
                progress(f"broadcasting {action + 1} of {workload.messages}")
                agents.broadcast(scenario.sources[action % len(scenario.sources)], _payload(action, workload.payload))
    progress("letting it settle")
    _sleep_until(start + (timeline[-1][0] + workload.settle) / 1000, agents, emulation)


def _payload(number: int, size: int) -> bytes:
    return f"message {number + 1} ".encode().ljust(size, b".")[:size]


def _sleep_until(moment: float, agents: Agents, emulation: Emulation) -> None:
    """Sleep, with an eye on the agents and the controller."""
    while (left := moment - time.monotonic()) > 0:
        agents.notice(wait_s=min(left, 0.25))
        emulation.controller.check()


def _inject(fault: LinkFault, emulation: Emulation) -> Fault:
    """Take a link down or up at its end `a`; see testbed.captures for why that end."""
    link = emulation.network.link(fault.a, fault.b)
    asked_ns = time.time_ns()
    ip([f"link set {emulation.plan.end(link.a, link.b).interface} {'up' if fault.up else 'down'}"])
    return Fault(fault=fault.name, target=link.name, asked_ns=asked_ns, applied_ns=time.time_ns())


def _wait_until_quiet(scenario: Scenario, agents: Agents) -> None:
    """Wait until no counter moves for longer than any packet can be under way."""
    longest_delay_ms = max(link.delay_ms + link.jitter_ms for link in scenario.network.links)
    quiet_s = QUIET_S + longest_delay_ms * len(scenario.network.switches) / 1000
    before: object = None
    while before != (now := agents.counters()):
        before = now
        agents.notice()
        time.sleep(quiet_s)


def _drops_since(emulation: Emulation, before: dict[tuple[str, str], shaping.Drops]) -> tuple[LinkDrops, ...]:
    now = shaping.read_drops(emulation.plan)
    return tuple(
        LinkDrops(source, target, drops.loss - before[source, target].loss, drops.queue - before[source, target].queue)
        for (source, target), drops in now.items()
    )


def _make_output(output: Path) -> None:
    try:
        output.mkdir(parents=True)
        (output / "events").mkdir()
    except FileExistsError:
        raise CannotRun(f"{output} exists already: choose another directory with --out, or remove it") from None
    except OSError as error:
        raise CannotRun(f"cannot write {output}: {error.strerror}") from None


def _setting(task: Task, private: Path) -> Setting:
    return Setting(
        run=secrets.randbits(32),
        protocol=task.protocol,
        parameters=task.parameters,
        seed=task.seed,
        port=PORT,
        addresses=dict(task.scenario.network.addresses),
        events=str(task.output.absolute() / "events"),
        private=str(private),
    )


def _record(task: Task, machine: Machine, setting: Setting, measured: _Measured) -> Run:
    core = PROTOCOLS[task.protocol]
    return Run(
        run=setting.run,
        scenario=task.scenario_name,
        protocol=task.protocol,
        engine="mininet",
        seed=task.seed,
        settings=dict(task.settings),
        parameters=msgspec.to_builtins(msgspec.convert(task.parameters, core.Parameters)),
        guarantees=tuple(sorted(core.guarantees)),
        udp_port=setting.port,
        started_ns=measured.started_ns,
        ended_ns=measured.ended_ns,
        versions=versions(),
        datapath=machine.datapath,
        shaping=machine.shaping,
        captures=measured.captures,
        link_drops=measured.drops,
        problems=measured.problems,
    )


def versions() -> dict[str, str]:
    """What this run stands on."""
    vswitch = subprocess.run(["ovs-vsctl", "--version"], capture_output=True, text=True, check=True).stdout.split("\n", 1)[0].split()[-1]
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "open vswitch": vswitch,
        **{package: metadata.version(package) for package in _PACKAGES},
    }
