"""What hosts say to each other in the timestamp protocol."""

from typing import Annotated, Final

import msgspec

from hostagent.contract.messages import (
    LISTED,
    Destination,
    HostSet,
    HostSetOrNone,
    Message,
    NumberOfEach,
    Payload,
    Ranges,
    Rule,
    SequenceNumber,
    host_set,
    hosts_in,
)

Clock = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""A logical clock, from 1; 0 at the start."""
MOST_HOSTS: Final = 200
"""That many numbers fit into a datagram beside everything else."""
Have = NumberOfEach
"""For each host of the run, the number of its messages that the sender has, without gaps."""
HaveOrNone = Annotated[
    tuple[SequenceNumber, ...],
    msgspec.Meta(max_length=MOST_HOSTS),
    Rule(lambda value, hosts: len(value) in {0, len(hosts)}, "malformed"),
]
"""The same, or nothing."""
ItemId = tuple[str, int]
"""A source, and the number of the message in its stream."""


class Item(Message, frozen=True):
    """A message with its time stamp: the clock of its source. All messages of a source are one stream, whoever they are for."""

    number: SequenceNumber
    clock: Clock
    payload: Payload
    nth: SequenceNumber = 0
    """As in `Destination`."""
    listed: HostSetOrNone = b""
    """The hosts that the message is for, if it is for no group."""
    view: SequenceNumber = 0
    """The view of whoever sends it."""

    @property
    def stamp(self) -> tuple[int, str]:
        """The place of the message in the order."""
        return self.clock, self.origin


class Stamp(Message, frozen=True):
    """The sender's clock: whatever it sends after its first `last` messages has a later time stamp."""

    clock: Clock
    last: SequenceNumber
    have: Have
    asks: bool = False
    """Whether the receiver is to answer with its own clock."""
    view: SequenceNumber = 0
    passed: HaveOrNone = ()
    """With a detector: for each host, how many of its messages the sender has delivered or passed over."""


class Missing(Message, frozen=True):
    """The sender lacks these messages of the origin."""

    missing: Ranges
    view: SequenceNumber = 0


class Install(Message, frozen=True):
    """A new view, of the host that was elected to make it: who is waited for, and what was sent in earlier views."""

    view: SequenceNumber
    base: SequenceNumber
    """The last view that anybody of the majority had installed."""
    members: HostSet
    cut: Have
    """For each host, how many of its messages count; those after them are void."""
    clock: Clock
    """New messages have later time stamps."""


def item(to: Destination, message: tuple[str, int], payload: bytes, hosts: tuple[str, ...]) -> Item:
    """A message that has no time stamp yet."""
    listed = host_set(to.hosts, hosts) if to.group == LISTED else b""
    return Item(to.group, *message, 0, 0, payload, to.nth, listed)


def destinations(message: Item, groups: dict[int, tuple[str, ...]], hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Whom a message is for. A forged datagram may name a group that does not exist."""
    return hosts_in(message.listed, hosts) if message.group == LISTED else groups.get(message.group, ())
