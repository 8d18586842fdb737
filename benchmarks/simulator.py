"""The simulator's events per second compared with a bare heap, and how its time and memory grow with the network.

The run is `basic` on a tree of LANs of ten hosts each, a hundred messages from one source: from 50 hosts to a thousand. Every measurement
is a process of its own. The bare heap is the least that any simulator in Python does: in the same process, it pushes as many tuples of
time, serial number, function and arguments on a heap, at times in no order, pops them again, and calls functions that do nothing.

Times are processor time. Memory is the growth of the process from before the run to its peak, with everything that the run keeps.
"""

import argparse
import heapq
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks import report
from hostagent.protocols.basic import Basic
from scenarios import Scenario, Workload
from simulator.engine import simulate
from testbed.errors import CannotRun
from testbed.terminal import errors
from topologies import clusters

LAN = 10
HOSTS = (50, 100, 200, 500, 1000)
# At 10 Mbit/s the links at the source need a quarter of a second for a thousand copies: no queue overflows.
WORKLOAD = Workload(messages=100, interval=500.0, payload=64)
# An event queues a packet on a link and routes it at a switch, or lets a protocol react to it: that may take twenty times the heap's time.
EVENTS_TARGET = 1 / 20
# An event costs about the same in a network of any size, and so does a host.
GROWTH_TARGET = 2.0
# How many events wait in the heap of the bare loop.
DEPTH = 1000


def measured(hosts: int) -> dict[str, float]:
    """Simulate one network, then run the bare heap for as many events."""
    # Queues hold a copy for every host, so that the simulator is measured and not how `basic` repairs its own bursts.
    network = clusters(hosts // LAN, LAN, "tree", queue_packets=2 * hosts)
    scenario = Scenario(network=network, workload=WORKLOAD)
    before_kb = _peak_kb()
    start_s = time.process_time()
    outcome = simulate(scenario, Basic, Basic.Parameters(), seed=1)
    took_s = time.process_time() - start_s
    grown_kb = _peak_kb() - before_kb
    delivered = sum(counters["delivered"] for counters in outcome.counters.values())
    if delivered != hosts * WORKLOAD.messages:
        raise CannotRun(f"{delivered} deliveries instead of {hosts * WORKLOAD.messages}: there is nothing to compare")
    events = outcome.world.events_done
    return {"events": events, "seconds": took_s, "kilobytes": grown_kb, "bare_seconds": bare_heap(events)}


def bare_heap(events: int) -> float:
    """The seconds that a heap takes for this number of empty events."""
    heap = [(serial, serial, _nothing, (None, None, 0)) for serial in range(DEPTH)]
    start_s = time.process_time()
    for serial in range(DEPTH, DEPTH + events):
        at_ns, _, call, arguments = heapq.heappop(heap)
        call(*arguments)
        # Delays vary like those of packets: a heap whose times only grow has nothing to sort.
        heapq.heappush(heap, (at_ns + serial * 7919 % 10007, serial, _nothing, (None, None, 0)))
    return time.process_time() - start_s


def _nothing(*_arguments: object) -> None:
    pass


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _in_process(hosts: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.simulator", "--hosts", str(hosts)]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if process.returncode:
        raise CannotRun(f"the simulation of {hosts} hosts failed, see above")
    return dict(json.loads(process.stdout))


def measure(arguments: argparse.Namespace) -> report.Result:
    """Measure every size in turn, several times."""
    runs: dict[int, list[dict[str, Any]]] = {hosts: [] for hosts in HOSTS}
    for number in range(arguments.repeat):
        for hosts in HOSTS if number % 2 == 0 else HOSTS[::-1]:
            errors.print(f"{hosts} hosts, {number + 1} of {arguments.repeat}")
            runs[hosts].append(_in_process(hosts))
    least, most = HOSTS[0], HOSTS[-1]
    speed = report.Comparison(
        f"events at {most:,} hosts; yardstick: bare heap",
        "/s",
        [run["events"] / run["seconds"] for run in runs[most]],
        [run["events"] / run["bare_seconds"] for run in runs[most]],
        EVENTS_TARGET,
        more_is_better=True,
    )
    growth = [
        report.Comparison(f"{what} at {hosts:,} hosts", unit, _each(runs[hosts], what), _each(runs[least], what), target)
        for what, unit in (("time per event", "us"), ("memory per host", "kB"))
        for hosts in HOSTS[1:]
        for target in [GROWTH_TARGET if hosts == most else None]
    ]
    median_s = {hosts: statistics.median(run["seconds"] for run in runs[hosts]) for hosts in HOSTS}
    notes = [f"{hosts:,} hosts: {runs[hosts][0]['events']:,} events in {median_s[hosts]:.2f} s" for hosts in HOSTS]
    return report.Result("The simulator", f"bare heap, {least} hosts", (speed, *growth), notes)


def _each(runs: list[dict[str, Any]], what: str) -> list[float]:
    if what == "time per event":
        return [1e6 * run["seconds"] / run["events"] for run in runs]
    return [run["kilobytes"] / run["hosts"] for run in runs]


def main() -> int:
    """Run the benchmark, or one measurement of it."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.simulator", description="The simulator against a bare heap, and from 50 hosts to a thousand."
    )
    parser.add_argument("--repeat", type=report.positive, default=3, metavar="N", help="take the median of N (default 3)")
    parser.add_argument("--hosts", type=report.positive, metavar="N", help="measure one network of N hosts once, and print JSON")
    one, _ = parser.parse_known_args()
    if one.hosts:
        print(json.dumps({"hosts": one.hosts, **measured(one.hosts)}))
        return report.MET
    return report.main(parser, measure)


if __name__ == "__main__":
    sys.exit(main())
