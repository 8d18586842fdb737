#!./castbed run
"""Figure 4.1: the source is cut off, and two hosts that are not neighbours in the tree fill each other's gaps (claim 7).

At first h2 and h3 hear only from the source, so both are its children. Of the last three messages, the first is lost on its way to h3 and
the second on its way to h2. What h2 and h3 tell the source meanwhile is lost too, so the source repairs nothing. Then the source is cut off
for good, and h2 and h3 can hear each other.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs
from scenarios import Scenario, Variant, Workload
from scenarios.faults import DropMessage, LinkChange, LinkDown
from topologies import clusters

INTERVAL_MS, BEFORE = 50.0, 80
"""The time between two messages, and the number of messages before the three of the figure: in these 4 s h2 and h3 attach to the source."""
LOST_MS = (BEFORE - 0.5) * INTERVAL_MS
CUT_MS = (BEFORE + 2.5) * INTERVAL_MS


def scenario() -> list[Variant]:
    """Force the situation of the figure."""
    scenario = Scenario(
        network=clusters(3, 1, "mesh"),
        faults=(
            LinkChange(at_ms=0, link="s2-s3", loss=1.0),
            LinkChange(at_ms=LOST_MS, link="s1-s2", towards="s1", loss=1.0),
            LinkChange(at_ms=LOST_MS, link="s1-s3", towards="s1", loss=1.0),
            DropMessage(at_ms=LOST_MS, host="h3", kind="Copy", nth=1),
            DropMessage(at_ms=LOST_MS, host="h2", kind="Copy", nth=2),
            LinkDown(at_ms=CUT_MS, link="s1-s2"),
            LinkDown(at_ms=CUT_MS, link="s1-s3"),
            LinkChange(at_ms=CUT_MS + 100, link="s2-s3", loss=0.0),
        ),
        workload=Workload(messages=BEFORE + 3, interval=INTERVAL_MS, settle=15_000.0),
    )
    return [Variant(mode, scenario, "cluster-tree", {"mode": mode}) for mode in ("frugal", "literal")]


def claims(runs: Runs) -> Iterator[Claim]:
    """Whether both gaps were filled, and how long after the source was cut off."""
    for run in runs:
        text = f"{run.label}: hosts that are not neighbours fill each other's gaps while the source is cut off"
        yield Claim("7", text, *_filled(run))


def _filled(run: MeasuredRun) -> tuple[bool | None, str]:
    cut_s = run.faults("link-down")[-1][0]
    sent = run.sent_since(0)
    gaps = {host: sent - run.delivered(cut_s)[host] for host in ("h2", "h3")}
    if gaps != {"h2": {("h1", BEFORE + 2)}, "h3": {("h1", BEFORE + 1)}}:
        told = " and ".join(f"{host} lacked {sorted(number for _, number in gap)}" for host, gap in gaps.items())
        return None, f"the situation of the figure did not come about: {told}"
    left = {host: sent - run.delivered()[host] for host in gaps}
    if any(left.values()):
        return False, f"gaps left at the end: {', '.join(host for host, gap in left.items() if gap)}"
    last_ns = max(delivery.at_ns for delivery in run.history.deliveries if delivery.message in gaps.get(delivery.host, ()))
    return True, f"both are filled {run.at_s(last_ns) - cut_s:.2f} s after the source was cut off"
