"""Joins, leaves, arrivals and departures: refuses what makes no sense before anything is made, and says whom a multicast tree leads to.

Items with times are checked in the order of time. When an item with a trigger happens is unknown, so such an item is refused only if it
would be wrong at any time, and it makes room for what could be right after it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from scenarios.faults import Arrive, Depart, Fault, FaultError, Join, Leave, described

Change = Join | Leave


def changes_of(faults: Iterable[Fault]) -> list[Change]:
    """The joins and leaves among the items of a timetable."""
    return [fault for fault in faults if isinstance(fault, Join | Leave)]


def check_known(faults: Iterable[Fault], protocol: str, *, knows_membership: bool) -> None:
    """Refuse joins and leaves for a protocol in which hosts neither join nor leave groups."""
    for change in changes_of(faults) if not knows_membership else ():
        raise FaultError(f"{described(change)}: protocol {protocol} knows no membership, so no host can join or leave a group")


def check_membership(
    faults: Sequence[Fault], members: Mapping[str, Collection[str]], broadcasts: Iterable[tuple[float, str]]
) -> None:
    """Check a timetable against the groups at the start, and against the broadcasts, each with its time and its source."""
    changes = changes_of(faults)
    for change in changes:
        if change.group not in members:
            raise FaultError(f"{described(change)}: there is no group {change.group!r}; choose from {', '.join(members)}")
    for group, at_start in members.items():
        own = [change for change in changes if change.group == group]
        _check_timed(at_start, own)
        _check_triggered(at_start, own)
    _check_presence(faults, broadcasts)


def _check_timed(at_start: Collection[str], changes: Sequence[Change]) -> None:
    """Follow the members of a group through the changes that have a time."""
    triggered = [change for change in changes if change.at_ms is None]
    members = set(at_start)
    for change in sorted((change for change in changes if change.at_ms is not None), key=lambda change: change.at_ms or 0.0):
        if isinstance(change, Join):
            if change.host in members and not _has(triggered, Leave, change.host):
                raise FaultError(f"{described(change)}: {change.host} is in group {change.group!r} already")
            members.add(change.host)
            continue
        if change.host not in members and not _has(triggered, Join, change.host):
            raise FaultError(f"{described(change)}: {change.host} is not in group {change.group!r}")
        members.discard(change.host)
        if not members and not any(isinstance(other, Join) for other in triggered):
            raise _is_last(change)


def _check_triggered(at_start: Collection[str], changes: Sequence[Change]) -> None:
    """Refuse the triggered changes of a group that are wrong at any time."""
    can_grow = any(isinstance(change, Join) for change in changes)
    for change in (change for change in changes if change.at_ms is None and change.host):
        is_in = change.host in at_start
        if isinstance(change, Join) and is_in and not _has(changes, Leave, change.host):
            raise FaultError(f"{described(change)}: {change.host} is in group {change.group!r} already")
        if isinstance(change, Leave) and not is_in and not _has(changes, Join, change.host):
            raise FaultError(f"{described(change)}: {change.host} is not in group {change.group!r}")
        if isinstance(change, Leave) and set(at_start) == {change.host} and not can_grow:
            raise _is_last(change)


def _has(changes: Iterable[Change], kind: type[Change], host: str) -> bool:
    """Whether one of the changes is of this kind and of this host, or of a host that its trigger names."""
    return any(isinstance(change, kind) and change.host in {"", host} for change in changes)


def _is_last(change: Change) -> FaultError:
    return FaultError(f"{described(change)}: {change.host} is the last member of group {change.group!r}, which must not be empty")


def _check_presence(faults: Sequence[Fault], broadcasts: Iterable[tuple[float, str]]) -> None:
    """Refuse two arrivals or departures of a host, and whatever a host does before its arrival or after its departure."""
    for kind, done in ((Arrive, "arrives"), (Depart, "departs")):
        for host, times in Counter(fault.target for fault in faults if isinstance(fault, kind) and fault.target).items():
            if times > 1:
                raise FaultError(f"{host} {done} twice: a host comes once and leaves for good once")
    arrives_ms = _times(faults, Arrive)
    departs_ms = _times(faults, Depart)
    acts = [(change.at_ms, change.host, described(change)) for change in changes_of(faults) if change.at_ms is not None]
    acts += [(at_ms, host, f"fault depart {host}") for host, at_ms in departs_ms.items()]
    away = arrives_ms.keys() | departs_ms.keys()
    acts += [(at_ms, source, f"a broadcast of {source}") for at_ms, source in broadcasts if source in away]
    for at_ms, host, what in acts:
        if at_ms < arrives_ms.get(host, 0.0):
            raise FaultError(f"{what} at {at_ms:g} ms: {host} arrives only at {arrives_ms[host]:g} ms")
        if at_ms > departs_ms.get(host, at_ms):
            raise FaultError(f"{what} at {at_ms:g} ms: {host} departs at {departs_ms[host]:g} ms and does not come back")


def _times(faults: Iterable[Fault], kind: type[Arrive | Depart]) -> dict[str, float]:
    return {fault.target: fault.at_ms for fault in faults if isinstance(fault, kind) and fault.at_ms is not None}


class Trees:
    """The hosts that a network which multicasts sends the packets of each group to, as hosts join and leave.

    A host that joins is in the tree before its application is told. A host that asks to leave stays in the tree until it logs a view
    without itself: until then it is a member.
    """

    def __init__(self, members: Mapping[int, Sequence[str]], set_members: Callable[[int, tuple[str, ...]], None]) -> None:
        self.members = {group: tuple(hosts) for group, hosts in members.items()}
        self._set_members = set_members
        self._leaving: dict[tuple[int, str], int] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a host is about to leave, so that its views matter."""
        return bool(self._leaving)

    def join(self, group: int, host: str) -> bool:
        """Have the tree lead to a host. Returns whether it did not do so before."""
        self._leaving.pop((group, host), None)
        is_new = host not in self.members[group]
        if is_new:
            self._change(group, (*self.members[group], host))
        return is_new

    def add(self, group: int, members: tuple[str, ...]) -> None:
        """There is a new group."""
        self._change(group, members)

    def leave(self, group: int, host: str, at_ns: int) -> None:
        """A host asks to leave."""
        self._leaving[group, host] = at_ns

    def notice(self, host: str, event: str, at_ns: int, details: Mapping[str, Any]) -> None:
        """Take an event of a host: if it is a view without the host, which has asked to leave, the tree leads there no more."""
        if event != "view" or host in details["members"]:
            return
        group = details["group"]
        if at_ns >= self._leaving.get((group, host), at_ns + 1):
            del self._leaving[group, host]
            self._change(group, tuple(member for member in self.members[group] if member != host))

    def _change(self, group: int, members: tuple[str, ...]) -> None:
        self.members[group] = members
        self._set_members(group, members)
