"""What the application saw, what the hosts bore, and what was done to them: the input of every checker.

A history is made from event logs and fault records, wherever they come from: Spark's tables, or a simulation in memory.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

MessageId = tuple[str, int]
"""The origin of a message and its sequence number there."""


class BroadcastEvent(NamedTuple):
    """Host `origin` broadcast its message `sequence` to `group`."""

    at_ns: int
    origin: str
    sequence: int
    group: int = 0

    @property
    def message(self) -> MessageId:
        """What names a message."""
        return self.origin, self.sequence


class Delivery(NamedTuple):
    """Host `host` delivered message `sequence` of `origin`."""

    at_ns: int
    host: str
    origin: str
    sequence: int
    group: int = 0

    @property
    def message(self) -> MessageId:
        """What names a message."""
        return self.origin, self.sequence


class Sample(NamedTuple):
    """A host's own account at an instant: datagrams sent since it started, and items that its protocol keeps."""

    at_ns: int
    host: str
    sent: int
    items: int


class ParentChange(NamedTuple):
    """Host `host` has `parent` in the tree of `source` from now on; an empty parent is none."""

    at_ns: int
    host: str
    source: str
    parent: str


class Suspicion(NamedTuple):
    """From now on host `host` suspects `suspect` to have failed, or trusts it again."""

    at_ns: int
    host: str
    suspect: str
    suspected: bool


class SuspicionSpan(NamedTuple):
    """From when until when a host suspected another."""

    host: str
    suspect: str
    start_ns: int
    end_ns: int


class History(NamedTuple):
    """Everything in the order of time, on the one clock that all hosts share. Of two events at one host, the first in its log comes first.

    `damage` says what is known to be missing. A checker must not conclude anything from an absence in a damaged history.
    """

    hosts: tuple[str, ...]
    broadcasts: tuple[BroadcastEvent, ...]
    deliveries: tuple[Delivery, ...]
    ended_ns: int
    samples: tuple[Sample, ...] = ()
    damage: tuple[str, ...] = ()
    parents: tuple[ParentChange, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()

    @property
    def messages(self) -> int:
        """How many messages were broadcast."""
        return len({broadcast.message for broadcast in self.broadcasts})

    @property
    def broadcast_at(self) -> dict[MessageId, int]:
        """When each message was first broadcast."""
        return {broadcast.message: broadcast.at_ns for broadcast in reversed(self.broadcasts)}


def suspicion_spans(history: History) -> Iterator[SuspicionSpan]:
    """Every suspicion with its end: when it was taken back, or when the run ended."""
    since: dict[tuple[str, str], Suspicion] = {}
    for change in history.suspicions:
        pair = change.host, change.suspect
        if change.suspected:
            since.setdefault(pair, change)
        elif pair in since:
            yield SuspicionSpan(*pair, since.pop(pair).at_ns, change.at_ns)
    for pair, change in since.items():
        yield SuspicionSpan(*pair, change.at_ns, history.ended_ns)


def make(
    hosts: tuple[str, ...], events: Iterable[tuple[str, int, str, str, int, dict[str, Any]]], ended_ns: int, damage: Iterable[str]
) -> History:
    """A history from events: host, time, event, origin, sequence and details of each, in the order of each host's log."""
    broadcasts, deliveries, samples, parents, suspicions = [], [], [], _Parents(), _Suspicions()
    for host, at_ns, event, origin, sequence, details in events:
        if event == "broadcast":
            broadcasts.append(BroadcastEvent(at_ns, origin, sequence, details.get("group", 0)))
        elif event == "deliver":
            deliveries.append(Delivery(at_ns, host, origin, sequence, details.get("group", 0)))
        elif event == "sample":
            samples.append(Sample(at_ns, host, details["sent"], details["items"]))
        elif event == "parent":
            parents.change(at_ns, host, details["source"], details["parent"])
        elif event in {"suspect", "trust"}:
            suspicions.change(at_ns, host, details["host"], suspected=event == "suspect")
        elif event == "start":
            parents.forget(at_ns, host)
            suspicions.forget(at_ns, host)
    # Sorting by time alone keeps the order of each log.
    for table in (broadcasts, deliveries, samples, parents.changes, suspicions.changes):
        table.sort(key=lambda row: row[0])
    logged = tuple(broadcasts), tuple(deliveries), ended_ns, tuple(samples)
    missing = (*damage, *_numbered_twice(broadcasts))
    return History(hosts, *logged, missing, tuple(parents.changes), tuple(suspicions.changes))


def _numbered_twice(broadcasts: Iterable[BroadcastEvent]) -> Iterator[str]:
    """A source that has lost its storage counts from one again, and nobody can tell which of two messages was delivered."""
    seen: set[MessageId] = set()
    for broadcast in broadcasts:
        if broadcast.message in seen:
            yield f"{broadcast.origin} has broadcast two messages with number {broadcast.sequence}, which cannot be told apart"
            return
        seen.add(broadcast.message)


class _Parents:
    """The parents that hosts say they have; one that starts again has none until it says so."""

    def __init__(self) -> None:
        self.changes: list[ParentChange] = []
        self._now: dict[str, dict[str, str]] = {}

    def change(self, at_ns: int, host: str, source: str, parent: str) -> None:
        """Note a host's new parent."""
        self._now.setdefault(host, {})[source] = parent
        self.changes.append(ParentChange(at_ns, host, source, parent))

    def forget(self, at_ns: int, host: str) -> None:
        """Let a host have no parents."""
        for source, parent in self._now.get(host, {}).items():
            if parent:
                self.change(at_ns, host, source, "")


class _Suspicions:
    """Whom hosts say that they suspect; one that starts again trusts everybody."""

    def __init__(self) -> None:
        self.changes: list[Suspicion] = []
        self._now: dict[str, dict[str, None]] = {}

    def change(self, at_ns: int, host: str, suspect: str, *, suspected: bool) -> None:
        """Note what a host thinks of another."""
        if suspected:
            self._now.setdefault(host, {})[suspect] = None
        else:
            self._now.get(host, {}).pop(suspect, None)
        self.changes.append(Suspicion(at_ns, host, suspect, suspected))

    def forget(self, at_ns: int, host: str) -> None:
        """Let a host trust everybody."""
        for suspect in list(self._now.get(host, {})):
            self.change(at_ns, host, suspect, suspected=False)
