"""The wire format: a fixed binary header that any tool can read, then a MessagePack body that only the protocol reads.

Every datagram starts with these 36 bytes, big-endian, at offsets that never vary:

    offset  size  field
         0     2  magic       0xCB17
         2     1  version     1
         3     1  protocol    number of the protocol
         4     1  kind        number of the message type within the protocol, from 0; 255 for a pack
         5     1  purpose     0 data, 1 repair, 2 control
         6     4  run         drawn for each run, so that datagrams of another run are recognised
        10     2  sender      number of the sending host, from 1
        12     8  packet      unique for each sender: its incarnation in the high 32 bits, then 1, 2, 3, ...
        20     2  group       number of the group, 0 for "all hosts"
        22     2  origin      number of the host that broadcast the message
        24     4  sequence    number of the message at its origin, from 1; 0 when about no message
        28     8  sent        nanoseconds since 1970 at the sender

With Ethernet, IPv4 and UDP in front the header ends at byte 78, so a capture cut at 96 bytes keeps all of it.

A pack is several messages to the same host in one datagram (`hostagent.runtime.packing` says when). Its body is a MessagePack array with
one array for each message, in the order in which they were sent:

    [fields, kind, purpose, group, origin, sequence]
    [fields]                                            for one that follows the message before it

`fields` is what the body would be if the message travelled alone. A message *follows* another if it is of the same kind, purpose, group and
origin, and its sequence number is the next: so a datagram holds a fifth more of a stream of short messages. The header's purpose is the
lowest of its messages' (data before repair before control), and its group, origin and sequence are those of the first message of that
purpose: a pack counts as a packet for that message. A sender writes these numbers at their full width, so that the length of a message in a
pack is known before it is written.

`Codec` turns messages into datagrams and back. What cannot be decoded, and what breaks the bounds that the types of a message's fields
declare (`hostagent.contract.messages`), raises `Refused` with the reason that is counted.
"""

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, get_args

import msgspec

from hostagent.contract.messages import GroupNumber, Message, Purpose, Rule, SequenceNumber

PORT: Final = 47000
"""The UDP port of every agent; each has an address of its own."""
MAGIC: Final = 0xCB17
VERSION: Final = 1
HEADER: Final = struct.Struct("!HBBBBIHQHHIQ")
# The header up to the sender: the same in all datagrams of one kind and purpose from one host.
_START: Final = struct.Struct("!HBBBBIH")
PURPOSE_AT: Final = 5
"""The offset of the purpose in a datagram."""
# One Ethernet frame: 1500 bytes less 20 of IPv4 and 8 of UDP. Larger datagrams would be fragments, and break the books.
LONGEST_DATAGRAM: Final = 1472
LONGEST_BODY: Final = LONGEST_DATAGRAM - HEADER.size
PACK: Final = 255
"""The kind of a pack."""
# The start of a pack, before its messages: a MessagePack array of 16-bit length.
_PACK_START: Final = struct.Struct("!BH")
_ARRAY_16: Final = 0xDC
# A message in a pack: the start of an array, its own fields, and numbers of 8, 8, 16, 16 and 32 bits, unless it follows the one before.
_ABOUT: Final = struct.Struct("!BBBBBHBHBI")
_ARRAY_OF_ONE, _ARRAY_OF_SIX = b"\x91", b"\x96"
_UINT_8, _UINT_16, _UINT_32 = 0xCC, 0xCD, 0xCE
ROOM_IN_PACK: Final = LONGEST_BODY - _PACK_START.size
"""The bytes that the messages of one pack may take together, each of them `Part.bytes_after` the one before it."""
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

    @classmethod
    def of(cls, datagram: bytes) -> "Header":
        """The header of a datagram."""
        return cls._make(HEADER.unpack_from(datagram))


_CODES: Final = HEADER.format[1:]
FIELDS: Final = tuple(
    (name, struct.calcsize("!" + _CODES[:number]), {"B": "u1", "H": ">u2", "I": ">u4", "Q": ">u8"}[code])
    for number, (name, code) in enumerate(zip(Header._fields, _CODES, strict=True))
)
"""The fixed header for code that reads many at once into arrays: the name, offset and type of each field."""


