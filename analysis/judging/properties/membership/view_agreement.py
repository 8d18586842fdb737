"""View agreement: two hosts that go from one view of a group to the same next view delivered the same messages to the group in between.

Virtual synchrony (Birman and Joseph); the comparison by two views in a row is that of Galera's check of traces. It is about hosts that are
members of both views. A host that crashes in between and restarts with its storage is one host; a host that lost its storage is not asked.
A message that was broadcast in an earlier view is for the members of that view: only what is for both hosts is compared.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, cannot_judge, kept, name, violated
from analysis.judging.history import Delivery, History, MessageId, View
from analysis.judging.properties.membership.views import Views, named
from hostagent.contract.promises import Promise


class Span(NamedTuple):
    """What a host delivered to a group between two views in a row."""

    first: View
    next: View
    delivered: dict[MessageId, Delivery]


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare the hosts that had the same two views in a row. A case is such a host, if there are others and one delivered something."""
    if stop := cannot_judge(history):
        return stop
    alike: dict[tuple[int, int, int], list[Span]] = defaultdict(list)
    for span in _spans(history, connectivity):
        alike[span.first.group, span.first.view, span.next.view].append(span)
    cases = 0
    for spans in alike.values():
        if len(spans) < 2 or not any(span.delivered for span in spans):
            continue
        cases += len(spans)
        for other in spans[1:]:
            if different := _different(history, spans[0], other):
                return _tell(history, spans[0], other, different, cases)
    return kept(history, cases, "no two hosts went from one view of a group to the same next view with a delivery in between")


def _spans(history: History, connectivity: Connectivity) -> Iterator[Span]:
    views, group_of = Views(history), {broadcast.message: broadcast.group for broadcast in history.broadcasts}
    spans: dict[tuple[str, int], list[Span]] = {}
    for group in sorted(views.groups):
        for host in history.hosts:
            if host not in connectivity.amnesic:
                spans[host, group] = [Span(*both, {}) for both in pairwise(views.installed(host, group))]
    ends = {key: [span.next.place for span in of_host] for key, of_host in spans.items()}
    taken_back = frozenset(map(id, history.taken_back))
    marks: Iterable[Delivery] = history.deliveries
    if taken_back:
        marks = sorted((*history.deliveries, *history.taken_back), key=lambda mark: (mark.at_ns, mark.position))
    for mark in marks:
        key = mark.host, group_of.get(mark.message, mark.group)
        number = bisect_right(ends[key], mark.place) if key in ends else 0
        if key in ends and number < len(ends[key]):
            delivered = spans[key][number].delivered
            if id(mark) in taken_back:
                delivered.pop(mark.message, None)
            else:
                delivered[mark.message] = mark
    for of_host in spans.values():
        yield from (span for span in of_host if span.next.host in span.first.members and span.next.host in span.next.members)


def _different(history: History, one: Span, other: Span) -> set[MessageId]:
    """What only one of two hosts delivered, of the messages that are for both."""
    if one.delivered.keys() == other.delivered.keys():
        return set()
    limited, both = history.limited, {one.next.host, other.next.host}
    different = one.delivered.keys() ^ other.delivered.keys()
    return {message for message in different if message not in limited or both <= set(limited[message])}


def _tell(history: History, one: Span, other: Span, different: set[MessageId], cases: int) -> Finding:
    delivery = min((span.delivered[message] for span in (one, other) for message in different & span.delivered.keys()), key=_when)
    has, lacks = (one, other) if delivery.host == one.next.host else (other, one)
    time = Clock(history)
    sentence = (
        f"{has.next.host} and {lacks.next.host} both went from view {one.first.view} to view {one.next.view} of "
        f"{named(one.next.group)}, at {time(has.next.at_ns)} and {time(lacks.next.at_ns)}, but only {has.next.host} delivered "
        f"{name(delivery.message)} in between, at {time(delivery.at_ns)}"
    )
    starts = (span.first for span in (has, lacks) if span.first.view)
    return violated(cases, sentence, *starts, delivery, has.next, lacks.next)


def _when(delivery: Delivery) -> tuple[int, MessageId]:
    return delivery.at_ns, delivery.message
