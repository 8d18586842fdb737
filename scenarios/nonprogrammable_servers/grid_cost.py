#!./castbed run
"""The cost of a message on grids of different size, with LANs of different size: k - 1, whatever the size of the LANs (claim 1).

A grid of LANs has a cluster at each node, so the cost of data grows with the grid and not with the number of hosts.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, Sweep, least_cost
from scenarios import Scenario, Variant, Workload
from topologies import grid

GRIDS = ((2, 2, 2), (3, 3, 1), (3, 3, 2), (3, 3, 4), (4, 4, 2))
"""Rows, columns, hosts in each LAN."""
STANDS_S = 5.0


def scenario(mode: str = "frugal") -> list[Variant]:
    """The same stream on every grid.

    mode: who is told what between clusters: frugal, or literal as in the paper
    """
    stream = Workload(messages=400, interval=25.0, settle=2000.0)
    return [
        Variant(
            f"{rows}x{cols}x{hosts}", Scenario(network=grid(rows, cols, hosts), workload=stream), "cluster-tree", {"mode": mode}
        )
        for rows, cols, hosts in GRIDS
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """The cost is the least possible on each grid."""
    for run in runs:
        yield least_cost(run, STANDS_S)


def sweep(runs: Runs) -> Sweep:
    """The cost against the number of hosts, with a line for each grid, which is level where only the LANs grow."""
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for run in sorted(runs, key=lambda run: run.summary.hosts):
        name = f"{run.label.rpartition('x')[0]} grid, k - 1 = {run.network.lower_bound}"
        lines.setdefault(name, []).append((float(run.summary.hosts), _cost(run), f"{_cost(run):.2f}"))
    return Sweep(
        title="Cost of a message on a grid of LANs", x="hosts", y="expensive packets per message, control too", lines=lines
    )


def _cost(run: MeasuredRun) -> float:
    """Expensive packets of all kinds per message once the tree is formed: those with messages, and meanwhile all others."""
    messages = run.sent_since(STANDS_S)
    control = run.expensive_between(STANDS_S, run.stream_end_s)["control"]
    return (run.expensive_packets(messages).total() + control) / max(len(messages), 1)
