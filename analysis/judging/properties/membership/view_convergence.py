"""View convergence: some time after the last request to join or leave a group, all members have the view that was asked for.

Without this promise a protocol that ignores every request would keep all promises about views. It binds on a network that is whole at the
end, `promise.patience_ms` after the last request and the last fault. Then every member has the same view. Who asked to join last is in that
view, and who asked to leave last is not; all other initial members are in it, unless they were down or paused in the run: whether such a
host must ask to join again is a matter of the protocol.

A host that left before it joined was an initial member. As long as nobody has installed a view of the group, it still is. Of a host that
was down at some time it is not known whether it was asked to leave then.
"""

from collections.abc import Iterator

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, cannot_judge, kept, not_tested, unknown, violated
from analysis.judging.history import History, MembershipRequest, View
from analysis.judging.properties.membership.views import Views, named
from hostagent.contract.promises import Promise

Problem = tuple[str, MembershipRequest, View | None]
"""A sentence without its end, the request that is not fulfilled, and the view that shows it if there is one."""


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Look at the last view of every member. A case is a host that should be a member of a group that a host asked to join or leave."""
    if stop := cannot_judge(history):
        return stop
    if not history.requests:
        return not_tested("no host asked to join or to leave a group")
    if not connectivity.is_whole:
        return not_tested("at the end a host was down or cut off")
    views, time, cases = Views(history), Clock(history), 0
    since_ns = max(history.requests[-1].at_ns, connectivity.last_fault_ns or 0)
    for group in sorted({request.group for request in history.requests}):
        last = {request.host: request for request in history.requests if request.group == group}
        members = _members(group, last, views, connectivity)
        cases += len(members)
        stayed = frozenset() if group in views.groups else _may_have_stayed(group, history, connectivity)
        for sentence, request, view in _problems(group, members, stayed, last, views, time):
            too_soon = since_ns + connectivity.patience_ns(promise) > history.ended_ns
            end = f"when the run ended at {time(history.ended_ns)}"
            if too_soon:
                return unknown(f"{sentence} {end}: too soon to tell", cases - 1)
            return violated(cases, f"{sentence} {end}", request, *([view] if view and view.view else []))
    return kept(history, cases, "no host should have been a member of a group that another asked to leave")


def _members(group: int, last: dict[str, MembershipRequest], views: Views, connectivity: Connectivity) -> list[str]:
    """The hosts that should be members at the end: those that asked to, and initial members that never asked and were never away."""
    initial = views.initial("", group).members
    return [
        host
        for host in connectivity.hosts
        if (
            last[host].joins
            if host in last
            else host in initial and not connectivity.away(host) and host not in connectivity.amnesic
        )
    ]


def _may_have_stayed(group: int, history: History, connectivity: Connectivity) -> frozenset[str]:
    """The hosts whose first request was to leave the group, as far as that is known."""
    first = {request.host: request for request in reversed(history.requests) if request.group == group}
    return frozenset(host for host, request in first.items() if not request.joins or connectivity.away(host))


def _problems(
    group: int, members: list[str], stayed: frozenset[str], last: dict[str, MembershipRequest], views: Views, time: Clock
) -> Iterator[Problem]:
    """What is wrong with the last views of the members of a group. Those that stayed need none."""
    newest = max(last.values())
    latest = {host: views.latest(host, group) for host in members}
    for host, view in latest.items():
        if view is None and host in stayed:
            continue
        for asker, request in last.items():
            asked = f"though {asker} asked to {'join' if request.joins else 'leave'} at {time(request.at_ns)},"
            if view is None or (asker in view.members) != request.joins:
                yield f"{_told(host, view, group)}, {asked}", request, view
        for other in members:
            if view is not None and other not in view.members:
                yield f"{_told(host, view, group)}, without {other},", newest, view
    told = [(host, view) for host, view in latest.items() if view is not None]
    for host, view in told[1:]:
        (first, its), same = told[0], (view.view, view.members)
        if same != (its.view, its.members):
            yield f"{_told(first, its, group)}, but {_told(host, view, group)},", newest, view


def _told(host: str, view: View | None, group: int) -> str:
    if view is None:
        return f"{host} had no view of {named(group)}"
    return f"{host} had view {view.view} of {named(group)} with {', '.join(view.members) or 'nobody'}"