class Refused(Exception):
    """A datagram that is not for this host or not well-formed; `reason` names the counter that counts it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


REASONS: Final = ("malformed", "foreign_run", "oversized", "unknown_protocol", "unknown_kind", "unknown_host", "from_itself")
"""Every reason for which a datagram is refused, in the words of the counters."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """A message in the form in which it is put into a datagram, alone or with others."""

    message: Message
    purpose: Purpose
    kind: int
    origin: int
    body: bytes

    def follows(self, before: "Part | None") -> bool:
        """Whether the message is the next one of the same kind, purpose, group and origin."""
        return (
            before is not None
            and self.message.sequence == before.message.sequence + 1
            and self.kind == before.kind
            and self.purpose == before.purpose
            and self.origin == before.origin
            and self.message.group == before.message.group
        )

    def bytes_after(self, before: "Part | None") -> int:
        """The bytes that the message takes in a pack after this one, or as the first."""
        return 1 + len(self.body) + (0 if self.follows(before) else _ABOUT.size)


def leading(parts: Sequence[Part]) -> Part:
    """The message that a datagram is counted for: the first of those with the lowest purpose."""
    return parts[0] if len(parts) == 1 else min(parts, key=_purpose_of)


def _purpose_of(part: Part) -> int:
    return part.purpose


class Received(msgspec.Struct, frozen=True, gc=False):
    """A datagram that was accepted: one message, or those of a pack in their order."""

    sender: str
    messages: tuple[Message, ...]


class Codec:
    """Messages of one protocol in one run, to datagrams and back."""

    def __init__(
        self, protocol: int, kinds: Sequence[type[Message]], run: int, numbers: Mapping[str, int], receiver: str = ""
    ) -> None:
        """`receiver` is the host that decodes: no host sends to itself, so a datagram that claims to be from `receiver` is refused."""
        self._protocol = protocol
        self._kinds = tuple(kinds)
        self._kind_numbers = {kind: number for number, kind in enumerate(kinds)}
        self._make = tuple(_maker(kind, numbers) for kind in kinds)
        self._defaults = tuple(_defaults(kind) if own_fields(kind) else None for kind in kinds)
        self._run = run
        self._numbers = numbers
        self._names = {number: name for name, number in numbers.items()}
        self._receiver = numbers.get(receiver, 0)
        self._accepted: dict[bytes, tuple[str, _Make | None]] = {}
        """For each start of a header that was accepted, the sender, and what makes a message of the rest; None for a pack."""

    def part(self, message: Message, purpose: Purpose) -> Part:
        """Encode the fields of a message, once for all datagrams that carry it."""
        try:
            kind = self._kind_numbers[type(message)]
        except KeyError:
            raise ValueError(
                f"{type(message).__name__} is not one of the messages of the protocol: name it in its core"
            ) from None
        defaults = self._defaults[kind]
        if defaults is None:
            body = _NO_FIELDS
        else:
            fields = _as_tuple(message)[_IN_HEADER:]
            for default in defaults:
                if fields[-1] != default:
                    break
                fields = fields[:-1]
            body = _encode_body(fields)
            if len(body) > LONGEST_BODY:
                length = HEADER.size + len(body)
                raise ValueError(f"a {type(message).__name__} message of {length} bytes exceeds {LONGEST_DATAGRAM}")
        return Part(message, purpose, kind, self._numbers[message.origin], body)

    def datagram(
        self, sender: int, packet: int, parts: Sequence[Part], sent_ns: int, packs: dict[tuple[int, ...], bytes] | None = None
    ) -> bytes:
        """The datagram that carries these messages, which together fit into one.

        `packs` has the bodies of datagrams that were made from messages which are still there, by the identities of these, and gets
        this one's: the same messages often go to several hosts.
        """
        several = len(parts) > 1
        lead = leading(parts) if several else parts[0]
        header = HEADER.pack(
            MAGIC,
            VERSION,
            self._protocol,
            PACK if several else lead.kind,
            lead.purpose,
            self._run,
            sender,
            packet,
            lead.message.group,
            lead.origin,
            lead.message.sequence,
            sent_ns,
        )
        if not several:
            return header + lead.body
        packs, same = {} if packs is None else packs, tuple(map(id, parts))
        if same not in packs:
            packs[same] = _pack(parts)
        return header + packs[same]

    def encode(self, sender: int, packet: int, message: Message, purpose: Purpose, sent_ns: int) -> bytes:
        """The datagram that carries `message` alone."""
        return self.datagram(sender, packet, (self.part(message, purpose),), sent_ns)

    def as_received(self, part: Part) -> Part:
        """An encoded message with the message that its receiver decodes, which shares nothing with that of the sender."""
        about = part.message
        decoded = self._make[part.kind](about.group, self._names[part.origin], about.sequence, part.body)
        return Part(decoded, part.purpose, part.kind, part.origin, part.body)

    def decode(self, data: bytes | bytearray, start: int = 0, length: int | None = None) -> Received:
        """The messages in a datagram, or `Refused`. The datagram is `data`, or what begins there at `start`."""
        header, group, origin, sequence, body = _reader(len(data) if length is None else length)(data, start)
        known = self._accepted.get(header)
        if known is None or origin not in self._names:
            known = self._accept(header, origin)
        sender, make = known
        try:
            if make is None:
                messages = self._unpack(body, (header[PURPOSE_AT], group, origin, sequence))
            else:
                messages = (make(group, self._names[origin], sequence, body),)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Refused("malformed") from None
        return Received(sender, messages)

    def _accept(self, header: bytes, origin: int) -> "tuple[str, _Make | None]":
        """Refuse a header that no other host of this run can have written; remember the start of any other."""
        magic, version, protocol, kind, purpose, run, sender = _START.unpack(header)
        if magic != MAGIC or version != VERSION or purpose >= _PURPOSES:
            raise Refused("malformed")
        if run != self._run:
            raise Refused("foreign_run")
        if protocol != self._protocol:
            raise Refused("unknown_protocol")
        if kind >= len(self._kinds) and kind != PACK:
            raise Refused("unknown_kind")
        if sender not in self._names or origin not in self._names:
            raise Refused("unknown_host")
        if sender == self._receiver:
            raise Refused("from_itself")
        known = self._accepted[header] = self._names[sender], None if kind == PACK else self._make[kind]
        return known

    def _unpack(self, body: bytes, counts_for: tuple[int, int, int, int]) -> tuple[Message, ...]:
        """The messages of a pack. The whole pack is refused if one message is bad, or if the header names the wrong leading message."""
        lead: tuple[int, int, int, int] | None = None
        messages: list[Message] = []
        kind = purpose = group = origin = sequence = _FOLLOWS
        for entry in _decode_entries(body):
            if entry.kind == _FOLLOWS:
                sequence += 1
            else:
                kind, purpose, group, origin, sequence = entry.kind, entry.purpose, entry.group, entry.origin, entry.sequence
                self._check_entry(kind, origin, sequence)
                if lead is None or purpose < lead[0]:
                    lead = purpose, group, origin, sequence
            if not 0 <= kind < len(self._kinds) or sequence >= _SEQUENCES:
                # The first message follows no other, and nothing follows the highest number.
                raise Refused("malformed")
            messages.append(self._make[kind](group, self._names[origin], sequence, entry.fields))
        if lead != counts_for:
            raise Refused("malformed")
        return tuple(messages)

    def _check_entry(self, kind: int, origin: int, sequence: int) -> None:
        """Refuse what a message in a pack says about itself if no host can have written it."""
        if kind == PACK or sequence == _FOLLOWS:
            raise Refused("malformed")
        if kind >= len(self._kinds):
            raise Refused("unknown_kind")
        if origin not in self._names:
            raise Refused("unknown_host")


_Make = Callable[[int, str, int, bytes | msgspec.Raw], Message]
"""Makes a message of its group, origin and sequence number, and its body."""
_as_tuple = msgspec.structs.astuple
_PURPOSES: Final = len(Purpose)
_IN_HEADER: Final = len(msgspec.structs.fields(Message))
_encode_body = msgspec.msgpack.Encoder().encode
_NO_FIELDS: Final = _encode_body(())

_Octet = Annotated[int, msgspec.Meta(ge=0, lt=1 << 8)]
_Purpose = Annotated[int, msgspec.Meta(ge=0, lt=_PURPOSES)]
_HostNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
_FOLLOWS: Final = -1
"""In place of the numbers of a message in a pack that follows the one before."""
_SEQUENCES: Final = 1 << 32


class _Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A message in a pack."""

    fields: msgspec.Raw
    kind: _Octet = _FOLLOWS
    purpose: _Purpose = _FOLLOWS
    group: GroupNumber = _FOLLOWS
    origin: _HostNumber = _FOLLOWS
    sequence: SequenceNumber = _FOLLOWS


