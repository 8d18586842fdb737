"""The highest rate that each protocol sustains, beside bare UDP and Corosync, on the same emulated network with the same captures.

A protocol keeps up with a rate if all messages are delivered everywhere, at 90 % of the offered rate or more, and 99 % of the deliveries
come within `BOUND_MS` of the moment at which the message was offered. A rate with which it nearly does is tried once more. The highest of
the rates tried with which it keeps up is the knee, to within a seventh. Then it is offered twice as much: what it achieves is its rate past
the knee. Bare UDP sends each message by itself, with a window and without offers: its rate, the median of `TRIES`, is the knee and what is
past it, and the first rate that the others are offered.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

from analysis.crew import Crew
from analysis.figures.load import completed_ns, rate_of
from analysis.judging.check_run import history_of
from analysis.tables.deliveries import deliveries
from analysis.tables.scan import scan_events
from benchmarks import report
from benchmarks.yardsticks import bare_broadcast
from hostagent.contract.wire import ROOM_IN_PACK
from hostagent.runtime.guests.catalogue import GUESTS
from runfiles.reading import load as load_run
from scenarios import Variant
from scenarios.scenario import Scenario, Workload
from testbed.network import doctor, record, shell
from testbed.network.doctor import Machine
from testbed.network.emulation import emulate
from testbed.running import runner
from testbed.running.captures import Captures
from testbed.running.settings import choose
from testbed.running.tasks import Task
from testbed.terminal import Progress, errors
from topologies import find

NETWORKS = {"one LAN": "lan:hosts=5", "three LANs": "clusters:k=3,size=2,shape=ring"}
PROTOCOLS = ("basic", "cluster-tree", "sequencer", "totem", "counter")
ORDERED = frozenset({"sequencer", "totem", "counter"})
BARE, COROSYNC = "bare UDP", "guest:corosync"
FIRST_RATE = 8000.0
STEP = 4 / 3
FAR = 4
"""By so much less is offered after a rate of which less than half is achieved."""
LOWEST_RATE, HIGHEST_RATE = 100.0, 60_000.0
BOUND_MS = 100.0
KEPT_UP = 0.9
TRIES = 3
STREAM_S = 2.0
# What is offered before counts for nothing: trees and rings form meanwhile.
WARM_UP_S = 0.5


@dataclass(frozen=True)
class Case:
    """What is measured."""

    network: str
    payload: int
    sources: str

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.network}, {self.payload} bytes, {self.sources}"


@dataclass(frozen=True)
class Point:
    """One run at an offered rate."""

    offered: float
    achieved: float
    p99_ms: float
    whole: bool
    processor_ms: Mapping[str, float]
    """For each part, the processor time per message."""

    @property
    def is_far_off(self) -> bool:
        """Whether less than half of the rate is achieved, so that one little lower need not be tried."""
        return 2 * self.achieved < self.offered

    @property
    def keeps_up(self) -> bool:
        """Whether the rate is sustained."""
        return self.whole and self.achieved >= KEPT_UP * self.offered and self.p99_ms <= BOUND_MS


@dataclass(frozen=True)
class Found:
    """The rates of one protocol, in messages a second, and the processor time per message at the knee."""

    knee: float
    past: float
    processor_ms: Mapping[str, float]


def run_once(case: Case, protocol: str, rate: float, machine: Machine) -> Point:
    """Offer a protocol a rate, and see what comes of it."""
    network = find(NETWORKS[case.network])
    sources = network.hosts if case.sources == "all sources" else network.hosts[:1]
    workload = Workload(
        messages=round(rate * STREAM_S), interval=1000 / rate, payload=case.payload, warm_up=1500.0, settle=1500.0
    )
    (variant,) = choose(
        [Variant("saturation", Scenario(network=network, workload=workload, sources=sources), protocol, {})], (), {}
    )
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, "run")
        task = Task("saturation", variant.scenario, {}, variant.protocol, dict(variant.parameters), 1, place)
        used: dict[str, float] = {}

        def play(stage: runner.Stage, progress: Progress) -> None:
            before = _used_s(stage)
            runner.play_scenario(stage, progress)
            used.update({part: spent - before[part] for part, spent in _used_s(stage).items()})

        runner.run(task, machine, lambda *_: None, play=play)
        recorded = load_run(place)
        history, events = history_of(recorded), scan_events(Crew(), [recorded])
    due = {one.message: one.at_ns - one.late_ms * 1e6 for one in history.broadcasts}
    warm_ns = min(due.values(), default=0) + WARM_UP_S * 1e9
    delivered = deliveries(events.filter(events["report"].is_null()))
    moments = zip(*(delivered[name].to_pylist() for name in ("origin", "sequence", "delivered_ns")), strict=True)
    # None for what came before the tree or the ring stood: that it is caught up with later is no rate that anybody sustains.
    delays = [(at_ns - due_ns) / 1e6 if (due_ns := due[*message]) > warm_ns else None for *message, at_ns in moments]
    counted = pa.array(delays, pa.float64())
    ends_ns = completed_ns(history, delivered.filter(counted.is_valid()))
    late_ms = counted.drop_null().to_numpy()
    return Point(
        offered=rate,
        achieved=rate_of(ends_ns) or 0.0,
        p99_ms=float(np.quantile(late_ms, 0.99)) if len(late_ms) else np.inf,
        whole=len(completed_ns(history, delivered)) == len(due) and not history.held_back,
        processor_ms={part: 1000 * spent / max(1, len(due)) for part, spent in used.items()},
    )


def _used_s(stage: runner.Stage) -> dict[str, float]:
    """The processor time so far of the agents, the switch daemon, the captures and the testbed itself."""
    return {
        "agents": sum(map(report.cpu_s, stage.agents.processes)),
        "switches": report.cpu_s(stage.emulation.vswitch.process or 0),
        "captures": sum(map(report.cpu_s, stage.captures.processes)),
        "testbed": report.cpu_s(os.getpid()),
    }


def find_knee(case: Case, protocol: str, first_rate: float, machine: Machine) -> Found:
    """The highest rate that is sustained, found step by step from a first one, and what is achieved when twice as much is offered."""

    def tried(rate: float) -> Point:
        point = run_once(case, protocol, rate, machine)
        missing = "" if point.whole else ", not all delivered everywhere"
        errors.print(f"  {point.offered:,.0f} offered, {point.achieved:,.0f} achieved, p99 {point.p99_ms:.1f} ms{missing}")
        return point

    def tried_again(rate: float) -> Point:
        point = tried(rate)
        return point if point.keeps_up or point.is_far_off else tried(rate)

    point, too_much = tried_again(first_rate), HIGHEST_RATE
    while not point.keeps_up and point.offered > LOWEST_RATE:
        too_much = point.offered
        point = tried_again(too_much / (FAR if point.is_far_off else STEP))
    knee = point if point.keeps_up else None
    while knee and (rate := knee.offered * STEP) < 0.99 * too_much:
        if not (point := tried_again(rate)).keeps_up:
            too_much = rate
        else:
            knee = point
    if knee and (between := tried_again(knee.offered * STEP**0.5)).keeps_up:
        knee = between
    past = tried(2 * (knee.offered if knee else LOWEST_RATE))
    return Found(knee.achieved if knee else 0.0, past.achieved, (knee or past).processor_ms)


def bare(case: Case, machine: Machine) -> Found:
    """Bare UDP on the same network, with captures. It has no rate if it loses a datagram each time."""
    found = [one for _ in range(TRIES) if (one := _bare_once(case, machine)) is not None]
    return sorted(found, key=lambda one: one.knee)[len(found) // 2] if found else Found(0.0, 0.0, {})


def _bare_once(case: Case, machine: Machine) -> Found | None:
    network = find(NETWORKS[case.network])
    sources = network.hosts if case.sources == "all sources" else network.hosts[:1]
    # Whole batches are acknowledged.
    messages = 10_000 // len(sources) // bare_broadcast.EVERY * bare_broadcast.EVERY
    with tempfile.TemporaryDirectory() as directory, record.claim() as private, ExitStack() as stack:
        emulation = stack.enter_context(emulate(network, machine, private, Path(directory, "log"), lambda *_: None))
        captures = Captures(emulation.plan, Path(directory, "captures"), private, everything=True)
        stack.callback(captures.kill)
        processes = {}
        for host in network.hosts:
            peers = [address for other, address in network.addresses.items() if other != host]
            own = [str(messages if host in sources else 0), str(case.payload), network.addresses[host], *peers]
            command = [sys.executable, "-m", "benchmarks.yardsticks.bare_broadcast", *own]
            inside = ["nsenter", f"--net={emulation.plan.namespace_path(host)}"]
            processes[host] = stack.enter_context(_started([*shell.WITH_US, *inside, *command]))
        for process in processes.values():
            _line(process)
        for process in processes.values():
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [_line(processes[host]) for host in sources]
        if "" in said:
            return None
        took_s = max(map(float, said))
        spent_s = sum(report.cpu_s(process.pid) for process in processes.values())
        for process in processes.values():
            process.kill()
    rate = messages * len(sources) / took_s
    return Found(rate, rate, {"agents": 1000 * spent_s / (messages * len(sources))})


def _started(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """What the user asked for; by default everything."""
    for network, payload, sources in product(arguments.network or NETWORKS, arguments.payload, ("one source", "all sources")):
        if not arguments.sources or sources.startswith(arguments.sources):
            yield Case(network, payload, sources)


def measure(arguments: argparse.Namespace) -> report.Result:
    """Measure every protocol in every case."""
    machine = doctor.require(Path(tempfile.gettempdir()))
    peers = [COROSYNC] if GUESTS["corosync"].is_installed else []
    notes = ["| | | knee | past it | processor time per message, ms |", "|---|---|---:|---:|---|"]
    comparisons: list[report.Comparison] = []
    for case in cases(arguments):
        found: dict[str, Found] = {}
        first_rate = FIRST_RATE
        for protocol in (BARE, *peers, *arguments.protocol):
            errors.print(f"{case.name}: {protocol}")
            if protocol == BARE:
                rates = bare(case, machine)
                first_rate = rates.knee or FIRST_RATE
            else:
                rates = find_knee(case, protocol, first_rate, machine)
            found[protocol] = rates
            parts = ", ".join(f"{part} {spent:.3f}" for part, spent in rates.processor_ms.items())
            notes.append(f"| {case.name} | {protocol} | {rates.knee:,.0f} | {rates.past:,.0f} | {parts} |")
        comparisons += _comparisons(case, found)
    return report.Result("Messages a second", "yardstick", comparisons, notes)


def _comparisons(case: Case, found: Mapping[str, Found]) -> Iterator[report.Comparison]:
    """The targets are for one source on one LAN, and short messages, which share packets; elsewhere the ratios are only shown."""
    is_asked = case.network == "one LAN" and case.sources == "one source" and 2 * case.payload < ROOM_IN_PACK
    for protocol, rates in found.items():
        if protocol in {BARE, COROSYNC}:
            continue
        for peer, target in ((BARE, 1.0), (COROSYNC, 1.3)):
            if peer in found and found[peer].knee and (peer == COROSYNC or protocol not in ORDERED):
                least = 1.0 if protocol in ORDERED else target
                what = f"{case.name}: {protocol}, of {peer.removeprefix('guest:')}"
                yield _compared(what, rates.knee, found[peer].knee, least if is_asked else None)
        if rates.knee:
            yield _compared(f"{case.name}: {protocol} past the knee, of the knee", rates.past, rates.knee, 0.8)


def _compared(what: str, ours: float, yardstick: float, target: float | None) -> report.Comparison:
    return report.Comparison(what, "/s", [ours], [yardstick], target, more_is_better=True)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.saturation", description=__doc__.splitlines()[0])
    parser.add_argument("--network", action="append", choices=NETWORKS, help="only this network")
    parser.add_argument("--payload", type=report.positive, nargs="+", default=(64, 1024), help="bytes of a message")
    parser.add_argument("--sources", choices=("one", "all"), help="only one source, or all hosts")
    parser.add_argument("--protocol", nargs="+", default=PROTOCOLS, help="protocols to measure")
    return report.main(parser, measure)


if __name__ == "__main__":
    sys.exit(main())
