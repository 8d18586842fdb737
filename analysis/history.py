"""What the application saw: which host broadcast which message when, and which host delivered it when."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Broadcast(NamedTuple):
    """Host `origin` broadcast its message `sequence`."""

    at_ns: int
    origin: str
    sequence: int

    @property
    def message(self) -> tuple[str, int]:
        """What names a message."""
        return self.origin, self.sequence


class Delivery(NamedTuple):
    """Host `host` delivered message `sequence` of `origin`."""

    at_ns: int
    host: str
    origin: str
    sequence: int

    @property
    def message(self) -> tuple[str, int]:
        """What names a message."""
        return self.origin, self.sequence


class History(NamedTuple):
    """Broadcasts and deliveries in the order of time, on the one clock that all hosts share.

    `damage` says what is known to be missing. A check must not conclude anything from an absence in a damaged history.
    """

    hosts: tuple[str, ...]
    broadcasts: tuple[Broadcast, ...]
    deliveries: tuple[Delivery, ...]
    ended_ns: int
    damage: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        """How many messages were broadcast."""
        return len({broadcast.message for broadcast in self.broadcasts})


def make(hosts: tuple[str, ...], rows: Iterable[Mapping[str, Any]], ended_ns: int, problems: Iterable[str]) -> History:
    """A history from the rows of the event table; rows with a `report` say what could not be read."""
    broadcasts, deliveries, damage = [], [], list(problems)
    for row in rows:
        if row["report"] is not None:
            damage.append(row["report"])
        elif row["event"] == "broadcast":
            broadcasts.append(Broadcast(row["at_ns"], row["origin"], row["sequence"]))
        else:
            deliveries.append(Delivery(row["at_ns"], row["host"], row["origin"], row["sequence"]))
    return History(hosts, tuple(sorted(broadcasts)), tuple(sorted(deliveries)), ended_ns, tuple(sorted(damage)))
