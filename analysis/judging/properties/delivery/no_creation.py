"""No creation: a message that a host delivers was broadcast before, by its origin (second paper, properties of best-effort broadcast).

With groups, the message must have been broadcast to that host.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, name, violated
from analysis.judging.history import BroadcastEvent, Delivery, History
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, _connectivity: Connectivity) -> Finding:
    """Look up every delivery among the broadcasts. Each delivery is a case."""
    first = {broadcast.message: broadcast for broadcast in reversed(history.broadcasts)}
    time, limited = Clock(history), history.limited
    for number, delivery in enumerate(history.deliveries, start=1):
        broadcast = first.get(delivery.message)
        if broadcast is None and not history.damage:
            return violated(number, f"{_what(delivery, time)}, but {delivery.origin} never broadcast it", delivery)
        if broadcast is not None and _is_before(delivery, broadcast, history):
            sentence = f"{_what(delivery, time)}, before {delivery.origin} broadcast it at {time(broadcast.at_ns)}"
            return violated(number, sentence, delivery, broadcast)
        if broadcast is not None and delivery.host not in limited.get(delivery.message, (delivery.host,)):
            sentence = (
                f"{_what(delivery, time)}, which {delivery.origin} broadcast at {time(broadcast.at_ns)} to other hosts only"
            )
            return violated(number, sentence, delivery, broadcast)
    return kept(history, len(history.deliveries), "no message was delivered")


def _is_before(delivery: Delivery, broadcast: BroadcastEvent, history: History) -> bool:
    """Whether the delivery came before the broadcast: by the log at the origin; elsewhere by the clocks, unless one was set back."""
    if delivery.host == broadcast.origin:
        return delivery.place < broadcast.place
    return delivery.at_ns < broadcast.at_ns and history.set_back.isdisjoint({delivery.host, broadcast.origin})


def _what(delivery: Delivery, time: Clock) -> str:
    return f"{delivery.host} delivered {name(delivery.message)} at {time(delivery.at_ns)}"
