"""P1 to P4 and Q1 to Q3: a message is delivered within a time of something that happened, if hosts and network are as fast as assumed.

Third paper, section 6.3. M is the broadcast, S a datagram with the message that leaves, G the `receive` line, D the first delivery. With
Delta or rho the bound, a and b destinations of the message and s its origin:

    P1  after G at a, while a is UP
    P2  after M, while a is UP, s AWAKE, and they can REACH each other
    P3  after G at a, while a is UP and there are N other destinations that are AWAKE and that a can REACH
    P4  after a host x sent the message to a, as soon as a is UP, x AWAKE, and they can REACH each other
    Q1  after the delivery at any a, while b is UP, a AWAKE, and they can REACH each other
    Q2  after M, if any host delivers the message, as soon as b is UP, s AWAKE, and they can REACH each other (the text's `=` is "at most")
    Q3  after the delivery at the parent of b, as soon as b is UP, its parent AWAKE, and they can REACH each other

Each condition must hold for the whole of the bound; "as soon as" is the first instant from which it does. The model has groups that do
not change, so nothing is judged in a run in which one did. Where a datagram to a group reaches hosts that its sender does not send to, x
is the parent of a. In the model M happens when the
source has sent its copies, which is up to phi_P after the line of the log: P2 and Q2 allow phi_P more. A case is a destination for which
the condition came about.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, Verdict, Witness, cannot_judge, name, not_tested, violated, without_transits
from analysis.judging.history import Delivery, History, MessageId
from analysis.judging.properties.timing.states import NS_PER_MS, States
from hostagent.contract.promises import TimeBound, Timing

Deliveries = Mapping[MessageId, Mapping[str, Delivery]]
"""The first delivery of each message at each host, in the order of time."""


class Due(NamedTuple):
    """A message is due at a host, a bound after `since_ns`.

    That is when `by` did something with the message, at `at_ns`, or when the condition came about, if that was later.
    """

    host: str
    message: MessageId
    since_ns: int
    at_ns: int
    by: str
    event: str


class Evidence(NamedTuple):
    """What a time bound is judged by."""

    history: History
    bound: TimeBound
    states: States
    delivered: Deliveries


def check(history: History, bound: TimeBound, connectivity: Connectivity) -> Finding:
    """Hold every delivery that is due to the bound. The finding has the longest time seen."""
    if stop := cannot_judge(history) or without_transits(history):
        return stop
    if history.views:
        return not_tested("groups change in this run, and the model has none that do")
    from_broadcast = bound.timing in {Timing.P2, Timing.Q2}
    window_ns = round((bound.bound_ms + (bound.process_ms if from_broadcast else 0)) * NS_PER_MS)
    evidence = Evidence(history, bound, States(history, connectivity, bound, window_ns), _delivered(history))
    cases, longest_ns, worst = 0, 0, None
    for due in _DUE[bound.timing](evidence):
        delivery = evidence.delivered.get(due.message, {}).get(due.host)
        if delivery is None and due.since_ns + window_ns > history.ended_ns:
            continue
        cases += 1
        took_ns = delivery.at_ns - due.since_ns if delivery is not None else history.ended_ns - due.since_ns
        longest_ns = max(longest_ns, took_ns)
        if (delivery is None or took_ns > window_ns) and (worst is None or due.since_ns < worst.since_ns):
            worst = due
    if not cases:
        return not_tested(f"the condition of {bound.timing} never came about")
    longest_ms = longest_ns / NS_PER_MS
    if worst is not None:
        found = _tell(evidence, worst, window_ns, cases)
    else:
        found = Finding(
            Verdict.HOLDS, f"the longest took {longest_ms:.3f} ms of the {window_ns / NS_PER_MS:g} ms allowed", (), cases
        )
    return msgspec.structs.replace(found, bound_ms=window_ns / NS_PER_MS, longest_ms=longest_ms)


def _delivered(history: History) -> Deliveries:
    found: dict[MessageId, dict[str, Delivery]] = defaultdict(dict)
    for delivery in history.deliveries:
        found[delivery.message].setdefault(delivery.host, delivery)
    return found


def _tell(evidence: Evidence, due: Due, window_ns: int, cases: int) -> Finding:
    time = Clock(evidence.history)
    cause = f"{due.by} {_DONE[due.event]} it at {time(due.at_ns)}"
    if due.since_ns > due.at_ns:
        cause += f" and the condition of {evidence.bound.timing} held from {time(due.since_ns)} on"
    allowed = f"{evidence.bound.timing} allows {window_ns / NS_PER_MS:g} ms"
    shown = Witness(due.at_ns, due.by, due.event, *due.message)
    delivery = evidence.delivered.get(due.message, {}).get(due.host)
    if delivery is None:
        missing = Witness(due.since_ns + window_ns, due.host, "missing", *due.message)
        return violated(cases, f"{due.host} never delivered {name(due.message)}, though {cause}; {allowed}", shown, missing)
    took = f"{(delivery.at_ns - due.since_ns) / NS_PER_MS:.3f} ms"
    sentence = f"{due.host} delivered {name(due.message)} at {time(delivery.at_ns)}, {took} after {cause}; {allowed}"
    return violated(cases, sentence, shown, delivery)


_DONE: Final = {"receive": "received", "broadcast": "broadcast", "send": "sent", "deliver": "delivered"}


def _after_receipt(evidence: Evidence) -> Iterator[Due]:
    """P1, and with `others` P3."""
    states, destinations, seen = evidence.states, _destination_sets(evidence.history), set()
    number = evidence.bound.others
    for at_ns, host, origin, sequence, *_ in evidence.history.receipts:
        message, key = (origin, sequence), (host, origin, sequence)
        inside = destinations.get(message, _NOBODY)
        if host in inside and key not in seen:
            seen.add(key)
            if states.holds(host, host, at_ns) and (not number or _reaches(evidence, host, inside, at_ns)):
                yield Due(host, message, at_ns, at_ns, host, "receive")


def _reaches(evidence: Evidence, host: str, inside: frozenset[str], at_ns: int) -> bool:
    """Whether a host can reach as many other destinations as the bound asks for."""
    states, number = evidence.states, evidence.bound.others
    others = (other for other in evidence.history.hosts if other in inside and other != host)
    return len(list(islice((other for other in others if states.holds(host, other, at_ns)), number))) == number


def _destination_sets(history: History) -> dict[MessageId, frozenset[str]]:
    """The destinations of each message, to look hosts up in; messages to the same hosts share a set."""
    known: dict[tuple[str, ...], frozenset[str]] = {}
    return {message: known.setdefault(to, frozenset(to)) for message, to in history.destinations.items()}


_NOBODY: Final[frozenset[str]] = frozenset()


def _after_broadcast(evidence: Evidence) -> Iterator[Due]:
    """P2."""
    for due in _reached_by_source(evidence):
        if due.since_ns == due.at_ns:
            yield due


def _after_sending(evidence: Evidence) -> Iterator[Due]:
    """P4."""
    destinations, seen = _destination_sets(evidence.history), set()
    children = {(change.parent, change.host) for change in evidence.history.parents}
    for left_ns, _, sender, host, origin, sequence, _, carries, shared in evidence.history.transits or ():
        message, key = (origin, sequence), (sender, host, origin, sequence)
        overhears = shared and children and (sender, host) not in children
        if carries and not overhears and host in destinations.get(message, _NOBODY) and key not in seen:
            seen.add(key)
            yield Due(host, message, evidence.states.since(host, sender, left_ns), left_ns, sender, "send")


def _after_any_delivery(evidence: Evidence) -> Iterator[Due]:
    """Q1. Of all hosts that delivered a message and meet the condition, the first one has the earliest deadline."""
    destinations, states = evidence.history.destinations, evidence.states
    for message, deliveries in evidence.delivered.items():
        for host in destinations.get(message, ()):
            others = (delivery for other, delivery in deliveries.items() if other != host)
            first = next((delivery for delivery in others if states.holds(host, delivery.host, delivery.at_ns)), None)
            if first is not None:
                yield Due(host, message, first.at_ns, first.at_ns, first.host, "deliver")


def _after_delivery_somewhere(evidence: Evidence) -> Iterator[Due]:
    """Q2."""
    for due in _reached_by_source(evidence):
        if due.message in evidence.delivered:
            yield due


def _reached_by_source(evidence: Evidence) -> Iterator[Due]:
    """Each message at each destination, from when on the destination can reach the source."""
    for broadcast in evidence.history.broadcasts:
        for host in broadcast.destinations(evidence.history.hosts):
            since_ns = evidence.states.since(host, broadcast.origin, broadcast.at_ns)
            yield Due(host, broadcast.message, since_ns, broadcast.at_ns, broadcast.origin, "broadcast")


def _after_delivery_at_parent(evidence: Evidence) -> Iterator[Due]:
    """Q3. The parent is that in the tree of the message's origin; if hosts report no such tree, that in each tree they report."""
    destinations, spans = evidence.history.destinations, _parent_spans(evidence.history)
    for message, deliveries in evidence.delivered.items():
        for host in destinations.get(message, ()):
            trees = spans.get(host, {})
            for span in trees.get(message[0]) or [span for of_tree in trees.values() for span in of_tree]:
                if (due := _due_from(span, host, message, deliveries, evidence.states)) is not None:
                    yield due
                    break


