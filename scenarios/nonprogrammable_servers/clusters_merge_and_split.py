#!./castbed run
"""Two clusters split and merge while messages are sent: a cluster tree of the new clusters forms (claim 5).

Figure 3.2 with the cheap path between the clusters C and L, which is lost and repaired. Joined, C and L are one cluster, which must come
to have one leader; apart, each needs a leader of its own.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, Runs
from scenarios import Scenario, Time, Variant, Workload
from scenarios.faults import LinkDown, LinkUp
from topologies import figure_3_2

MOST_S = 6.0
"""Six periods of INFO between clusters: hosts hear of their new neighbours, choose a leader, and the leader finds a parent."""


def scenario(split: Time = 6000.0, merge: Time = 14000.0) -> list[Variant]:
    """A stream that goes on during both changes and some time after them.

    split: when the cheap link between two clusters goes down
    merge: when it comes up again
    """
    scenario = Scenario(
        network=figure_3_2(repaired=True),
        faults=(LinkDown(at_ms=split, link="s3-s5"), LinkUp(at_ms=merge, link="s3-s5")),
        workload=Workload(messages=1000, interval=20.0, settle=4000.0),
    )
    return [Variant(mode, scenario, "cluster-tree", {"mode": mode}) for mode in ("frugal", "literal")]


def claims(runs: Runs) -> Iterator[Claim]:
    """The time until the tree was formed again after each change."""
    for run in runs:
        reformations = run.reformations()
        ends_s = [*(run.at_s(reformation.at_ns - 1) for reformation in reformations[1:]), float("inf")]
        for reformation, end_s in zip(reformations, ends_s, strict=True):
            text = f"{run.label}: the cluster tree stands within {MOST_S:g} s after {reformation.cause}"
            if reformation.took_ns is None:
                yield Claim("5", text, holds=False, figure=f"it did not form: {', '.join(run.tree_problems(end_s))}")
            else:
                took_s = reformation.took_ns / 1e9
                yield Claim("5", text, took_s <= MOST_S, f"{took_s:.2f} s, {reformation.parent_changes} changes of parent")
