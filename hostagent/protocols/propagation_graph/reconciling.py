"""How the histories of several hosts become one order, on which a new graph begins (third paper, sections 7.1.1 and 7.3).

Every host that takes part in a new graph reports to the manager what it has. The manager makes a *plan* out of the reports: who is in the
graph, the groups, and the messages that some of these hosts lack, in one order that contradicts none of the reports.

What a plan starts from. A host that accepts a plan stores it, and a plan counts once a majority of all hosts has accepted it. So of the
plans that hosts report, the one with the highest number continues all that ever counted, and the manager continues that one. A host is
*current* if it is in that plan and has not still to recover with it: what it has passed on fits into the order. Any other host has failed,
also if it never noticed: it *recovers* with the new plan.

The order. Within a graph, messages that meet at two hosts meet in the same order, so the reports of current hosts are parts of one order.
What a host has passed on comes before everything for that host that it lacks: in the paper's Figure 7.1, d has beta-1 and lacks alpha-3, so
e, which lacks both, must deliver beta-1 first, though no report has both. Where a choice is left, the message that is named first, in the
order of hosts, goes first. What a host has passed on and does not report any more is settled (`journal`): the host does not lack it, though
others that do not know it yet still report it; and where hosts roll back, it comes before everything that the host reports.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Annotated

import msgspec

from hostagent.contract.messages import LISTED, GroupNumber, SequenceNumber, host_set, hosts_in

Flow = tuple[str, int, bytes]
"""What a source keeps in order: its messages to a group or, if they are for no group, to the same hosts."""
Passed = dict[Flow, int]
"""For each flow, the number of the last message."""
MessageId = tuple[str, int]
_Bytes = Annotated[bytes, msgspec.Meta(max_length=1 << 16)]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A message of the application, as hosts pass it on."""

    group: GroupNumber
    origin: str
    sequence: SequenceNumber
    to: _Bytes
    """The hosts that it is for."""
    payload: _Bytes | None
    """None in a plan for a host that has the message."""
    graph: SequenceNumber = 0
    """The graph in which it took its place in the order. A message that was lost with a host is passed on again, in a later graph."""

    @property
    def message(self) -> MessageId:
        """The origin, and the number of the message there."""
        return self.origin, self.sequence

    @property
    def flow(self) -> Flow:
        """The flow that the message belongs to."""
        return self.origin, self.group, self.to if self.group == LISTED else b""


class Groups(msgspec.Struct, frozen=True, array_like=True):
    """The members of each group, and since which graph a group has had these members."""

    members: dict[GroupNumber, _Bytes]
    since: dict[GroupNumber, SequenceNumber]


class Report(msgspec.Struct, frozen=True, array_like=True):
    """What a host tells the manager."""

    accepted: SequenceNumber
    """The highest graph whose plan the host has accepted."""
    members: _Bytes
    """The hosts in that graph."""
    groups: Groups
    passed: list[tuple[Flow, SequenceNumber]]
    """For each flow, the last message that is part of the order."""
    entries: list[Entry]
    """The messages that the host has, in order, since the beginning of that graph; without those that all others are known to have."""
    lacking: list[int]
    """The places in `entries` of messages that are for this host, and that it has not delivered."""
    wishes: dict[GroupNumber, bool]
    """The groups that the host wants to join, or to leave."""
    recovering: _Bytes
    """The hosts that have to recover with that graph, as far as the host knows: without itself once it has."""


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """What hosts agree on before graph `graph` begins."""

    graph: SequenceNumber
    members: _Bytes
    recovering: _Bytes
    """Those of the members that have failed before."""
    groups: Groups
    passed: list[tuple[Flow, SequenceNumber]]
    """For each flow, the last message that is part of the order up to the beginning of this graph."""
    order: list[Entry]
    """The messages that a member, or a host that may recover, lacks."""


