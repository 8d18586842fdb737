#!./castbed run
"""The cluster tree in steady state, as in the paper (literal) and frugal: k - 1 expensive packets per message, and the tree (claims 1, 3).

The leader of a cluster gets each message once from another cluster and passes it on to its own. The two modes differ in the control
messages that hosts exchange.
"""

from collections.abc import Iterator
from typing import Unpack

from analysis.figures.claims import Claim, MeasuredRun, Runs, least_cost
from scenarios import Scenario, Variant, Workload
from topologies import clusters
from topologies.properties import Expensive

STANDS_S = 5.0  # hosts send INFO to other clusters once a second, and need a few of them until every host has its best parent
MOST_CONTROL = 0.05
ENOUGH = 1000


def scenario(k: int = 4, size: int = 3, shape: str = "ring", **expensive: Unpack[Expensive]) -> list[Variant]:
    """A long stream from the first host of the first cluster.

    k: clusters
    size: hosts of each cluster
    shape: how clusters are joined: line, ring, star, tree, mesh or grid
    """
    stream = Workload(messages=1000, interval=20.0, settle=3000.0)
    scenario = Scenario(network=clusters(k, size, shape, **expensive), workload=stream)
    return [Variant(mode, scenario, "cluster-tree", {"mode": mode}) for mode in ("frugal", "literal")]


def claims(runs: Runs) -> Iterator[Claim]:
    """Claims 1 and 3 for both modes; and the cost of frugal with all its control packets."""
    for run in runs:
        yield least_cost(run, STANDS_S)
        problems = run.tree_problems()
        figure = problems[0] if problems else f"{len(run.tree().clusters)} clusters, each with one leader"
        yield Claim("3", f"{run.label}: at the end the parent graph induces a cluster tree", not problems, figure)
    # Without packing, answers that would share a datagram with a message are separate packets, so the bound does not apply.
    if runs["frugal"].input.run.pack_ms is not None:
        yield _total(runs["frugal"], runs["literal"])


def _total(frugal: MeasuredRun, literal: MeasuredRun) -> Claim:
    """The cost of all packets of the run, with the control packets before and after the stream."""
    most = (1 + MOST_CONTROL) * frugal.network.lower_bound
    cost, of_literal = (run.summary.cost.expensive_packets_per_message or 0.0 for run in (frugal, literal))
    text = "frugal: with all control packets, at most 5 % above k - 1 expensive packets per message"
    if len(frugal.broadcasts) < ENOUGH:
        return Claim(
            "1", text, None, f"{cost:.2f} packets per message; forming the tree is included, so {ENOUGH} messages are needed"
        )
    return Claim("1", text, cost <= most, f"{cost:.2f} packets per message, bound {most:.2f}; literal has {of_literal:.2f}")
