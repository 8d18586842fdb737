"""The parameters and the messages of the sequencer's protocol."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from hostagent.contract.core import Milliseconds, Parameters
from hostagent.contract.messages import (
    LISTED,
    Destination,
    HostSetOrNone,
    Message,
    Payload,
    Ranges,
    SequenceNumber,
    host_set,
    hosts_in,
)
from hostagent.parts.round_trips import RoundTrips

MOST_HOSTS: Final = 1000
AT_ONCE: Final = 64
"""Messages that are sent again in answer to one request: two thirds of the default queue of a link."""


class SequencerParameters(Parameters, frozen=True, kw_only=True):
    """Who numbers the messages, who takes over, and how much is kept and under way."""

    sequencer: str = ""
    """The host that numbers all messages; the first host if empty."""
    failover: Literal["none", "elect"] = "none"
    """When the sequencer fails: wait until it is back, or have a majority elect a successor."""
    history: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1024
    """Messages that are kept until all have them; when there are as many, further ones wait at their sources. With `elect`, nobody waits
    for a host that is dead, and more is kept for it."""
    window: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 64
    """Messages of one source that are on their way to the sequencer; two thirds of the default queue of a link."""
    gather_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] = 0.0
    """Once the sequencer has ordered messages, others wait for so long, or until they fill a datagram: packed, they are fewer packets."""
    silence_ms: Milliseconds = 500.0
    """After this time without a message, the sequencer asks those who have not said that they have everything."""
    longest_wait_ms: Milliseconds = 1000.0
    """No answer is awaited for longer than this. How long it is, follows the round trips that were seen."""

    def round_trips(self) -> RoundTrips:
        """For a host that has never answered, a quarter of the longest wait."""
        return RoundTrips(self.longest_wait_ms / 1000, self.longest_wait_ms / 4000)

    @property
    def report_every(self) -> int:
        """A host that sends nothing else says after this many messages what it has: eight times in a full history."""
        return max(self.history // 8, 1)


class Submission(Message, frozen=True):
    """A message of the origin on its way to the sequencer. The origin has everything that is for it up to the number `has`."""

    has: SequenceNumber
    payload: Payload
    listed: HostSetOrNone = b""
    """The hosts that the message is for, if it is for no group."""


class Query(Message, frozen=True):
    """The origin has submitted its messages up to `sequence` and has not seen them ordered. `has` is as in `Submission`."""

    has: SequenceNumber


class Taken(Message, frozen=True):
    """The sequencer has ordered the messages of the origin up to `sequence`, and lacks these later ones."""

    missing: Ranges


class Ordered(Message, frozen=True):
    """A message with its number in the order of all messages."""

    number: SequenceNumber
    before: Annotated[tuple[SequenceNumber, ...], msgspec.Meta(max_length=MOST_HOSTS)]
    """For each destination but the sequencer, in the static order, the number of the last message before this one that is for it; one
    number if it is the same for all. So a host sees that it lacks something, though most numbers may belong to messages of other groups."""
    payload: Payload
    listed: HostSetOrNone = b""


class Status(Message, frozen=True):
    """The sequencer asks what the receiver has; the last message for the receiver has this number."""

    number: SequenceNumber


class Report(Message, frozen=True):
    """The sender has everything that is for it up to a number, and asks for what is for it in these ranges of numbers."""

    has: SequenceNumber
    missing: Ranges


class Entry(Message, frozen=True):
    """With failover: a message with its number, sent to everybody. Sequence 0 is no message, but the first entry of a new epoch."""

    epoch: SequenceNumber
    """The epoch of the sequencer that sends this."""
    number: SequenceNumber
    born: SequenceNumber
    """The epoch in which the message got its number."""
    stable: SequenceNumber
    """All entries up to this one are at a majority."""
    floor: SequenceNumber
    """The sequencer has forgotten the entries up to this one: all hosts have them, but for those that were given up."""
    floor_born: SequenceNumber
    """The epoch in which the entry `floor` got its number."""
    payload: Payload
    listed: HostSetOrNone = b""


class Stable(Message, frozen=True):
    """With failover: what is new about entries that were sent before; the sequencer may ask what the receiver has."""

    epoch: SequenceNumber
    number: SequenceNumber
    """The last entry has this number."""
    stable: SequenceNumber
    floor: SequenceNumber
    floor_born: SequenceNumber
    asks: bool


class Accepted(Message, frozen=True):
    """With failover: the sender has the same entries as the sequencer of this epoch up to a number, and lacks these; it may ask back."""

    epoch: SequenceNumber
    number: SequenceNumber
    floor: SequenceNumber
    """The sender has forgotten the entries up to this one."""
    missing: Ranges
    asks: bool
    is_left_behind: bool
    """Whether the sequencer has forgotten entries that the sender lacks."""


class Passed(Message, frozen=True):
    """With failover: the receiver is, or has asked, a sequencer of a former epoch. The origin of this message is the one of `epoch`."""

    epoch: SequenceNumber


def listed(to: Destination, hosts: Sequence[str]) -> bytes:
    """What a message says of its destinations beside their group."""
    return host_set(to.hosts, hosts) if to.group == LISTED else b""


def destination(group: int, some: bytes, groups: dict[int, tuple[str, ...]], hosts: Sequence[str]) -> Destination | None:
    """Whom a message is for; None if this host does not know the group, or not yet."""
    if group == LISTED:
        return Destination(LISTED, hosts_in(some, hosts))
    return Destination(group, groups[group]) if group in groups else None
