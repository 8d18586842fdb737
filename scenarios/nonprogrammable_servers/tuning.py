#!./castbed run
"""How often hosts exchange what they have trades cost against reliability: a sweep of the periods under loss (claim 8).

The periods of INFO and of gap filling between clusters are a quarter of the usual, the usual, and four times the usual.
"""

from collections.abc import Iterator
from itertools import pairwise

import pyarrow.compute as pc

from analysis.figures.claims import Claim, MeasuredRun, Runs, Sweep
from scenarios import Scenario, Share, Variant, Workload
from topologies import clusters

PERIODS_MS = {"often": 250.0, "usual": 1000.0, "seldom": 4000.0}
STANDS_S = 5.0  # when the tree is formed; messages before that are late for another reason
SOON_MS = 1000.0


def scenario(k: int = 4, size: int = 2, loss: Share = 0.1, mode: str = "literal") -> list[Variant]:
    """The paper's own algorithm, unless another mode is set: all its repairs depend on these periods.

    k: clusters, in a ring
    size: hosts of each cluster
    loss: the share of packets that each expensive link loses
    mode: who is told what between clusters: frugal, or literal as in the paper
    """
    stream = Workload(messages=750, interval=20.0, settle=12_000.0)
    scenario = Scenario(network=clusters(k, size, "ring", loss=loss), workload=stream)
    return [
        Variant(label, scenario, "cluster-tree", {"mode": mode, "ein_ms": period, "gfn_ms": period, "gfx_ms": 2 * period})
        for label, period in PERIODS_MS.items()
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """Longer periods cost less and deliver later; shorter periods cost more and deliver sooner."""
    tried = [runs[label] for label in PERIODS_MS]
    if not all(run.sent_since(STANDS_S) for run in tried):
        yield Claim("8", "the frequencies trade cost against reliability", None, f"the stream ended before {STANDS_S:g} s")
        return
    costs, shares = [_cost(run) for run in tried], [_soon(run) for run in tried]
    figure = "; ".join(f"{run.label} {cost:.2f}" for run, cost in zip(tried, costs, strict=True))
    falls = all(often > seldom for often, seldom in pairwise(costs))
    yield Claim("8", "the longer the periods, the fewer expensive packets per message", falls, figure)
    figure = "; ".join(f"{run.label} {100 * share:.1f} %" for run, share in zip(tried, shares, strict=True))
    falls = all(often > seldom for often, seldom in pairwise(shares))
    yield Claim("8", "and the smaller the share that is delivered within a second", falls, figure)


def sweep(runs: Runs) -> Sweep:
    """Cost against reliability."""
    points = [(_cost(run), 100 * _soon(run), run.label) for run in runs]
    return Sweep(
        title="Cost and benefit of exchanging more often",
        x="expensive packets per message",
        y="delivered within a second, %",
        lines={"cluster-tree": points},
    )


def _cost(run: MeasuredRun) -> float:
    """Expensive packets of all kinds per message, from when the tree is formed to the end of the stream."""
    packets = run.expensive_between(STANDS_S, run.stream_end_s)
    return sum(packets.values()) / max(len(run.sent_since(STANDS_S)), 1)


def _soon(run: MeasuredRun) -> float:
    """The share of deliveries within SOON_MS, for messages that were broadcast once the tree was formed."""
    rows = run.table("deliveries")
    late_enough = pc.greater_equal(rows["broadcast_ns"], run.at_ns(STANDS_S))
    soon = pc.and_(late_enough, pc.less_equal(rows["delay_ms"], SOON_MS))
    pairs = len(run.sent_since(STANDS_S)) * (run.summary.hosts - 1)
    return float(pc.sum(soon).as_py() or 0) / max(pairs, 1)
