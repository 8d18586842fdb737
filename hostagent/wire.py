"""The wire format: a fixed binary header that any tool can read, then a MessagePack body that only the protocol reads.

Every datagram starts with these 36 bytes, big-endian, at offsets that never vary:

    offset  size  field
         0     2  magic       0xCB17
         2     1  version     1
         3     1  protocol    number of the protocol
         4     1  kind        number of the message type within the protocol, from 0
         5     1  purpose     0 data, 1 repair, 2 control
         6     4  run         drawn for each run, so that datagrams of another run are recognised
        10     2  sender      number of the sending host, from 1
        12     8  packet      unique for each sender: its incarnation in the high 32 bits, then 1, 2, 3, ...
        20     2  group       number of the group, 0 for "all hosts"
        22     2  origin      number of the host that broadcast the message
        24     4  sequence    number of the message at its origin, from 1; 0 when about no message
        28     8  sent        nanoseconds since 1970 at the sender

With Ethernet, IPv4 and UDP in front the header ends at byte 78, so a capture cut at 96 bytes keeps all of it.

`Codec` turns messages into datagrams and back. What cannot be decoded raises `Refused` with the reason that is counted.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias
from typing import Any, Final, NamedTuple

import msgspec

from hostagent.messages import Message, Purpose

PORT: Final = 47000
"""The UDP port of every agent; each has an address of its own."""
MAGIC: Final = 0xCB17
VERSION: Final = 1
HEADER: Final = struct.Struct("!HBBBBIHQHHIQ")
# One Ethernet frame: 1500 bytes less 20 of IPv4 and 8 of UDP. Larger datagrams would be fragments, and break the books.
LONGEST_DATAGRAM: Final = 1472
LONGEST_BODY: Final = LONGEST_DATAGRAM - HEADER.size
# One of the code points that RFC 2474 sets aside for local use (xxxx11): what a switch writes for "crossed an expensive link".
COST_DSCP: Final = 0b000011
# The DSCP is the upper six bits of the byte that IP_RECVTOS hands out.
COST_TOS: Final = COST_DSCP << 2


class Header(NamedTuple):
    """The fixed header, field by field."""

    magic: int
    version: int
    protocol: int
    kind: int
    purpose: int
    run: int
    sender: int
    packet: int
    group: int
    origin: int
    sequence: int
    sent_ns: int


class Refused(Exception):
    """A datagram that is not for us or not well-formed; `reason` names the counter it goes to."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


REASONS: Final = ("malformed", "foreign_run", "oversized", "unknown_protocol", "unknown_kind", "unknown_host")
"""Every reason for which a datagram is refused, in the words of the counters."""


class Received(NamedTuple):
    """A datagram that was accepted."""

    sender: str
    message: Message
    header: Header


class Codec:
    """Messages of one protocol in one run, to datagrams and back."""

    def __init__(self, protocol: int, kinds: Sequence[type[Message]], run: int, numbers: Mapping[str, int]) -> None:
        self._protocol = protocol
        self._kinds = tuple(kinds)
        self._kind_numbers = {kind: number for number, kind in enumerate(kinds)}
        self._decode_body = tuple(_body_decoder(kind) for kind in kinds)
        self._run = run
        self._numbers = numbers
        self._names = {number: name for name, number in numbers.items()}

    def encode(self, sender: int, packet: int, message: Message, purpose: Purpose, sent_ns: int) -> bytes:
        """The datagram that carries `message`."""
        group, origin, sequence, *body = msgspec.structs.astuple(message)
        header = HEADER.pack(
            MAGIC,
            VERSION,
            self._protocol,
            self._kind_numbers[type(message)],
            purpose,
            self._run,
            sender,
            packet,
            group,
            self._numbers[origin],
            sequence,
            sent_ns,
        )
        datagram = header + _encode_body(body)
        if len(datagram) > LONGEST_DATAGRAM:
            raise ValueError(f"a {type(message).__name__} message of {len(datagram)} bytes exceeds {LONGEST_DATAGRAM}")
        return datagram

    def message_of(self, datagram: bytes) -> tuple[str, int]:
        """The origin and sequence number of the message that a datagram of ours is about."""
        header = Header._make(HEADER.unpack_from(datagram))
        return self._names[header.origin], header.sequence

    def decode(self, datagram: bytes) -> Received:
        """The message in a datagram, or `Refused`."""
        if len(datagram) > LONGEST_DATAGRAM:
            raise Refused("oversized")
        try:
            fields = HEADER.unpack_from(datagram)
        except struct.error:
            raise Refused("malformed") from None
        magic, version, protocol, kind, purpose, run, sender, _, group, origin, sequence, _ = fields
        if magic != MAGIC or version != VERSION or purpose >= _PURPOSES:
            raise Refused("malformed")
        if run != self._run:
            raise Refused("foreign_run")
        if protocol != self._protocol:
            raise Refused("unknown_protocol")
        if kind >= len(self._kinds):
            raise Refused("unknown_kind")
        if sender not in self._names or origin not in self._names:
            raise Refused("unknown_host")
        try:
            body = self._decode_body[kind](datagram[HEADER.size :])
            message = self._kinds[kind](group, self._names[origin], sequence, *body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Refused("malformed") from None
        return Received(self._names[sender], message, Header._make(fields))


_PURPOSES: Final = len(Purpose)
_IN_HEADER: Final = len(msgspec.structs.fields(Message))
_encode_body = msgspec.msgpack.Encoder().encode


def _body_decoder(kind: type[Message]) -> Callable[[bytes], tuple[Any, ...]]:
    """Decodes the fields that `kind` adds to those in the header: exactly that many, of exactly those types."""
    types = tuple(field.type for field in msgspec.structs.fields(kind)[_IN_HEADER:])
    return msgspec.msgpack.Decoder(GenericAlias(tuple, types)).decode
