#!./castbed run
"""Control packets between clusters against the number of hosts: the paper's algorithm (literal) and frugal, at the same rate of messages.

In literal mode every host tells every host what it has, so control packets grow with the square of the hosts. The simulator can run more:

    ./castbed run control_cost --on simulator --set hosts=12,48,192,999
"""

import math
from collections.abc import Callable, Iterator
from typing import Annotated

from analysis.figures.claims import Claim, MeasuredRun, Runs, Sweep
from scenarios import Scenario, Variant, Workload
from topologies import clusters
from topologies.properties import whole

SIZE = 3
STANDS_S = 5.0
MODES = ("frugal", "literal")
POWERS: dict[str, Callable[[float], bool]] = {"frugal": lambda power: power < 1.5, "literal": lambda power: power >= 1.8}
"""The powers of the number of hosts that each mode must show. A cost proportional to k - 1 has power 1.16 from 12 to 48 hosts."""


def whole_numbers(text: str) -> tuple[int, ...]:
    """Numbers from text such as `12,24`."""
    return tuple(whole(part) for part in text.split(","))


def scenario(hosts: Annotated[tuple[int, ...], whole_numbers] = (12, 24, 48), literal_up_to: int = 100) -> list[Variant]:
    """Clusters of three hosts in a grid; the literal algorithm only up to a number of hosts that a machine can run.

    hosts: numbers of hosts, a run for each
    literal_up_to: the most hosts with which the paper's own algorithm is run
    """
    stream = Workload(messages=200, interval=50.0, settle=2000.0)
    networks = {count: clusters(max(count // SIZE, 2), SIZE, "grid") for count in hosts}
    return [
        Variant(f"{mode}-{count}", Scenario(network=network, workload=stream), "cluster-tree", {"mode": mode})
        for mode in MODES
        for count, network in networks.items()
        if mode != "literal" or count <= literal_up_to
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """How control packets grow: as which power of the number of hosts."""
    for mode, text in (
        ("frugal", "does not grow with the square of the hosts"),
        ("literal", "grows with the square of the hosts"),
    ):
        points = _points(runs, mode)
        told = "; ".join(f"{hosts} hosts: {rate:.1f} a second" for hosts, rate in points)
        if len(points) < 2 or not all(rate for _, rate in points):
            yield Claim("+", f"{mode}: control between clusters {text}", None, f"{told}: too little to tell")
            continue
        (few, low), (many, high) = points[0], points[-1]
        power = math.log(high / low) / math.log(many / few)
        yield Claim("+", f"{mode}: control between clusters {text}", POWERS[mode](power), f"power {power:.2f}; {told}")


def sweep(runs: Runs) -> Sweep:
    """Control packets a second against hosts."""
    return Sweep(
        title="Control packets between clusters, at a constant rate of messages",
        x="hosts",
        y="expensive control packets a second",
        lines={mode: [(float(hosts), rate, "") for hosts, rate in points] for mode in MODES if (points := _points(runs, mode))},
    )


def _points(runs: Runs, mode: str) -> list[tuple[int, float]]:
    """For each run of a mode: the number of hosts, and control packets a second between clusters once the tree is formed."""
    return sorted((run.summary.hosts, _rate(run)) for run in runs if run.label.startswith(mode))


def _rate(run: MeasuredRun) -> float:
    return run.expensive_between(STANDS_S, run.stream_end_s)["control"] / max(run.stream_end_s - STANDS_S, 0.001)
