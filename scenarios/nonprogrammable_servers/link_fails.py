#!./castbed run
"""An expensive link fails and comes back while messages are sent: nothing is lost, and the delays around the fault are plotted.

In a ring the controller finds another path, and only the packets that were on the link are late. In a line there is no other path: the
clusters behind the link get the messages that they missed when the link is back.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs
from scenarios import Scenario, Time, Variant, Workload
from scenarios.faults import LinkDown, LinkUp
from topologies import clusters

LINK = "s2-s3"
STANDS_S = 3.0
"""When the tree is formed. Messages before that are late for another reason."""


def scenario(k: int = 4, size: int = 3, fail: Time = 6000.0, back: Time = 11000.0) -> list[Variant]:
    """Fifty messages a second from the first cluster, before, during and after.

    k: clusters
    size: hosts of each cluster
    fail: when the link goes down
    back: when it comes up again
    """
    faults = (LinkDown(at_ms=fail, link=LINK), LinkUp(at_ms=back, link=LINK))
    stream = Workload(messages=900, interval=20.0, settle=4000.0)
    return [
        Variant(shape, Scenario(network=clusters(k, size, shape), faults=faults, workload=stream), "cluster-tree")
        for shape in ("ring", "line")
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """Every host has every message at the end; the figure is the longest delay around the fault."""
    for run in runs:
        sent = run.sent_since(0.0)
        lacking = sum(len(sent - delivered) for delivered in run.delivered().values())
        yield Claim("+", f"{run.label}: nothing is lost when {LINK} fails and comes back", not lacking, _told(run, lacking))


def _told(run: MeasuredRun, lacking: int) -> str:
    if lacking:
        return f"{lacking} deliveries are missing"
    (down_s, _), (up_s, _) = run.faults("link-down", "link-up")
    sent_at = run.history.broadcast_at
    during: list[float] = []
    outside: list[float] = []
    for delivery in run.history.deliveries:
        sent_s = run.at_s(sent_at[delivery.message])
        if sent_s > STANDS_S:
            (during if down_s - 0.1 <= sent_s <= up_s else outside).append(run.at_s(delivery.at_ns) - sent_s)
    return f"the longest delay was {1000 * max(during):.0f} ms while it was down, {1000 * max(outside):.0f} ms before and after"
