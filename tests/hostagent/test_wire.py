"""The wire format: every message of every protocol comes back, and nothing but `Refused` comes of anything else."""

import enum
import math
import struct
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostagent.contract.messages import (
    LISTED,
    LONGEST_PAYLOAD,
    GroupNumber,
    HostName,
    HostNameOrNone,
    HostSet,
    HostSetOrNone,
    Message,
    Purpose,
    Ranges,
)
from hostagent.contract.wire import HEADER, LONGEST_BODY, LONGEST_DATAGRAM, REASONS, Codec, Header, Refused, own_fields
from hostagent.parts.delivery import Copy
from hostagent.parts.links import Letter
from hostagent.protocols import PROTOCOLS
from hostagent.protocols.basic import Ack, Basic
from hostagent.protocols.cluster_tree import ClusterTree
from hostagent.protocols.cluster_tree.messages import Hearsay, Hello, Info, Pointer, Report
from hostagent.protocols.eager_reliable import EagerReliable
from tests.hostagent.arbitrary import NUMBERS, RUN, messages, unhurried

KINDS = [(core, kind) for core in PROTOCOLS.values() for kind in core.messages]
CODEC = Codec(Basic.number, Basic.messages, RUN, NUMBERS)
VALID = CODEC.encode(2, (3 << 32) + 4, Copy(5, "h900", 6, b"hello"), Purpose.REPAIR, 7)


def codec(core) -> Codec:
    return Codec(core.number, core.messages, RUN, NUMBERS)


AT_H2 = Codec(Basic.number, Basic.messages, RUN, NUMBERS, receiver="h2")


def patched(offset: int, *octets: int) -> bytes:
    return VALID[:offset] + bytes(octets) + VALID[offset + len(octets) :]


def with_body(body: bytes) -> bytes:
    return VALID[: HEADER.size] + body


def refusal(datagram: bytes, by: Codec = CODEC) -> str:
    with pytest.raises(Refused) as refused:
        by.decode(datagram)
    return refused.value.reason


@pytest.mark.parametrize(("core", "kind"), KINDS, ids=lambda it: it.__name__)
@unhurried
@given(st.data(), st.sampled_from(sorted(NUMBERS)), st.integers(0, 2**64 - 1), st.sampled_from(Purpose))
def test_every_message_of_every_protocol_comes_back(core, kind, data, sender, packet, purpose):
    message = data.draw(messages(kind))
    datagram = codec(core).encode(NUMBERS[sender], packet, message, purpose, 99)
    received, header = codec(core).decode(datagram), Header.of(datagram)
    assert (received.sender, received.messages) == (sender, (message,))
    assert (header.packet, header.purpose, header.sent_ns) == (packet, purpose, 99)


def test_a_datagram_may_lie_anywhere_in_a_buffer():
    buffer = bytearray(b"?" * 7 + VALID + b"?" * 2000)
    assert CODEC.decode(buffer, 7, len(VALID)) == CODEC.decode(VALID)
    for length, reason in ((HEADER.size - 1, "malformed"), (len(VALID) - 1, "malformed"), (LONGEST_DATAGRAM + 1, "oversized")):
        with pytest.raises(Refused, match=reason):
            CODEC.decode(buffer, 7, length)


def test_what_was_accepted_from_a_host_does_not_excuse_an_origin_that_does_not_exist():
    assert CODEC.decode(VALID).messages
    assert refusal(patched(22, 0xFF, 0xFF)) == "unknown_host"
    assert CODEC.decode(VALID).messages


def test_every_field_of_the_header_lies_where_it_is_documented():
    fields = [
        (0, "!H", 0xCB17),  # magic
        (2, "!B", 1),  # version
        (3, "!B", 2),  # protocol: basic
        (4, "!B", 0),  # kind: Copy
        (5, "!B", 1),  # purpose: repair
        (6, "!I", RUN),
        (10, "!H", 2),  # sender: h2
        (12, "!Q", (3 << 32) + 4),  # packet
        (20, "!H", 5),  # group
        (22, "!H", 900),  # origin: h900
        (24, "!I", 6),  # sequence
        (28, "!Q", 7),  # sent
    ]
    assert [struct.unpack_from(form, VALID, offset)[0] for offset, form, _ in fields] == [value for _, _, value in fields]
    assert msgspec.msgpack.decode(VALID[36:]) == [b"hello"]


