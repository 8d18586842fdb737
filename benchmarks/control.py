"""Control packets between clusters, frugal compared with literal, from fifty hosts to a thousand: how the cluster tree's overhead grows.

LANs of ten hosts each in a tree, twenty messages a second from one source, in virtual time, so that other load of the machine does not
matter. Control packets from host to host that cross an expensive link are counted, per second, once the tree stands. The yardstick for
the growth is the number of clusters. With `--plot FILE` both modes are drawn, as PNG and SVG.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from analysis.figures.claims import Sweep
from analysis.pictures import plots
from benchmarks import report
from hostagent.contract.messages import Purpose
from hostagent.contract.wire import leading
from hostagent.protocols.cluster_tree import ClusterTree
from scenarios import Scenario, Workload
from simulator.engine import simulate
from simulator.pipe import Pipe
from simulator.world import Packet
from testbed.errors import CannotRun
from testbed.terminal import errors
from topologies import clusters

LAN: Final = 10
HOSTS: Final = (50, 100, 200, 500, 1000)
INTERVAL_MS: Final = 50.0
# Seconds until the tree stands, and seconds for which packets are then counted. The source meets some twenty clusters a second. In literal
# mode all hosts send to all from the first second on, and at a thousand hosts each second takes a million packets.
STANDS_S: Final = {"frugal": 15.0, "literal": 2.0}
COUNTED_S: Final = {"frugal": 10.0, "literal": 2.0}
# A leader sends a report and a probe every two seconds, whatever the size of the network. Each first probe to a cluster is answered, which
# with a hundred clusters goes on for minutes and adds half as much again.
GROWTH_TARGET: Final = 1.5


def packets_per_second(mode: str, hosts: int) -> float:
    """Simulate one network. Returns the control packets over expensive links per second."""
    since_ns = STANDS_S[mode] * 1e9
    seen: set[tuple[str, int]] = set()

    def count(at_ns: int, pipe: Pipe, packet: Packet) -> None:
        if pipe.expensive and at_ns >= since_ns and leading(packet.parts).purpose is Purpose.CONTROL:
            seen.add((packet.sender, packet.number))

    messages = round(1000 * (STANDS_S[mode] + COUNTED_S[mode]) / INTERVAL_MS)
    # Queues hold all packets of a period, so that packets sent are counted and not those that get through.
    network = clusters(hosts // LAN, LAN, "tree", queue_packets=10 * hosts)
    workload = Workload(messages=messages, interval=INTERVAL_MS, payload=64, settle=0.0)
    parameters = msgspec.convert({"mode": mode}, ClusterTree.Parameters)
    simulate(Scenario(network=network, workload=workload), ClusterTree, parameters, seed=1, on_crossing=count)
    return len(seen) / COUNTED_S[mode]


def _in_process(mode: str, hosts: int) -> float:
    errors.print(f"{mode}, {hosts:,} hosts")
    command = [sys.executable, "-m", "benchmarks.control", "--mode", mode, "--hosts", str(hosts)]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if process.returncode:
        raise CannotRun(f"the simulation of {hosts} hosts failed, see above")
    return float(json.loads(process.stdout))


def measure(arguments: argparse.Namespace) -> report.Result:
    """Measure every size in both modes, once, since virtual time is deterministic."""
    sizes = [hosts for hosts in HOSTS if hosts <= arguments.most_hosts]
    found = {mode: {hosts: _in_process(mode, hosts) for hosts in sizes} for mode in ("frugal", "literal")}
    if arguments.plot:
        plots.save([(arguments.plot.stem, plots.sweep_figure(_sweep(found)))], arguments.plot.parent)
    side_by_side = [
        report.Comparison(
            f"{hosts:,} hosts in {hosts // LAN} clusters", "/s", [found["frugal"][hosts]], [found["literal"][hosts]]
        )
        for hosts in sizes
    ]
    least, most = sizes[0], sizes[-1]
    growth = report.Comparison(
        f"frugal for each cluster at {most:,} hosts, against {least}",
        "/s",
        [found["frugal"][most] / (most // LAN - 1)],
        [found["frugal"][least] / (least // LAN - 1)],
        GROWTH_TARGET,
    )
    return report.Result("Control packets between clusters", f"literal, {least} hosts", (*side_by_side, growth))


def _sweep(found: dict[str, dict[int, float]]) -> Sweep:
    lines = {mode: [(float(hosts), rate, "") for hosts, rate in rates.items()] for mode, rates in found.items()}
    title = "Control packets between clusters of ten hosts, at 20 messages a second"
    return Sweep(title=title, x="hosts", y="expensive control packets a second", lines=lines)


def main() -> int:
    """Run the benchmark, or one measurement of it."""
    parser = argparse.ArgumentParser(prog="benchmarks.control", description="Control packets of the cluster tree, in both modes.")
    parser.add_argument("--most-hosts", type=report.positive, default=HOSTS[-1], metavar="N", help="leave out larger networks")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it, as FILE.png and FILE.svg")
    parser.add_argument("--mode", choices=("frugal", "literal"), help="with --hosts: measure one network, and print JSON")
    parser.add_argument("--hosts", type=report.positive, metavar="N")
    one, _ = parser.parse_known_args()
    if one.hosts and one.mode:
        print(json.dumps(packets_per_second(one.mode, one.hosts)))
        return report.MET
    return report.main(parser, measure)


if __name__ == "__main__":
    sys.exit(main())
