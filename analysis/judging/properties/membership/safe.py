"""Safe: when a host delivers a message, every member of its configuration has received the message (fourth paper, after Totem).

The configuration are those destinations of the message that are members of the group's view at the delivering host. A host has received a
message from its first `receive` or `deliver` line on, and its own message from the broadcast on. For a protocol that delivers first and
commits later the promise may be about the commit (`Promise.safe_at`).
"""

from collections import defaultdict

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, Witness, kept, name, violated
from analysis.judging.history import BroadcastEvent, Delivery, History, MessageId, View
from analysis.judging.properties.membership.views import Views
from hostagent.contract.promises import Promise, Step

Receipts = dict[str, BroadcastEvent | Delivery]
Latest = tuple[str, BroadcastEvent | Delivery | None]
"""The member that received a message last, and the event that shows it; None if the member never received it."""


def check(history: History, promise: Promise, _connectivity: Connectivity) -> Finding:
    """Compare each delivery, or commit, with the last receipt at a member. A case is one at a host whose message has other members."""
    marks = history.commits if promise.safe_at is Step.COMMIT else history.deliveries
    views, receipts = Views(history), _receipts(history)
    first = {broadcast.message: broadcast for broadcast in reversed(history.broadcasts)}
    # Hosts with the same view share one tuple of members, and comparing its identity is faster than comparing the members.
    latest: dict[tuple[MessageId, int], Latest | None] = {}
    cases = 0
    for mark in marks:
        broadcast = first.get(mark.message)
        if broadcast is None:
            continue
        view = views.at(mark, broadcast.group)
        key = mark.message, id(view.members)
        if key not in latest:
            latest[key] = _latest(_configuration(broadcast, view, history.hosts), receipts[mark.message], history)
        last = latest[key]
        cases += last is not None
        if last is not None and _is_early(mark, last[1], history):
            return _tell(history, promise, mark, last, cases)
    verb = "committed" if promise.safe_at is Step.COMMIT else "delivered"
    return kept(history, cases, f"no host {verb} a message with other members")


def _receipts(history: History) -> dict[MessageId, Receipts]:
    """For each message, the event from which on each host has it."""
    found: dict[MessageId, Receipts] = defaultdict(dict)
    for broadcast in history.broadcasts:
        found[broadcast.message].setdefault(broadcast.origin, broadcast)
    for marks in (history.receipts, history.deliveries):
        for mark in marks:
            of_message = found[mark.message]
            earlier = of_message.setdefault(mark.host, mark)
            if mark.at_ns < earlier.at_ns:
                of_message[mark.host] = mark
    return found


def _configuration(broadcast: BroadcastEvent, view: View, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """The members that must have received a message when a host delivers it in a view; the initial view has all destinations."""
    to = broadcast.destinations(hosts)
    return tuple(host for host in to if host in view.members) if view.view else to


def _latest(members: tuple[str, ...], receipts: Receipts, history: History) -> Latest | None:
    """The member that received a message last, or one that never did; None without members whose clocks can be compared."""
    comparable = [host for host in members if host not in history.set_back]
    missing = next((host for host in comparable if host not in receipts), None)
    if missing is not None and not history.damage:
        return missing, None
    received = [host for host in comparable if host in receipts]
    last = max(received, key=lambda host: receipts[host].at_ns, default=None)
    return None if last is None or len(comparable) < 2 else (last, receipts[last])


def _is_early(mark: Delivery, receipt: BroadcastEvent | Delivery | None, history: History) -> bool:
    return receipt is None or (receipt.at_ns > mark.at_ns and mark.host not in history.set_back)


def _tell(history: History, promise: Promise, mark: Delivery, last: Latest, cases: int) -> Finding:
    time, (host, receipt) = Clock(history), last
    verb = "committed" if promise.safe_at is Step.COMMIT else "delivered"
    what = f"{mark.host} {verb} {name(mark.message)} at {time(mark.at_ns)}"
    shown = Witness(mark.at_ns, mark.host, str(promise.safe_at), *mark.message)
    if receipt is None:
        missing = Witness(mark.at_ns, host, "missing", *mark.message)
        return violated(cases, f"{what}, but {host} never received it", shown, missing)
    event = "receive" if any(receipt is one for one in history.receipts) else "deliver"
    late = Witness(receipt.at_ns, host, event, *mark.message)
    return violated(cases, f"{what}, but {host} received it only at {time(receipt.at_ns)}", shown, late)