def test_the_header_ends_where_a_capture_of_96_bytes_still_has_it():
    ethernet, ipv4, udp = 14, 20, 8
    assert ethernet + ipv4 + udp + HEADER.size == 78


def test_the_longest_datagram_fits_one_ethernet_frame():
    overhead = len(VALID) - len(b"hello") + 1  # MessagePack needs one byte more for the length of a long payload
    longest = CODEC.encode(1, 1, Copy(0, "h1", 1, bytes(LONGEST_DATAGRAM - overhead)), Purpose.DATA, 0)
    assert len(longest) == LONGEST_DATAGRAM == 1500 - 20 - 8
    assert CODEC.decode(longest).messages[0].sequence == 1


def test_a_message_too_large_for_a_datagram_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match=r"^a Copy message of 1476 bytes exceeds 1472$"):
        CODEC.encode(1, 1, Copy(0, "h1", 1, bytes(LONGEST_BODY)), Purpose.DATA, 0)


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"", "malformed"),
        (VALID[:35], "malformed"),
        (patched(0, 0xCB, 0x18), "malformed"),
        (patched(2, 2), "malformed"),
        (patched(5, 3), "malformed"),
        (patched(6, 0), "foreign_run"),
        (VALID + bytes(LONGEST_DATAGRAM), "oversized"),
        (patched(3, 77), "unknown_protocol"),
        (patched(4, 2), "unknown_kind"),
        (patched(10, 0, 3), "unknown_host"),
        (patched(10, 0, 0), "unknown_host"),
        (patched(22, 0, 3), "unknown_host"),
    ],
)
def test_a_header_that_is_not_ours_is_refused(datagram, reason):
    assert refusal(datagram) == reason


def test_a_datagram_that_claims_to_come_from_its_receiver_is_refused():
    assert refusal(VALID, AT_H2) == "from_itself"
    assert AT_H2.decode(patched(10, 0, 1)).sender == "h1"


def test_every_reason_has_been_reached():
    mark = next(m for m in test_a_header_that_is_not_ours_is_refused.pytestmark if m.name == "parametrize")
    assert {*(reason for _, reason in mark.args[1]), "from_itself"} == set(REASONS)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xc1", id="a byte that MessagePack never uses"),
        pytest.param(msgspec.msgpack.encode([]), id="a field missing"),
        pytest.param(msgspec.msgpack.encode([b"hello", 1, 1]), id="a field too many"),
        pytest.param(msgspec.msgpack.encode([b"hello"]) + b"\x00", id="a byte behind the end"),
        pytest.param(msgspec.msgpack.encode([b"hello"])[:-1], id="cut off"),
        pytest.param(msgspec.msgpack.encode([5]), id="a number for bytes"),
        pytest.param(msgspec.msgpack.encode([None]), id="nothing for bytes"),
        pytest.param(msgspec.msgpack.encode(["aGVsbG8="]), id="text for bytes, even if it is base64"),
        pytest.param(msgspec.msgpack.encode({"payload": b"hello"}), id="a map for a list"),
        pytest.param(msgspec.msgpack.encode(b"hello"), id="no list"),
        pytest.param(b"\x91\xa2\xff\xff", id="not UTF-8"),
        pytest.param(b"\x91\xc6\xff\xff\xff\xff", id="4 GiB announced"),
        pytest.param(b"\xdd\xff\xff\xff\xff", id="4 billion fields announced"),
        pytest.param(b"\x91" * LONGEST_BODY, id="nested as deep as a datagram allows"),
        pytest.param(b"\x91\xcf" + b"\xff" * 8, id="a huge number"),
        pytest.param(b"\x91\xd7\xff" + b"\xff" * 8, id="a time that no calendar has"),
    ],
)
def test_a_body_that_the_kind_does_not_have_is_malformed(body):
    assert refusal(with_body(body)) == "malformed"


def test_a_kind_without_fields_of_its_own_has_an_empty_body():
    ack = CODEC.encode(1, 1, Ack(0, "h1", 1), Purpose.CONTROL, 0)
    assert CODEC.decode(ack).messages == (Ack(0, "h1", 1),)
    assert refusal(ack[:-1] + msgspec.msgpack.encode([1])) == "malformed"


