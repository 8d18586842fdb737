"""Reads the event logs of a run. A damaged line ends the log: the lines before it are kept, and a sentence tells of the damage.

A commit that a killed agent did not finish is not damage: nothing of it ever left the host, and it is not read
(`hostagent.contract.events`).
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from hostagent.contract.events import committed
from hostagent.contract.messages import GroupNumber, SequenceNumber
from runfiles.decoding import checked
from runfiles.format import Count, Event

KEPT: Final = frozenset(
    {
        *("broadcast", "receive", "deliver", "commit", "take-back"),
        *("view", "join", "leave", "token", "accepted", "excluded", "failed", "recovered"),
        *("sample", "held-back", "parent", "graph", "suspect", "trust", "start"),
    }
)
"""The events that a history is made of."""


class EventLog(NamedTuple):
    """The events of one host that were asked for, each with its line number in the log, and the problem of a damaged log."""

    events: list[tuple[int, Event]]
    problem: str = ""


def read_log(host: str, path: Path, kinds: Collection[str] = KEPT) -> EventLog:
    """Read the events of these kinds from the log of a host, up to its end or to the first damaged line."""
    decode = checked(msgspec.json.Decoder(Event).decode)
    events: list[tuple[int, Event]] = []
    number = 0
    try:
        log = committed(path.read_bytes())
        for number, line in enumerate(log.lines, start=1):
            event = decode(line)
            if event.event in kinds:
                events.append((number, _checked(event)))
    except OSError as error:
        return EventLog(events, f"the event log of {host} cannot be read ({error.strerror})")
    except msgspec.MsgspecError:
        return EventLog(events, f"the event log of {host} is damaged from line {number} on")
    if log.damaged:
        return EventLog(events, f"the event log of {host} is damaged from line {len(log.lines) + 1} on")
    return EventLog(events)


class _Details(msgspec.Struct):
    group: GroupNumber = 0
    to: tuple[str, ...] = ()
    ordinal: SequenceNumber = 0
    late_ms: Count = 0


class _ViewDetails(msgspec.Struct):
    group: GroupNumber
    view: Count
    members: tuple[str, ...]


class _MembershipDetails(msgspec.Struct):
    group: GroupNumber


class _TokenDetails(msgspec.Struct):
    """Without a generation the line is one of the protocol's own, which no checker reads."""

    generation: Count = 0
    held: bool = False


class _SampleDetails(msgspec.Struct):
    sent: Count
    items: Count
    processor_ms: Count | None = None


class _HeldBackDetails(msgspec.Struct):
    messages: Count


class _ParentDetails(msgspec.Struct):
    source: str
    parent: str


class _GraphDetails(msgspec.Struct):
    number: Count
    closed: bool
    primary_of: tuple[GroupNumber, ...]


class _SuspicionDetails(msgspec.Struct):
    host: str


class _AcceptanceDetails(msgspec.Struct):
    graph: Count


class _ExclusionDetails(msgspec.Struct):
    host: str
    graph: Count


_DETAILS: Final[dict[str, type[Any]]] = {
    "view": _ViewDetails,
    "join": _MembershipDetails,
    "leave": _MembershipDetails,
    "token": _TokenDetails,
    "sample": _SampleDetails,
    "held-back": _HeldBackDetails,
    "parent": _ParentDetails,
    "graph": _GraphDetails,
    "suspect": _SuspicionDetails,
    "trust": _SuspicionDetails,
    "excluded": _ExclusionDetails,
    "accepted": _AcceptanceDetails,
}


def _checked(event: Event) -> Event:
    """The event, if its details are of the types that a history needs."""
    msgspec.convert(event.details, _DETAILS.get(event.event, _Details))
    return event
