#!./castbed run
"""A source is cut off for ever after a partial broadcast: with cluster-tree the other hosts complete it, with basic they cannot (claim 2).

Three clusters in a ring. The third is cut off for three seconds, so messages of that time reach only the second. Then the source's cluster
is cut off for good, and only after that the second and the third cluster can reach each other again.
"""

from collections.abc import Iterator, Mapping

from analysis.figures.claims import Claim, MeasuredRun, Runs
from scenarios import Scenario, Variant, Workload
from scenarios.faults import LinkDown, LinkUp
from topologies import clusters

ALONE_MS, CUT_MS = 4000.0, 7500.0
"""When the third cluster is cut off, and when the first. The stream ends half a second before the latter."""


def scenario(size: int = 3) -> list[Variant]:
    """Messages from the first cluster; the links fail one after another.

    size: hosts of each cluster
    """
    scenario = Scenario(
        network=clusters(3, size, "ring"),
        faults=(
            LinkDown(at_ms=ALONE_MS, link="s3-s1"),
            LinkDown(at_ms=ALONE_MS, link="s2-s3"),
            LinkDown(at_ms=CUT_MS, link="s1-s2"),
            LinkUp(at_ms=CUT_MS + 200, link="s2-s3"),
        ),
        workload=Workload(messages=350, interval=20.0, settle=8000.0),
    )
    trees = [Variant(mode, scenario, "cluster-tree", {"mode": mode}) for mode in ("frugal", "literal")]
    return [*trees, Variant("basic", scenario, "basic")]


def claims(runs: Runs) -> Iterator[Claim]:
    """How many hosts outside the source's cluster lack messages that other such hosts have."""
    for label, completes in (("frugal", True), ("literal", True), ("basic", False)):
        at_cut, at_end = _lacking(runs[label])
        text = "everybody else completes what the source left unfinished" if completes else "hosts are left without messages"
        figure = f"when the source was cut off {_told(at_cut)}; at the end {_told(at_end)}"
        yield Claim("2", f"{label}: {text}", (not any(at_end.values())) == completes if any(at_cut.values()) else None, figure)


def _lacking(run: MeasuredRun) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """For each host outside the source's cluster: the messages that it lacked and another such host had, at the cut and at the end."""
    cut_s = next(at_s for at_s, fault in run.faults("link-down") if fault.target == "s1-s2")
    others = [host for cluster in run.network.clusters[1:] for host in cluster]
    at_cut, at_end = run.delivered(cut_s), run.delivered()
    reached = frozenset[tuple[str, int]]().union(*(at_cut[host] for host in others))
    return {host: len(reached - at_cut[host]) for host in others}, {host: len(reached - at_end[host]) for host in others}


def _told(lacking: Mapping[str, int]) -> str:
    without = [count for count in lacking.values() if count]
    return f"{len(without)} of {len(lacking)} hosts lacked {max(without)} messages" if without else "nobody lacked any"