# A single message is sent without a pack.
_decode_entries = msgspec.msgpack.Decoder(Annotated[list[_Entry], msgspec.Meta(min_length=2)]).decode


def _pack(parts: Sequence[Part]) -> bytes:
    """The body of a pack."""
    pieces = [_PACK_START.pack(_ARRAY_16, len(parts))]
    before: Part | None = None
    for part in parts:
        if part.follows(before):
            pieces += _ARRAY_OF_ONE, part.body
        else:
            about = part.message
            kind_and_purpose = _UINT_8, part.kind, _UINT_8, part.purpose
            message = _UINT_16, about.group, _UINT_16, part.origin, _UINT_32, about.sequence
            pieces += _ARRAY_OF_SIX, part.body, _ABOUT.pack(*kind_and_purpose, *message)
        before = part
    return b"".join(pieces)


def own_fields(kind: type[Message]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields that a kind of message adds to those in the header."""
    return msgspec.structs.fields(kind)[_IN_HEADER:]


def _defaults(kind: type[Message]) -> tuple[Any, ...]:
    """The defaults of the fields at the end, the last one first."""
    return tuple(field.default for field in reversed(own_fields(kind)) if field.default is not msgspec.NODEFAULT)


def _maker(kind: type[Message], hosts: Collection[str]) -> _Make:
    """Makes messages of a kind, whose fields are checked against the bounds and rules that their types declare.

    A body has the fields that the kind adds to those in the header, all but those that have a default.
    """
    fields = [(field.name, field.type, field.default) for field in own_fields(kind)]
    body = msgspec.defstruct("Body", fields, array_like=True, forbid_unknown_fields=True, gc=False)
    decode, rules = msgspec.msgpack.Decoder(body).decode, _rules(kind)

    def make(group: int, origin: str, sequence: int, body: bytes | msgspec.Raw) -> Message:
        values = _as_tuple(decode(body))
        for place, rule in rules:
            if not rule.holds(values[place], hosts):
                raise Refused(rule.reason)
        return kind(group, origin, sequence, *values)

    return make


def _rules(kind: type[Message]) -> tuple[tuple[int, Rule], ...]:
    """The rules that the types of a kind's own fields declare, each with the place of its field."""
    return tuple(
        (place, rule) for place, field in enumerate(own_fields(kind)) for rule in get_args(field.type) if isinstance(rule, Rule)
    )


@cache
def _reader(length: int) -> Callable[[bytes | bytearray, int], tuple[bytes, int, int, int, bytes]]:
    """Reads a datagram of this length in one go: the start of its header, group, origin and sequence number, and its body."""
    if length > LONGEST_DATAGRAM:
        raise Refused("oversized")
    if length < HEADER.size:
        raise Refused("malformed")
    return struct.Struct(f"!{_START.size}s8xHHI8x{length - HEADER.size}s").unpack_from
