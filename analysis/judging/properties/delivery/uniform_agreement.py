"""Uniform agreement: what any host delivers, even one that crashes afterwards, every correct destination delivers that could have.

Second paper, uniform reliable broadcast. A host that delivered a message can pass it on for as long as the host lives. A host that delivers
and dies before it can pass anything on must have made sure of the others first: if no correct host ever delivers the message, delivery is
due at every correct host that was connected with the dead one when it delivered. (A host that delivers while cut off owes nothing.)

For a protocol with a failure detector the rule differs. The detector says which hosts need not be waited for, so delivery is due at every
correct host that the dead one did not suspect, connected or not. A correct host that was suspected, which is a mistake of the detector, is
owed nothing: the paper assumes that such mistakes do not happen.
"""

from collections.abc import Iterator, Sequence

from analysis.judging.connectivity import Connectivity, Reach
from analysis.judging.findings import Finding, cannot_judge
from analysis.judging.history import Delivery, History, MessageId, suspicion_spans
from analysis.judging.properties.delivery.missing_deliveries import Debt, Deliverers, deliverers, settle
from hostagent.contract.promises import Carrier, Guarantee, Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """As agreement, but deliveries of crashed hosts count too. A case is a message at a correct host that another host delivered."""
    if stop := cannot_judge(history):
        return stop
    delivered = deliverers(history)
    owed = _debts(delivered, history, promise, connectivity)
    paid = sum(len(connectivity.correct & has.keys()) for has in delivered.values() if len(has) > 1)
    return settle(history, connectivity, delivered, owed, paid)


def _debts(
    delivered: dict[MessageId, Deliverers], history: History, promise: Promise, connectivity: Connectivity
) -> Iterator[Debt]:
    patience_ns, destinations = connectivity.patience_ns(promise), history.destinations
    for message, has in delivered.items():
        to = destinations.get(message, history.hosts)
        if len(has) == len(to):
            continue
        first = next(iter(has.values()))
        since = {host: delivery.at_ns for host, delivery in has.items()}
        yield Debt(first, connectivity.reach(since, Carrier.ANYONE, patience_ns, to))
        if connectivity.correct.isdisjoint(has):
            detects = Guarantee.FAILURE_DETECTION in promise.guarantees
            for delivery in has.values():
                trusted = _trusted(delivery, history) if detects else connectivity.connected_with(delivery.host, delivery.at_ns)
                since_ns = max(delivery.at_ns, connectivity.intervals[-1].start_ns) if detects else delivery.at_ns
                yield _left_behind(delivery, trusted, since_ns + patience_ns, history.ended_ns)


def _trusted(delivery: Delivery, history: History) -> list[str]:
    """The hosts that the delivering host did not suspect when it delivered."""
    suspected = {
        span.suspect
        for span in suspicion_spans(history)
        if span.host == delivery.host and span.start_ns <= delivery.at_ns <= span.end_ns
    }
    return [host for host in history.hosts if host not in suspected]


def _left_behind(delivery: Delivery, others: Sequence[str], due_ns: int, ended_ns: int) -> Debt:
    """The deliveries that are due because a host delivered and then died for good."""
    if due_ns > ended_ns:
        return Debt(delivery, Reach({}, frozenset(others)))
    return Debt(delivery, Reach(dict.fromkeys(others, due_ns), frozenset()))