def first_plan(hosts: tuple[str, ...], groups: Mapping[int, tuple[str, ...]]) -> Plan:
    """The plan of graph 0, which needs nobody's consent."""
    members = {group: host_set(of_group, hosts) for group, of_group in groups.items() if group}
    return Plan(0, host_set(hosts, hosts), host_set((), hosts), Groups(members, dict.fromkeys(members, 0)), [], [])


def make_plan(graph: int, reports: Mapping[str, Report], hosts: tuple[str, ...], *, keeps_for_all: bool) -> Plan:
    """The plan that continues all plans that ever counted, as the reports of a majority show them.

    With `keeps_for_all`, a message is kept as long as any host that it is for lacks it, else only as long as a current one does.
    """
    last = max(report.accepted for report in reports.values())
    latest = {host: report for host, report in reports.items() if report.accepted == last}
    newest = list(latest.values())
    before = hosts_in(newest[0].members, hosts)
    # Whoever was to recover with the last plan may not even have heard of it.
    known = {host: report if report.accepted == last else newest[0] for host, report in reports.items()}
    recovering = [host for host in reports if host not in before or host in hosts_in(known[host].recovering, hosts)]
    current = {host: _Delivered(report) for host, report in reports.items() if host not in recovering}
    passed: Passed = {}
    for report in newest:
        for flow, sequence in report.passed:
            passed[flow] = max(sequence, passed.get(flow, 0))
    owed = hosts if keeps_for_all else tuple(current)
    order = [
        entry
        for entry in merged(latest, hosts, forgets_in_order=keeps_for_all)
        if any(host not in current or current[host].lacks(entry) for host in hosts_in(entry.to, hosts) if host in owed)
    ]
    groups = _with_wishes(graph, newest, reports, hosts)
    return Plan(graph, host_set(tuple(reports), hosts), host_set(recovering, hosts), groups, list(passed.items()), order)


class _Delivered:
    """What a host has delivered, or would have if it were for it, as its report shows."""

    def __init__(self, report: Report) -> None:
        lacking = frozenset(report.lacking)
        self._lacks = {entry.message: place in lacking for place, entry in enumerate(report.entries)}
        self._passed = dict(report.passed)

    def lacks(self, entry: Entry) -> bool:
        """Whether the host has not delivered a message."""
        return self._lacks.get(entry.message, entry.sequence > self._passed.get(entry.flow, 0))


def _with_wishes(graph: int, newest: Sequence[Report], reports: Mapping[str, Report], hosts: tuple[str, ...]) -> Groups:
    """The groups, changed as hosts wish. The last member of a group cannot leave it."""
    members, since = dict(newest[0].groups.members), dict(newest[0].groups.since)
    for report in newest[1:]:
        # Groups that were made during the run are not known everywhere at once.
        members, since = report.groups.members | members, report.groups.since | since
    for host, report in reports.items():
        for group, joins in report.wishes.items():
            others = [other for other in hosts_in(members.get(group, b""), hosts) if other != host]
            wished = host_set([*others, host] if joins else others, hosts)
            if (joins or others) and wished != members.get(group):
                members[group], since[group] = wished, graph
    return Groups(members, since)


def merged(reports: Mapping[str, Report], hosts: tuple[str, ...], *, forgets_in_order: bool) -> list[Entry]:
    """One order of all entries that each of the histories is the beginning of, as far as its host is concerned.

    With `forgets_in_order`, what a host has and does not report any more comes before all that it reports.
    """
    entries = {entry.message: entry for report in reports.values() for entry in report.entries}
    later: dict[MessageId, list[MessageId]] = {message: [] for message in entries}
    waits_for = dict.fromkeys(entries, 0)
    for host, report in reports.items():
        has = [entry.message for entry in report.entries]
        known, passed = frozenset(has), dict(report.passed)
        others = [entry for message, entry in entries.items() if message not in known and host in hosts_in(entry.to, hosts)]
        lacks = [entry.message for entry in others if entry.sequence > passed.get(entry.flow, 0)]
        settled = [entry.message for entry in others if entry.sequence <= passed.get(entry.flow, 0)]
        steps = [*pairwise(has), *((has[-1], message) for message in lacks if has)]
        if forgets_in_order:
            steps += product(settled, has[:1] or lacks)
        for before, after in steps:
            later[before].append(after)
            waits_for[after] += 1
    return [entries[message] for message in _in_order(later, waits_for)]


