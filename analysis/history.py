"""What the application saw, what the hosts bore, and what was done to them: the input of every checker.

A history is made from event logs and fault records, wherever they come from: Spark's tables, or a simulation in memory.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

MessageId = tuple[str, int]
"""The origin of a message and its sequence number there."""


class Broadcast(NamedTuple):
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


class History(NamedTuple):
    """Everything in the order of time, on the one clock that all hosts share. Of two events at one host, the first in its log comes first.

    `damage` says what is known to be missing. A checker must not conclude anything from an absence in a damaged history.
    """

    hosts: tuple[str, ...]
    broadcasts: tuple[Broadcast, ...]
    deliveries: tuple[Delivery, ...]
    ended_ns: int
    samples: tuple[Sample, ...] = ()
    damage: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        """How many messages were broadcast."""
        return len({broadcast.message for broadcast in self.broadcasts})

    @property
    def broadcast_at(self) -> dict[MessageId, int]:
        """When each message was first broadcast."""
        return {broadcast.message: broadcast.at_ns for broadcast in reversed(self.broadcasts)}


def make(
    hosts: tuple[str, ...], events: Iterable[tuple[str, int, str, str, int, dict[str, Any]]], ended_ns: int, damage: Iterable[str]
) -> History:
    """A history from events: host, time, event, origin, sequence and details of each, in the order of each host's log."""
    broadcasts, deliveries, samples = [], [], []
    for host, at_ns, event, origin, sequence, details in events:
        if event == "broadcast":
            broadcasts.append(Broadcast(at_ns, origin, sequence, details.get("group", 0)))
        elif event == "deliver":
            deliveries.append(Delivery(at_ns, host, origin, sequence, details.get("group", 0)))
        elif event == "sample":
            samples.append(Sample(at_ns, host, details["sent"], details["items"]))
    # Sorting by time alone keeps the order of each log.
    for table in (broadcasts, deliveries, samples):
        table.sort(key=lambda row: row[0])
    return History(hosts, tuple(broadcasts), tuple(deliveries), ended_ns, tuple(samples), tuple(damage))
