#!./castbed run
"""A ring of Totem splits, both parts go on, and they merge: the views that extended virtual synchrony asks for, and how long it took.

Three clusters of two hosts; the first is cut off from the others for some seconds while a host on each side sends. Each side notices that
the token is gone, agrees on a ring of its own and goes on. When the network is whole again, the rings find each other and become one.
What was sent on the other side meanwhile is never delivered here: that is what extended virtual synchrony says of configurations that
were apart.
"""

from collections.abc import Iterator
from typing import Unpack

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Scenario, Time, Variant, Workload
from scenarios.faults import Heal, Partition
from topologies import clusters
from topologies.properties import Expensive

LEFT: tuple[str, ...] = ("h1", "h2")
RIGHT: tuple[str, ...] = ("h3", "h4", "h5", "h6")
SOURCES = "h1", "h4"
# Sixteen time-outs of the token and ten proposals of at most 200 ms each: more than that, and a side has stalled.
MOST_SPLIT_S = 6.0
# A probe, proposals, the commit token and the recovery.
MOST_MERGE_S = 4.0
PROMISED = (Guarantee.VIEW_AGREEMENT, Guarantee.VIEW_PROGRESS, Order(Scope.MULTIPLE_GROUP, Strength.STRICT))
DELIVERIES = ("agreed", "safe")


def scenario(split: Time = 3000.0, merge: Time = 12000.0, **expensive: Unpack[Expensive]) -> list[Variant]:
    """Two hosts send during all of it, once with each level of delivery.

    split: when one cluster is cut off
    merge: when it is joined again
    """
    asked = Scenario(
        network=clusters(3, 2, "mesh", **expensive),
        sources=SOURCES,
        faults=(Partition(at_ms=split, sides=(("s1",),)), Heal(at_ms=merge)),
        workload=Workload(messages=400, interval=50.0, settle=4000.0),
    )
    return [Variant(delivery, asked, "totem", {"delivery": delivery}) for delivery in DELIVERIES]


def claims(runs: Runs) -> Iterator[Claim]:
    """For each level of delivery: the views, the times, who has which messages, and what is promised."""
    for run in runs:
        split_s, merge_s = run.faults("link-down")[-1][0], run.faults("heal")[0][0]
        yield from (_side(run, side, split_s, merge_s) for side in (LEFT, RIGHT))
        yield _merged(run, merge_s)
        yield _goes_on(run, LEFT, RIGHT, split_s, merge_s)
        yield _goes_on(run, RIGHT, LEFT, split_s, merge_s)
        safe = (Guarantee.SAFE,) if run.label == "safe" else ()
        yield from (kept("-", run, promised, expected=True) for promised in (*PROMISED, *safe))


def _views(run: MeasuredRun, host: str, since_s: float, until_s: float) -> list[tuple[float, tuple[str, ...]]]:
    """The views that a host installed in this interval, each with its time."""
    return [
        (run.at_s(view.at_ns), view.members)
        for view in run.history.views
        if view.host == host and since_s <= run.at_s(view.at_ns) < until_s
    ]


def _side(run: MeasuredRun, side: tuple[str, ...], split_s: float, merge_s: float) -> Claim:
    """Whether each host of a side went from the ring of all to a transitional and then a regular configuration of its side."""
    found = {host: _views(run, host, split_s, merge_s) for host in side}
    right = all([members for _, members in views] == [side, side] for views in found.values())
    text = f"{run.label}: {', '.join(side)} install a transitional view, then a ring of their own, within {MOST_SPLIT_S:g} s"
    took_s = max((views[-1][0] - split_s for views in found.values() if views), default=float("inf"))
    shown = "; ".join(f"{host}: {len(views)} views" for host, views in found.items())
    return Claim("split", text, right and took_s <= MOST_SPLIT_S, f"{took_s:.2f} s" if right else shown)


def _merged(run: MeasuredRun, merge_s: float) -> Claim:
    """Whether all hosts then came to one view with everybody, and how long that took."""
    hosts = run.network.hosts
    last = {host: [view for view in run.history.views if view.host == host][-1] for host in hosts}
    whole = all(view.members == hosts for view in last.values()) and len({view.view for view in last.values()}) == 1
    took_s = max(run.at_s(view.at_ns) for view in last.values()) - merge_s
    text = f"{run.label}: when the network is whole, all install one view with everybody within {MOST_MERGE_S:g} s"
    return Claim("merge", text, whole and took_s <= MOST_MERGE_S, f"{took_s:.2f} s" if whole else "they did not")


def _goes_on(run: MeasuredRun, side: tuple[str, ...], other: tuple[str, ...], split_s: float, merge_s: float) -> Claim:
    """Whether a side delivered what was sent on it in its own view, and the other side nothing of that."""
    began_s = max(views[-1][0] for host in side if (views := _views(run, host, split_s, merge_s)))
    sent = {
        broadcast.message
        for broadcast in run.broadcasts
        if broadcast.origin in side and began_s <= run.at_s(broadcast.at_ns) < merge_s
    }
    delivered = run.delivered()
    here, there = (sum(len(sent & delivered[host]) for host in hosts) for hosts in (side, other))
    text = f"{run.label}: what is sent in the view of {', '.join(side)} is delivered by all of them, and by nobody else"
    return Claim("split", text, bool(sent) and here == len(sent) * len(side) and not there, f"{len(sent)} messages")
