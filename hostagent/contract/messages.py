"""What protocol cores say to each other, as frozen, typed values.

A protocol declares one subclass of `Message` per kind of message, in the order that numbers them on the wire:

    class Copy(Message):
        payload: Payload

The three fields every message has (`group`, `origin`, `sequence`) travel in the fixed header of the datagram, where a
capture can be searched for them; the fields of the subclass travel in the body.

Fields at the end that have a default are left out of the body where they have that value.

The type of a field says which values it may have: use the types below, or annotate others with `msgspec.Meta` and `Rule`. The codec
(`hostagent.contract.wire`) refuses a datagram with any other value, so a core is never handed a host that does not exist, a number that
is too large or a time that is no number.
"""

import enum
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, NamedTuple

import msgspec


class Purpose(enum.IntEnum):
    """Why a packet was sent. Cost is reported for each purpose separately."""

    DATA = 0
    REPAIR = 1
    CONTROL = 2


class Message(msgspec.Struct, frozen=True, array_like=True):
    """A protocol message about message `sequence` of host `origin`, or about the host itself where sequence is 0."""

    group: int
    origin: str
    sequence: int


def slots(payload: bytes) -> int:
    """How many slots a message takes up while it is under way: one if it is short."""
    return 1 + len(payload) // SLOT_BYTES


class Destination(NamedTuple):
    """Whom a message of the application is for."""

    group: int
    """The number of a group, or `LISTED`."""
    hosts: tuple[str, ...]
    """The hosts, in the static order; with a group, its members as the origin knows them when it broadcasts."""
    nth: int = 0
    """The message is the n-th of its origin to this group; 0 if n is its sequence number, and for hosts that were listed.

    A host that gets only what is for its groups sees gaps in an origin's sequence numbers, and none in these.
    """

    def others(self, host: str) -> tuple[str, ...]:
        """The destinations but this host."""
        return tuple(other for other in self.hosts if other != host)


class Rule(NamedTuple):
    """A condition on the value of a field, in addition to its type; a datagram that breaks the rule is refused for `reason`."""

    holds: Callable[[Any, Collection[str]], bool]
    """Takes the value and the hosts of the run."""
    reason: str
    """One of `hostagent.contract.wire.REASONS`."""


def _is_set_of_hosts(value: bytes, hosts: Collection[str]) -> bool:
    return len(value) == (len(hosts) + 7) // 8 and not int.from_bytes(value) >> len(hosts)


def _is_ascending(ranges: tuple[tuple[int, int], ...], _: Collection[str]) -> bool:
    return all(1 <= first <= last for first, last in ranges) and all(one[1] + 1 < next_[0] for one, next_ in pairwise(ranges))


# A body of one datagram: 1472 bytes less the 36 of the header. Declared here because `wire` imports this module.
LONGEST_PAYLOAD: Final = 1436
SLOT_BYTES: Final = 192
"""What is under way is bounded in slots of this size. 256 of them are 48 KB, and the queue of a link, of 100 packets, holds two copies."""
MOST_RANGES: Final = 80
"""Ranges of sequence numbers that fit into a datagram beside everything else."""

SequenceNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
"""The number of a message at its origin, or of a letter at its sender, from 1; 0 for none."""
GroupNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
"""The number of a group; `EVERYBODY` or `LISTED` for messages that are for no group of the scenario."""
EVERYBODY: Final = 0
"""The number of the group of all hosts."""
LISTED: Final = (1 << 16) - 1
"""In place of a group's number: the message is for hosts that were listed for this one message."""
ClockSeconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
"""A host's clock in seconds since 1970: finite, however wrong the clock is."""
Payload = Annotated[bytes, msgspec.Meta(max_length=LONGEST_PAYLOAD)]
"""What the application broadcast."""
Ranges = Annotated[
    tuple[tuple[SequenceNumber, SequenceNumber], ...],
    msgspec.Meta(max_length=MOST_RANGES),
    Rule(_is_ascending, "malformed"),
]
"""Sequence numbers as ranges from a first to a last one, in ascending order and with a gap between two of them."""
NumberOfEach = Annotated[
    tuple[SequenceNumber, ...],
    msgspec.Meta(max_length=LONGEST_PAYLOAD),
    Rule(lambda numbers, hosts: len(numbers) == len(hosts), "malformed"),
]
"""A number for each host of the run, in the static order."""
HostName = Annotated[str, Rule(lambda name, hosts: name in hosts, "unknown_host")]
"""A host of the run."""
HostNameOrNone = Annotated[str, Rule(lambda name, hosts: not name or name in hosts, "unknown_host")]
"""A host of the run; empty for none."""
HostSet = Annotated[bytes, Rule(_is_set_of_hosts, "unknown_host")]
"""A set of hosts: a big-endian number of as many bytes as all hosts need, in which bit i stands for host i of the run, from 0."""
HostSetOrNone = Annotated[bytes, Rule(lambda value, hosts: not value or _is_set_of_hosts(value, hosts), "unknown_host")]
"""A set of hosts; empty for none."""


def host_set(members: Collection[str], hosts: Sequence[str]) -> bytes:
    """Members of a run with these hosts, as a `HostSet`."""
    everybody = (1 << len(hosts)) - 1
    is_all = len(members) == len(hosts)
    bits = everybody if is_all else sum(1 << place for place, host in enumerate(hosts) if host in members)
    return bits.to_bytes((len(hosts) + 7) // 8)


def hosts_in(value: bytes, hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts in a `HostSet`, in the static order."""
    bits = int.from_bytes(value)
    return tuple(host for place, host in enumerate(hosts) if bits >> place & 1)
