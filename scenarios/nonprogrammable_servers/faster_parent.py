#!./castbed run
"""A leader whose parent falls behind moves to a parent that is ahead (claim 6).

Three clusters, each linked to the others. At first the link between the first and the third cluster loses every packet, so the leader of
the third cluster has its parent in the second. Then that link works, and the link between the first and the second cluster becomes too
slow: the second cluster falls behind.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs
from scenarios import Bandwidth, Scenario, Variant, Workload
from scenarios.faults import LinkChange
from topologies import clusters

CHANGE_MS = 6000.0
MOST_S = 5.0
"""Five periods of INFO between clusters."""


def scenario(size: int = 2, narrow: Bandwidth = 0.06, wide: Bandwidth = 10.0) -> list[Variant]:
    """The old parent falls behind just when a better parent can be reached. The controller notices neither, as all links stay up.

    size: hosts of each cluster
    narrow: the bandwidth of the old parent's link while it falls behind
    wide: the bandwidth of expensive links otherwise
    """
    scenario = Scenario(
        network=clusters(3, size, "mesh", bandwidth_mbit=wide),
        faults=(
            LinkChange(at_ms=0, link="s1-s3", loss=1.0),
            LinkChange(at_ms=CHANGE_MS, link="s1-s3", loss=0.0),
            LinkChange(at_ms=CHANGE_MS, link="s1-s2", bandwidth_mbit=narrow),
            LinkChange(at_ms=2 * CHANGE_MS, link="s1-s2", bandwidth_mbit=wide),
        ),
        workload=Workload(messages=600, interval=20.0, settle=8000.0),
    )
    return [Variant(mode, scenario, "cluster-tree", {"mode": mode}) for mode in ("frugal", "literal")]


def claims(runs: Runs) -> Iterator[Claim]:
    """Whether the leader moved to a parent that was ahead, and after how long."""
    for run in runs:
        text = f"{run.label}: the third cluster's leader leaves a parent that falls behind for one ahead within {MOST_S:g} s"
        yield Claim("6", text, *_move(run))


def _move(run: MeasuredRun) -> tuple[bool | None, str]:
    """Whether the leader moved in time, and the figure."""
    changed_s = next(at_s for at_s, fault in run.faults("link-change") if fault.target == "s1-s2")
    _, second, third = run.network.clusters
    parents = dict(run.tree(changed_s).parents)
    leaders = [host for host in third if parents.get(host) in second]
    if len(leaders) != 1:
        return None, "the third cluster did not have one leader with its parent in the second"
    for change in run.history.parents:
        at_s = run.at_s(change.at_ns)
        if at_s > changed_s and change.host == leaders[0] and change.parent and change.parent != parents[leaders[0]]:
            old, new = run.highest(parents[change.host], at_s), run.highest(change.parent, at_s)
            figure = (
                f"{change.host} moved from {parents[change.host]} (at message {old}) to {change.parent} (at message {new})"
                f" after {at_s - changed_s:.2f} s"
            )
            return new > old and at_s - changed_s <= MOST_S, figure
    return False, f"{leaders[0]} stayed with {parents[leaders[0]]}"
