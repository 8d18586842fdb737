"""Agreement: a message that one correct host delivers is delivered by every correct destination that could have got it from that host.

Second paper, reliable broadcast. A host that delivered a message can pass it on, from destination to destination, over ways that each stay
open for the protocol's patience.
"""

from collections.abc import Iterator

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding, cannot_judge
from analysis.judging.history import History, MessageId
from analysis.judging.properties.delivery.missing_deliveries import Debt, Deliverers, deliverers, settle
from hostagent.contract.promises import Carrier, Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """For every message that only some of its destinations delivered, find the others that could have got it from those.

    A case is a message at a correct host that another correct host delivered.
    """
    if stop := cannot_judge(history):
        return stop
    delivered = deliverers(history)
    owed = debts(delivered, history, promise, connectivity)
    correct = (len(connectivity.correct & has.keys()) for has in delivered.values())
    paid = sum(hosts for hosts in correct if hosts > 1)
    return settle(history, connectivity, delivered, owed, paid)


def debts(
    delivered: dict[MessageId, Deliverers], history: History, promise: Promise, connectivity: Connectivity
) -> Iterator[Debt]:
    """For each message, the deliveries that are due because correct hosts delivered it."""
    patience_ns, destinations = connectivity.patience_ns(promise), history.destinations
    for message, has in delivered.items():
        to = destinations.get(message, history.hosts)
        since = {host: delivery.at_ns for host, delivery in has.items() if host in connectivity.correct}
        if since and len(has) < len(to):
            yield Debt(has[next(iter(since))], connectivity.reach(since, Carrier.ANYONE, patience_ns, to))