def test_fields_at_the_end_that_have_their_default_are_left_out():
    links = codec(EagerReliable)
    plain, listed = Letter(0, "h1", 1, 7, 7, b"x"), Letter(LISTED, "h1", 1, 7, 7, b"x", 0, b"\3")
    bodies = [links.part(letter, Purpose.DATA).body for letter in (plain, listed)]
    assert bodies == [msgspec.msgpack.encode(fields) for fields in ([7, 7, b"x"], [7, 7, b"x", 0, b"\3"])]
    for letter in (plain, listed):
        assert links.decode(links.encode(2, 1, letter, Purpose.DATA, 0)).messages == (letter,)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [([7, 7], "malformed"), ([7, 7, b"x", 0, b"\3", 1], "malformed"), ([7, 7, b"x", 0, b"\x08"], "unknown_host")],
    ids=["too few", "too many", "a host too many"],
)
def test_a_body_with_fields_that_may_be_left_out_is_refused_if_others_are(fields, reason):
    links = codec(EagerReliable)
    datagram = links.encode(2, 1, Letter(0, "h1", 1, 7, 7, b"x"), Purpose.DATA, 0)
    assert refusal(datagram[: HEADER.size] + msgspec.msgpack.encode(fields), links) == reason


TREE = codec(ClusterTree)
INFO = (7, ((9, 9), (11, 2**32 - 1)), 0.0)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Pointer(0, "h1", 0, "h3"), "unknown_host"),
        (Hearsay(0, "h1", 0, *INFO, ""), "unknown_host"),
        (Hearsay(0, "h1", 0, *INFO, "h3"), "unknown_host"),
        (Report(0, "h1", 0, *INFO, "h3", b"\7", 7, 7), "unknown_host"),
        (Report(0, "h1", 0, *INFO, "h2", b"\x08", 7, 7), "unknown_host"),
        (Report(0, "h1", 0, *INFO, "h2", b"\0\7", 7, 7), "unknown_host"),
        (Report(0, "h1", 0, *INFO, "", b"\7", 2**32, 7), "malformed"),
        (Report(0, "h1", 0, *INFO, "", b"\7", 7, -1), "malformed"),
        (Hello(0, "h1", 0, b"\xff", True, 0.0), "unknown_host"),
        (Hello(0, "h1", 0, b"", True, 0.0), "unknown_host"),
        (Hello(0, "h1", 0, b"\7", True, math.nan), "malformed"),
        (Info(0, "h1", 0, 2**60, (), 0.0), "malformed"),
        (Info(0, "h1", 0, 0, ((2, 2**60),), 0.0), "malformed"),
        (Info(0, "h1", 0, 0, ((5, 4),), 0.0), "malformed"),
        (Info(0, "h1", 0, 0, ((0, 4),), 0.0), "malformed"),
        (Info(0, "h1", 0, 0, ((5, 6), (7, 8)), 0.0), "malformed"),
        (Info(0, "h1", 0, 0, tuple((3 * n, 3 * n) for n in range(1, 82)), 0.0), "malformed"),
        (Info(0, "h1", 0, 0, (), math.inf), "malformed"),
        (Info(0, "h1", 0, 0, (), -math.inf), "malformed"),
    ],
    ids=lambda it: repr(it)[:80],
)
def test_a_field_out_of_its_bounds_is_refused_alone_and_in_a_pack(message, reason):
    parts = [TREE.part(one, Purpose.CONTROL) for one in (Info(0, "h1", 0, *INFO), message)]
    for carried in (parts, parts[1:]):
        assert refusal(TREE.datagram(2, 1, carried, 0), TREE) == reason
    assert TREE.decode(TREE.datagram(2, 1, parts[:1], 0)).messages == (Info(0, "h1", 0, *INFO),)


def unbounded(kind: type[Message]) -> list[str]:
    """The fields of a kind of message whose types do not say which values they may have."""
    return [field.name for field in own_fields(kind) if not bounded(field.type)]


def bounded(of: Any) -> bool:
    """Whether a type says it. The codec applies rules to whole fields only, so they bound no part of one."""
    return of in {HostName, HostNameOrNone, HostSet, HostSetOrNone, Ranges} or part_is_bounded(of)


