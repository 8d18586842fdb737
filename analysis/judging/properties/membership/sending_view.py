"""Sending view: a message to a group is delivered in the view in which its origin sent it (extended virtual synchrony, fourth paper).

The promise is about members: an origin that is not a member of its own view of the group has no view to send in, and a host that is not a
member of the view it is in is not asked.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, name, violated
from analysis.judging.history import BroadcastEvent, Delivery, History, MessageId, View
from analysis.judging.properties.membership.views import Views, named
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, _connectivity: Connectivity) -> Finding:
    """Compare the views of sender and receiver. A case is a delivery, at a member, of a message to a group whose view ever changed."""
    views, cases = Views(history), 0
    sent = _sent(history, views)
    for delivery in history.deliveries:
        if delivery.message not in sent:
            continue
        broadcast, sent_in = sent[delivery.message]
        view = views.at(delivery, broadcast.group)
        if delivery.host not in view.members:
            continue
        cases += 1
        if view.view != sent_in.view:
            shown = (view for view in (sent_in, view) if view.view)
            return violated(cases, _sentence(delivery, view, broadcast, sent_in, Clock(history)), broadcast, delivery, *shown)
    return kept(history, cases, "no member delivered a message to a group whose view changed")


def _sent(history: History, views: Views) -> dict[MessageId, tuple[BroadcastEvent, View]]:
    """The messages that a member sent to a group whose view changed in the run, each with the view that its origin had."""
    found = {}
    for broadcast in reversed(history.broadcasts):
        if broadcast.group in views.groups:
            view = views.at(broadcast, broadcast.group)
            if broadcast.origin in view.members:
                found[broadcast.message] = broadcast, view
    return found


def _sentence(delivery: Delivery, view: View, broadcast: BroadcastEvent, sent_in: View, time: Clock) -> str:
    return (
        f"{delivery.host} delivered {name(delivery.message)} at {time(delivery.at_ns)} in view {view.view} of {named(view.group)}, "
        f"but {broadcast.origin} sent it at {time(broadcast.at_ns)} in view {sent_in.view}"
    )
