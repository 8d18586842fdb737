"""What hosts say to each other in Trans and Total.

`origin` of the header is the host whose message it is. A message of the application has its sequence number there, a null message 0.
"""

from collections.abc import Collection
from typing import Annotated, Final

import msgspec

from hostagent.contract.messages import HostNameOrNone, HostSetOrNone, Message, NumberOfEach, Payload, Rule

MOST_ACKS: Final = 12
MOST_HEARD: Final = 4
MOST_MISSES: Final = 6
"""What fits into a datagram beside the longest message of the application: 1200 of 1436 bytes."""
MOST_ACKS_OF_NULL: Final = 128
"""What fits into a null message, which carries nothing else."""
MOST_HOSTS: Final = 256
"""That many numbers fit into a datagram beside everything else."""

Mark = tuple[
    Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)],
    Annotated[int, msgspec.Meta(ge=1, lt=1 << 32)],
]
"""A message: the place of its host in the static order, from 0, and its number there."""


def _exist(marks: tuple[Mark, ...], hosts: Collection[str]) -> bool:
    return all(place < len(hosts) for place, _ in marks)


Marks = Annotated[tuple[Mark, ...], msgspec.Meta(max_length=MOST_ACKS_OF_NULL), Rule(_exist, "unknown_host")]
Counts = NumberOfEach
"""A number for each host, in the static order."""


class Said(Message, frozen=True):
    """The message of this number of its host. Its payload is for the application, unless the sequence in the header is 0."""

    number: Annotated[int, msgspec.Meta(ge=1, lt=1 << 32)]
    acks: Marks
    """Positive acknowledgements: the message follows these and what they follow, and the earlier messages of its own host."""
    payload: Payload = b""
    listed: HostSetOrNone = b""
    """The hosts that the message is for, if it is for no group."""
    heard: Marks = ()
    """Positive acknowledgements of messages that were received, and that follow messages which are missing."""
    misses: Marks = ()
    """Negative acknowledgements: the first messages that are missing. There are none if nothing is."""
    asked: HostNameOrNone = ""
    """The host that is asked to send again what is missing."""


class Status(Message, frozen=True):
    """How many messages of each host the sender has, with all that they follow."""

    have: Counts
    asks: bool
    """Whether the receiver is to answer with its own."""