def part_is_bounded(of: Any) -> bool:
    origin, parts = get_origin(of), get_args(of)
    if origin is Annotated:
        kind, meta = parts[0], next((part for part in parts if isinstance(part, msgspec.Meta)), msgspec.Meta())
        if kind in {int, float}:
            return None not in {meta.ge if meta.gt is None else meta.gt, meta.le if meta.lt is None else meta.lt}
        return meta.max_length is not None and all(map(part_is_bounded, get_args(kind)[:1]))
    if origin in {types.UnionType, Union} or (origin is tuple and parts[-1] is not ...):
        return all(map(part_is_bounded, parts))
    return of in {bool, type(None)} or origin is Literal or (isinstance(of, type) and issubclass(of, enum.Enum))


@pytest.mark.parametrize(("core", "kind"), KINDS, ids=lambda it: it.__name__)
def test_the_type_of_every_field_says_which_values_it_may_have(core, kind):
    assert unbounded(kind) == [], f"{core.name}: use the types of hostagent.contract.messages"


class Careless(Message, frozen=True):
    number: int
    least: Annotated[int, msgspec.Meta(ge=0)]
    name: str
    body: bytes
    share: float
    numbers: tuple[GroupNumber, ...]
    few: Annotated[tuple[int, ...], msgspec.Meta(max_length=3)]
    fine: Annotated[tuple[GroupNumber, ...], msgspec.Meta(max_length=3)]
    pair: tuple[GroupNumber, HostName]
    maybe: bool | None


def test_the_check_on_bounds_can_fail():
    assert unbounded(Careless) == ["number", "least", "name", "body", "share", "numbers", "few", "pair"]


def test_a_payload_fills_a_datagram_and_no_more():
    assert LONGEST_PAYLOAD == LONGEST_BODY


class Loose(Message, frozen=True):
    anything: object


class Even(Message, frozen=True):
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("odd")


LOOSE = Codec(9, (Loose, Even), RUN, NUMBERS)


def test_nesting_deeper_than_the_interpreter_allows_is_malformed_where_a_field_takes_anything():
    datagram = LOOSE.encode(1, 1, Loose(0, "h1", 1, None), Purpose.DATA, 0)
    assert refusal(datagram[: HEADER.size] + b"\x91" * LONGEST_BODY, LOOSE) == "malformed"


def test_a_message_that_its_own_type_refuses_is_malformed():
    datagram = LOOSE.encode(1, 1, Even(0, "h1", 1, 4), Purpose.DATA, 0)
    assert refusal(datagram[:-1] + b"\x05", LOOSE) == "malformed"


@unhurried
@given(st.binary(max_size=LONGEST_DATAGRAM + 10))
def test_any_bytes_are_decoded_or_refused(datagram):
    decoded_or_refused(CODEC, datagram)


@pytest.mark.parametrize("core", PROTOCOLS.values(), ids=PROTOCOLS)
@unhurried
@given(st.data())
def test_a_damaged_datagram_is_decoded_or_refused(core, data):
    kind = data.draw(st.sampled_from(core.messages))
    datagram = bytearray(codec(core).encode(1, 1, data.draw(messages(kind)), Purpose.DATA, 0))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(datagram)))
        datagram[start : start + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    decoded_or_refused(codec(core), bytes(datagram))


@pytest.mark.parametrize("core", PROTOCOLS.values(), ids=PROTOCOLS)
@unhurried
@given(st.data(), st.binary(max_size=60))
def test_any_body_under_a_good_header_is_decoded_or_refused(core, data, body):
    kind = data.draw(st.integers(0, len(core.messages) - 1))
    header = HEADER.pack(0xCB17, 1, core.number, kind, 0, RUN, 1, 1, 0, 1, 1, 0)
    decoded_or_refused(codec(core), header + body)
    decoded_or_refused(LOOSE, HEADER.pack(0xCB17, 1, 9, 0, 0, RUN, 1, 1, 0, 1, 1, 0) + b"\x91" + body)


def decoded_or_refused(by: Codec, datagram: bytes) -> None:
    """What was accepted is what its sender could have sent."""
    try:
        received = by.decode(datagram)
    except Refused:
        return
    header = Header.of(datagram)
    parts = [by.part(message, Purpose(header.purpose)) for message in received.messages]
    again = by.datagram(header.sender, header.packet, parts, header.sent_ns)
    assert by.decode(again).messages == received.messages
