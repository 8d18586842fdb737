"""The messages of Totem.

A ring is named by its *code*: its number times the number of hosts of the run, plus the place of its representative among all hosts. So no
two rings have one code, and each host is only ever in rings of higher and higher codes.
"""

from typing import Annotated, Final

import msgspec

from hostagent.contract.messages import (
    HostName,
    HostNameOrNone,
    HostSet,
    HostSetOrNone,
    Message,
    Payload,
    Rule,
    SequenceNumber,
)

MOST_HOSTS: Final = 64
"""A commit token has a report of each member and must fit into a datagram."""
MOST_REQUESTS: Final = 64
"""Ranges of messages that a token can ask for: 14 bytes each at most, so that the token fits into a datagram."""
MOST_REPORTED: Final = 28
"""Ranges beyond gaps in all the reports of a commit token together, which members share equally: in a larger ring there is room for none.
A range has 11 bytes at most, the rest of a report 28."""
MOST_OBLIGED: Final = 50
"""In a ring of more members there is no room in reports for obligations (`recovery`): a report has 20 bytes at most, without ranges."""

MOST_RINGS: Final = (1 << 32) // MOST_HOSTS - 1
"""The highest number of a ring, so that its code fits into 32 bits."""

RingCode = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Range = tuple[SequenceNumber, SequenceNumber]
Request = tuple[SequenceNumber, SequenceNumber, Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]]
"""The first and the last number of a range, and the place among all hosts of the one that lacks it."""
Report = tuple[
    RingCode,
    SequenceNumber,
    SequenceNumber,
    Annotated[tuple[Range, ...], msgspec.Meta(max_length=MOST_REPORTED)],
    bool,
    Annotated[bytes, msgspec.Meta(max_length=MOST_HOSTS // 8)],
]
"""What a member brings from its last ring: its code, up to which number this member has everything, up to which number it knows that
all members have everything, the ranges that it has beyond its first gap, whether there are more of them than there was room for, and the
set of hosts whose messages it has to deliver even beyond a gap (`recovery`), empty for none."""


Requests = Annotated[
    tuple[Request, ...],
    msgspec.Meta(max_length=MOST_REQUESTS),
    Rule(lambda requests, _: all(1 <= first <= last for first, last, _ in requests), "malformed"),
    Rule(lambda requests, hosts: all(place < len(hosts) for _, _, place in requests), "unknown_host"),
]
"""What members of a ring lack."""


class Data(Message, frozen=True):
    """A message of the application, with its number on a ring."""

    ring: RingCode
    number: SequenceNumber
    payload: Payload
    nth: SequenceNumber = 0
    """As in `Destination`."""
    to: HostSetOrNone = b""
    """The hosts that the message is for, if it is for no group or not for all members of the ring."""
    old_ring: RingCode = 0
    """During recovery: the ring that the message was sent on first."""
    old_number: SequenceNumber = 0


class Token(Message, frozen=True):
    """The right to send. `origin` is the host that passes it on."""

    ring: RingCode
    hop: Count
    """How often the token was passed on: a token that was passed on twice is recognised by it."""
    seq: SequenceNumber
    """The number of the last message."""
    aru: SequenceNumber
    """All received up to: every member has all messages up to this number, as far as the token knows."""
    aru_by: HostNameOrNone
    """The member that lowered `aru`, and alone may raise it; empty if `aru` is `seq`."""
    fcc: Count
    """Flow control: how many messages were sent in the last rotation."""
    backlog: Count
    """How many messages wait at all members."""
    recovering: Count
    """How many messages of older rings wait to be sent again."""
    last: HostName
    """The member that was the last to send messages of its own."""
    turns: Annotated[int, msgspec.Meta(ge=0, le=2)]
    """How often the token came back to `last` while nobody else had anything to send: two means that `last` may keep it."""
    missing: Requests = ()


class Wake(Message, frozen=True):
    """The sender wants the token, which the receiver keeps."""

    ring: RingCode


class Join(Message, frozen=True):
    """The sender wants to form a ring with the hosts in `proc` that are not in `fail`."""

    proc: HostSet
    fail: HostSet
    number: Annotated[int, msgspec.Meta(ge=0, lt=MOST_RINGS)]
    """The highest number of a ring that the sender knows."""


class Commit(Message, frozen=True):
    """The commit token of a ring that is being formed. It goes round twice: first to collect the reports, then to show them to all."""

    ring: RingCode
    members: HostSet
    hop: Count
    reports: Annotated[tuple[Report, ...], msgspec.Meta(max_length=MOST_HOSTS)]


class Probe(Message, frozen=True):
    """The sender is in a ring without the receiver."""

    ring: RingCode
