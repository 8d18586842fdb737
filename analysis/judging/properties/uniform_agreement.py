"""Uniform agreement: what any host delivers, also one that crashes then, is delivered by every correct host that could have had it.

Second paper, uniform reliable broadcast. Whoever delivered a message can pass it on for as long as it lives. A host that delivers and is
dead before it can pass anything on must have made sure of the others before: if no correct host ever delivers the message, it is owed to
every correct host that was connected with it at that moment. (A host that delivers while cut off from all others owes nothing to them.)

A protocol with a failure detector is held to more and to less. It is told by its detector whom it need not wait for, so the message is owed
to every correct host that was not suspected by the one that delivered it, connected or not. One that was suspected, wrongly as it is
correct, is not owed it: the paper assumes that this does not happen.
"""

from collections.abc import Iterator, Sequence

from analysis.judging.connectivity import Connectivity, Reach
from analysis.judging.findings import Finding, cannot_judge
from analysis.judging.history import Delivery, History, MessageId, suspicion_spans
from analysis.judging.missing_deliveries import Debt, Deliverers, deliverers, settle
from hostagent.contract.promises import Carrier, Guarantee, Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """As agreement, but hosts that crashed count among those who have it. A case is a message at a correct host that another delivered."""
    if stop := cannot_judge(history):
        return stop
    delivered = deliverers(history)
    owed = _debts(delivered, history, promise, connectivity)
    paid = sum(len(connectivity.correct & has.keys()) for has in delivered.values() if len(has) > 1)
    return settle(history, connectivity, delivered, owed, paid)


def _debts(
    delivered: dict[MessageId, Deliverers], history: History, promise: Promise, connectivity: Connectivity
) -> Iterator[Debt]:
    patience_ns = connectivity.patience_ns(promise)
    for has in delivered.values():
        if len(has) == len(history.hosts):
            continue
        first = next(iter(has.values()))
        since = {host: delivery.at_ns for host, delivery in has.items()}
        yield Debt(first, connectivity.reach(since, Carrier.ANYONE, patience_ns))
        if connectivity.correct.isdisjoint(has):
            detects = Guarantee.FAILURE_DETECTION in promise.guarantees
            for delivery in has.values():
                trusted = _trusted(delivery, history) if detects else connectivity.connected_with(delivery.host, delivery.at_ns)
                since_ns = max(delivery.at_ns, connectivity.intervals[-1].start_ns) if detects else delivery.at_ns
                yield _left_behind(delivery, trusted, since_ns + patience_ns, history.ended_ns)


def _trusted(delivery: Delivery, history: History) -> list[str]:
    """The hosts that the one that delivered did not suspect at that moment."""
    suspected = {
        span.suspect
        for span in suspicion_spans(history)
        if span.host == delivery.host and span.start_ns <= delivery.at_ns <= span.end_ns
    }
    return [host for host in history.hosts if host not in suspected]


def _left_behind(delivery: Delivery, others: Sequence[str], due_ns: int, ended_ns: int) -> Debt:
    """What a host that is gone for good owes to others."""
    if due_ns > ended_ns:
        return Debt(delivery, Reach({}, frozenset(others)))
    return Debt(delivery, Reach(dict.fromkeys(others, due_ns), frozenset()))
