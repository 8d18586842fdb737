"""The requests of the testbed to a running agent, and what its application offers: datagrams on two private Unix sockets of the host."""

from typing import Any, Final

import msgspec

from hostagent.contract.messages import EVERYBODY

LONGEST_REQUEST: Final = 1 << 16


class Offer(msgspec.Struct, frozen=True):
    """A message that the application of this host wants to broadcast; those of one moment share a datagram."""

    payload: bytes
    to: int | tuple[str, ...] = EVERYBODY
    """The number of a group, or the hosts that this message is for."""
    due_ns: int = 0
    """When it was to be broadcast, on the machine's clock."""


class JoinRequest(msgspec.Struct, frozen=True, tag=True):
    """The application of this host wants to be in a group."""

    group: int


class LeaveRequest(msgspec.Struct, frozen=True, tag=True):
    """The application of this host wants to leave a group."""

    group: int


class GroupRequest(msgspec.Struct, frozen=True, tag=True):
    """There is a new group with these members. On a network that multicasts it has an IPv4 address, else none."""

    group: int
    members: tuple[str, ...]
    address: str = ""


class Hush(msgspec.Struct, frozen=True, tag=True):
    """Send nothing more, but go on receiving and counting, since datagrams in flight at the end of a run must be accounted for."""

    held_back: int = 0
    """How many messages the application had for this host that did not get to its door."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Log the end and exit."""


class SetClock(msgspec.Struct, frozen=True, tag=True):
    """From `since_ns` of the machine's clock, the host's clock is off by `offset_ns` and runs at `rate`."""

    offset_ns: int
    rate: float
    since_ns: int


class AtDoor(msgspec.Struct, frozen=True, tag=True):
    """Receive the `nth` message of this kind, counted from now, `copies` times: not at all, or twice."""

    kind: str
    nth: int
    copies: int


class CrashWhen(msgspec.Struct, frozen=True):
    """The agent kills itself at the `nth` event that fits: no other process could do so in time. Empty fields fit everything."""

    event: str
    origin: str = ""
    sequence: int = 0
    nth: int = 1
    details: dict[str, Any] = {}
    """Values that the event's details must have."""


class StartOrder(msgspec.Struct, frozen=True):
    """Which agent the launcher is to start, and which faults its host has from the start."""

    host: str
    incarnation: int
    clock: SetClock | None = None
    """The fault of the machine's clock, if there is one."""
    crashes: tuple[CrashWhen, ...] = ()
    """The crashes that have not happened yet. Each counts its events from this start."""
    groups: tuple[GroupRequest, ...] = ()
    """The groups that were made since the start of the run."""


Request = JoinRequest | LeaveRequest | GroupRequest | Hush | Stop | SetClock | AtDoor

encode_request = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_offers = msgspec.msgpack.Decoder(list[Offer]).decode