def _in_order(later: Mapping[MessageId, Sequence[MessageId]], waits_for: dict[MessageId, int]) -> Iterator[MessageId]:
    """Messages that wait for no other, one after the other."""
    free = [message for message, number in waits_for.items() if not number]
    while waits_for:
        if not free:
            # No reports of hosts that follow the protocol contradict each other. Whatever a forged one says, the manager goes on.
            free = [next(iter(waits_for))]
        message = free.pop(0)
        if waits_for.pop(message, None) is None:
            continue
        yield message
        for following in later[message]:
            if following in waits_for:
                waits_for[following] -= 1
                if not waits_for[following]:
                    free.append(following)


def for_host(plan: Plan, report: Report) -> Plan:
    """The plan without the payloads that a host has."""
    has = {entry.message for entry in report.entries}
    slim = [msgspec.structs.replace(entry, payload=None) if entry.message in has else entry for entry in plan.order]
    return msgspec.structs.replace(plan, order=slim)


def rightful(
    host: str, delivered: Sequence[Entry], order: Sequence[Entry], passed: Passed, hosts: tuple[str, ...]
) -> list[Entry]:
    """What a host should have delivered, in order: the messages of a plan, and those that everybody has.

    `order` has those messages of a plan that are for the host, without those that it delivered before the first of `delivered`. A message
    that is part of the order, but not of the plan, is one that all hosts that it is for have. Where another host has both, it stays on its
    side of a message that kept its place, and comes before any other: also before one that this host delivered first, but that was lost
    and was passed on again in a later graph. Else it stays where it is if it can.
    """
    planned = {entry.message: place for place, entry in enumerate(order)}
    kept = {
        entry.message for entry in delivered if entry.message in planned and order[planned[entry.message]].graph == entry.graph
    }
    everybodys = {
        entry.message for entry in delivered if entry.message not in planned and entry.sequence <= passed.get(entry.flow, 0)
    }
    either = kept | everybodys

    def ties(entry: Entry) -> list[str | Flow]:
        """Two messages have a tie in common if they are of one flow, or another host has both."""
        return [entry.flow, *(other for other in hosts_in(entry.to, hosts) if other != host)]

    latest: dict[MessageId, int] = {}
    """For each message that everybody has, the last place in the plan that it may come right before."""
    bounds: dict[str | Flow, int] = {}
    later = [entry for entry in order if entry.message not in kept]
    for entry in (*later, *(entry for entry in reversed(delivered) if entry.message in either)):
        tied = ties(entry)
        place = planned.get(entry.message, -1)
        if place < 0:
            place = latest[entry.message] = min(bounds.get(tie, len(order)) for tie in tied)
        for tie in tied:
            bounds[tie] = min(place, bounds.get(tie, place))
    ahead: dict[int, list[Entry]] = {}
    here = 0
    bounds.clear()
    for entry in delivered:
        if entry.message in kept:
            place = planned[entry.message] + 1
            here = max(here, place)
        elif entry.message in everybodys:
            place = max([min(here, latest[entry.message]), *(bounds.get(tie, 0) for tie in ties(entry))])
            ahead.setdefault(place, []).append(entry)
        else:
            continue
        for tie in ties(entry):
            bounds[tie] = max(place, bounds.get(tie, 0))
    return [entry for place in range(len(order) + 1) for entry in (*ahead.get(place, ()), *order[place : place + 1])]


def diverges_at(delivered: Sequence[Entry], right: Sequence[Entry]) -> int:
    """How many of the messages that a host has delivered stand where they should: all before the first that does not."""
    for place, entry in enumerate(delivered):
        if place >= len(right) or right[place].message != entry.message:
            return place
    return len(delivered)
