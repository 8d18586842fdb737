"""Uniform agreement: what any host delivers, also one that crashes then, is delivered by every correct host that could have had it.

Second paper, uniform reliable broadcast. Whoever delivered a message can pass it on for as long as it lives. A host that delivers and is
dead before it can pass anything on must have made sure of the others before: if no correct host ever delivers the message, every correct
host that was connected with it at that moment was owed it. (A host that delivers while cut off from all others owes nothing to them.)
"""

from collections.abc import Iterator

from analysis.judging.connectivity import Connectivity, Reach
from analysis.judging.findings import Finding, cannot_judge
from analysis.judging.history import Delivery, History, MessageId
from analysis.judging.missing_deliveries import Debt, Deliverers, deliverers, settle
from hostagent.contract.promises import Carrier, Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """As agreement, but hosts that crashed count among those who have it. A case is a message at a correct host that another delivered."""
    if stop := cannot_judge(history):
        return stop
    delivered = deliverers(history)
    owed = _debts(delivered, history, connectivity, connectivity.patience_ns(promise))
    paid = sum(len(connectivity.correct & has.keys()) for has in delivered.values() if len(has) > 1)
    return settle(history, connectivity, delivered, owed, paid)


def _debts(
    delivered: dict[MessageId, Deliverers], history: History, connectivity: Connectivity, patience_ns: int
) -> Iterator[Debt]:
    for has in delivered.values():
        if len(has) == len(history.hosts):
            continue
        first = next(iter(has.values()))
        since = {host: delivery.at_ns for host, delivery in has.items()}
        yield Debt(first, connectivity.reach(since, Carrier.ANYONE, patience_ns))
        if connectivity.correct.isdisjoint(has):
            yield from (_left_behind(delivery, connectivity, patience_ns) for delivery in has.values())


def _left_behind(delivery: Delivery, connectivity: Connectivity, patience_ns: int) -> Debt:
    """What a host that is gone for good owes those who were connected with it when it delivered."""
    others, due_ns = connectivity.connected_with(delivery.host, delivery.at_ns), delivery.at_ns + patience_ns
    if due_ns > connectivity.ended_ns:
        return Debt(delivery, Reach({}, frozenset(others)))
    return Debt(delivery, Reach(dict.fromkeys(others, due_ns), frozenset()))