class ParentSpan(NamedTuple):
    """From when until when a host had a parent."""

    parent: str
    start_ns: int
    end_ns: int


def _parent_spans(history: History) -> dict[str, dict[str, list[ParentSpan]]]:
    """The parents of each host in the tree of each source, in the order of time."""
    found: dict[str, dict[str, list[ParentSpan]]] = defaultdict(lambda: defaultdict(list))
    for change in history.parents:
        spans = found[change.host][change.source]
        if spans:
            spans[-1] = spans[-1]._replace(end_ns=change.at_ns)
        spans.append(ParentSpan(change.parent, change.at_ns, history.ended_ns))
    return found


def _due_from(span: ParentSpan, host: str, message: MessageId, deliveries: Mapping[str, Delivery], states: States) -> Due | None:
    """When a message is due that a parent delivered, if the condition came about while it was the parent."""
    delivery = deliveries.get(span.parent)
    if delivery is None:
        return None
    since_ns = states.since(host, span.parent, max(delivery.at_ns, span.start_ns))
    if since_ns + states.window_ns > span.end_ns:
        return None
    return Due(host, message, since_ns, delivery.at_ns, span.parent, "deliver")


_DUE: Final[Mapping[Timing, Callable[[Evidence], Iterator[Due]]]] = {
    Timing.P1: _after_receipt,
    Timing.P2: _after_broadcast,
    Timing.P3: _after_receipt,
    Timing.P4: _after_sending,
    Timing.Q1: _after_any_delivery,
    Timing.Q2: _after_delivery_somewhere,
    Timing.Q3: _after_delivery_at_parent,
}
