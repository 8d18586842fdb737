"""Progress in the last view: hosts that are connected when the faults have ended come to one view, and deliver what is sent in it.

It is what progress is for protocols in which the parts of a network that was split each go on (extended virtual synchrony, fourth paper):
after a merge nobody gets what was sent in the other part, so only messages that are broadcast in the last view are due. The view is that
of everybody, group 0: all hosts of a part of the network have the same one, with just these hosts as members. Messages to other groups
that were broadcast since then count too. A host owes itself its own messages, in whatever view it broadcast them (self-delivery). Where
the protocol needs a number of hosts (`promise.quorum`), smaller parts owe nothing.
"""

from collections.abc import Iterator

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, Witness, cannot_judge, kept, name, unknown, violated
from analysis.judging.history import BroadcastEvent, History, View
from analysis.judging.properties.delivery.missing_deliveries import deliverers
from analysis.judging.properties.membership.views import Views
from hostagent.contract.messages import EVERYBODY
from hostagent.contract.promises import Promise

Problem = tuple[int, str, tuple[BroadcastEvent | View | Witness, ...]]
"""By when a host should have had a view or a message, what was wrong instead, and the events that show it."""


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Look at the last views of hosts that are correct, and at what was broadcast in them.

    A case is a host in a part of several hosts, or a message of the last view at a destination that is connected with its origin.
    """
    if stop := cannot_judge(history):
        return stop
    part_of = {host: part for host, part in connectivity.parts_at_end(promise.quorum).items() if host in connectivity.correct}
    views, patience_ns, cases = Views(history), connectivity.patience_ns(promise), 0
    open_question: Finding | None = None
    for problem in (*_of_views(part_of, views, history, connectivity), *_of_messages(part_of, views, history, connectivity)):
        cases += 1
        if problem is None:
            continue
        since_ns, sentence, witnesses = problem
        if since_ns + patience_ns <= history.ended_ns:
            ended = f"at {Clock(history)(history.ended_ns)}, long after the last fault"
            return violated(cases, f"{sentence} {ended}", *witnesses)
        open_question = open_question or unknown(f"{sentence}: too soon to tell", cases - 1)
    return open_question or kept(history, cases, "no two hosts that were connected at the end were correct")


def _of_views(part_of: dict[str, int], views: Views, history: History, connectivity: Connectivity) -> Iterator[Problem | None]:
    """For each host in a part of several, what is wrong with its last view."""
    for host in history.hosts:
        connected = tuple(other for other in history.hosts if host in part_of and part_of.get(other) == part_of[host])
        if len(connected) < 2:
            continue
        view, first = views.latest(host, EVERYBODY), views.latest(connected[0], EVERYBODY)
        if view is None or not view.view:
            missing = Witness(connectivity.faults_ended_ns, host, "missing", "", 0)
            yield connectivity.faults_ended_ns, f"{host} never installed a view until the end", (missing,)
        elif view.members != connected:
            members, wanted = ", ".join(view.members), ", ".join(connected)
            yield connectivity.faults_ended_ns, f"{host} had view {view.view} with {members}, connected with {wanted},", (view,)
        elif first is not None and first.view != view.view:
            since_ns, other = max(connectivity.faults_ended_ns, view.at_ns), f"{connected[0]} had view {first.view}"
            yield since_ns, f"{host} had view {view.view} and {other}", (view, *((first,) if first.view else ()))
        else:
            yield None


def _of_messages(part_of: dict[str, int], views: Views, history: History, connectivity: Connectivity) -> Iterator[Problem | None]:
    """For each message of the last view and each of its destinations that is connected with its origin, whether it is missing."""
    delivered, time = deliverers(history), Clock(history)
    for broadcast in history.broadcasts:
        view = views.latest(broadcast.origin, EVERYBODY)
        if broadcast.origin not in part_of or view is None or not view.view:
            continue
        is_last = views.at(broadcast, EVERYBODY).view == view.view
        for host in broadcast.destinations(history.hosts):
            if part_of.get(host) != part_of[broadcast.origin] or not (is_last or host == broadcast.origin):
                continue
            if host in delivered.get(broadcast.message, {}):
                yield None
                continue
            since_ns = max(broadcast.at_ns, connectivity.faults_ended_ns)
            in_last = "in its last view, " if is_last else ""
            sent = f"which {broadcast.origin} broadcast at {time(broadcast.at_ns)} {in_last}until the end"
            missing = Witness(since_ns, host, "missing", *broadcast.message)
            yield since_ns, f"{host} never delivered {name(broadcast.message)}, {sent}", (broadcast, missing)
