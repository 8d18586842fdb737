"""tshark with our dissector reads from a capture what the codec wrote, and copes with whatever else may be in one."""

import json
import subprocess
from random import Random
from typing import get_args

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hostagent.contract.messages import HostSet, HostSetOrNone, Purpose, hosts_in
from hostagent.contract.wire import COST_TOS, HEADER, LONGEST_DATAGRAM, MAGIC, PACK, PORT, VERSION, Codec, Header, own_fields
from hostagent.parts.delivery import Copy
from hostagent.protocols import PROTOCOLS
from hostagent.tools.dissector import dissector
from tests.analysis.synthetic import frame, pcap
from tests.hostagent.arbitrary import NUMBERS, messages, unhurried

FIELDS = ("magic", "version", "protocol", "kind", "purpose", "run", "sender", "packet", "group", "origin", "sequence", "sent")
DERIVED = (
    "protocol.name",
    "kind.name",
    "packet.incarnation",
    "packet.number",
    "messages",
    "expensive",
    "malformed",
    "unknown",
    "cut",
)
RUN = 0xFEEDBEEF
HOSTS = tuple(NUMBERS)
# Ethernet, IPv4 and UDP.
UDP_ENDS_AT = 42
BASIC = PROTOCOLS["basic"]
CODEC = Codec(BASIC.number, BASIC.messages, RUN, {"h1": 1, "h2": 2})
ALONE = CODEC.encode(2, 7 << 32 | 5, Copy(3, "h1", 9, b"hi"), Purpose.DATA, 1_700_000_000_123_456_789)
PACKED = CODEC.datagram(2, 6, [CODEC.part(Copy(0, "h1", number, b"hi"), Purpose.REPAIR) for number in (3, 4, 5)], 17)


@pytest.fixture
def tshark(tmp_path, monkeypatch):
    """Reads frames with tshark: for each one a row of our fields, and the line in the list of packets."""
    monkeypatch.setenv("WIRESHARK_CONFIG_DIR", str(tmp_path))
    script = tmp_path / "castbed.lua"
    script.write_text(dissector())

    def read(frames, snaplen=96):
        (tmp_path / "x.pcap").write_bytes(pcap([(number, data) for number, data in enumerate(frames)], snaplen=snaplen))
        names = [f"castbed.{name}" for name in (*FIELDS, *DERIVED)]
        wanted = [word for name in (*names, "_ws.col.Info", "_ws.expert.message", "_ws.lua.error") for word in ("-e", name)]
        command = ["tshark", "-X", f"lua_script:{script}", "-r", str(tmp_path / "x.pcap"), "-T", "fields", "-E", "occurrence=a"]
        done = subprocess.run([*command, *wanted], capture_output=True, text=True, check=True)
        assert not [line for line in done.stderr.splitlines() if "Running as user" not in line]
        rows = [
            dict(zip((*FIELDS, *DERIVED, "info", "told", "lua"), line.split("\t"), strict=True))
            for line in done.stdout.splitlines()
        ]
        assert len(rows) == len(frames)
        assert not [row for row in rows if row["lua"]]
        return rows

    return read


def sent(payload, tos=0, port=PORT):
    return frame("h1", "h2", payload, tos=tos, port=port)


def header_of(row):
    return Header(*(int(row[name], 0) for name in FIELDS))


def test_every_message_of_every_protocol_is_shown_with_its_names_and_numbers(tshark):
    """Headers with random numbers, each protocol and kind in turn, in captures that are cut at 96 bytes as ours are."""
    random = Random(1)
    kinds = [(core, number, kind.__name__) for core in PROTOCOLS.values() for number, kind in enumerate(core.messages)]
    headers = [
        Header(
            *(MAGIC, VERSION, core.number, number, random.randrange(3), random.getrandbits(32), random.getrandbits(16)),
            *(
                random.getrandbits(64),
                random.getrandbits(16),
                random.getrandbits(16),
                random.getrandbits(32),
                random.getrandbits(64),
            ),
        )
        for core, number, _ in kinds
    ]
    costs = [random.choice((0, COST_TOS)) for _ in headers]
    rows = tshark([sent(HEADER.pack(*header) + bytes(40), tos) for header, tos in zip(headers, costs, strict=True)])
    assert [header_of(row) for row in rows] == headers
    assert [(row["protocol.name"], row["kind.name"]) for row in rows] == [(core.name, name) for core, _, name in kinds]
    assert [row["expensive"] for row in rows] == [str(int(tos == COST_TOS)) for tos in costs]
    assert {row["malformed"] + row["unknown"] + row["cut"] + row["messages"] for row in rows} == {""}
    for row, header in zip(rows, headers, strict=True):
        assert (int(row["packet.incarnation"]), int(row["packet.number"])) == divmod(header.packet, 1 << 32)


def test_what_the_codec_writes_is_shown_field_by_field(tshark):
    alone, packed = tshark([sent(ALONE, COST_TOS), sent(PACKED)])
    assert header_of(alone) == Header.of(ALONE)
    assert header_of(packed) == Header.of(PACKED)
    assert (alone["kind.name"], alone["messages"], alone["expensive"]) == ("Copy", "", "1")
    assert (packed["kind.name"], packed["messages"], packed["expensive"]) == ("pack", "3", "0")
    assert alone["info"] == "basic Copy, data, from 2, message 9 of 1, expensive"
    assert packed["info"] == "basic pack of 3, repair, from 2, message 3 of 1"


def text_of(value, field):
    """A value of a message as the dissector shows it."""
    if any(rule in get_args(field.type) for rule in (*get_args(HostSet)[1:], *get_args(HostSetOrNone)[1:])):
        return "{" + ", ".join(hosts_in(value, HOSTS)) + "}"
    return plain(msgspec.to_builtins(value, builtin_types=(bytes,)))


def plain(value):
    match value:
        case bool() | None:
            return {True: "true", False: "false", None: "none"}[value]
        case float():
            return f"{value:.14g}"
        case bytes():
            return value.hex()
        case list() | tuple():
            return f"[{', '.join(map(plain, value))}]"
        case dict():
            return f"{{{', '.join(f'{plain(key)}: {plain(of)}' for key, of in value.items())}}}"
    return str(value)


def layers(tmp_path, datagrams, lua):
    """What tshark shows of our layer of each datagram."""
    (tmp_path / "castbed.lua").write_text(lua)
    (tmp_path / "x.pcap").write_bytes(pcap([(number, sent(data)) for number, data in enumerate(datagrams)], snaplen=1600))
    command = ["tshark", "-X", f"lua_script:{tmp_path / 'castbed.lua'}", "-r", str(tmp_path / "x.pcap"), "-T", "json"]
    done = subprocess.run([*command, "-J", "castbed"], capture_output=True, text=True, check=True)
    return [packet["_source"]["layers"]["castbed"] for packet in json.loads(done.stdout)]


ONE_OF_EACH = [(core, kind) for core in PROTOCOLS.values() for kind in core.messages]


@settings(unhurried, max_examples=5, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(every=st.tuples(*(messages(kind) for _, kind in ONE_OF_EACH)))
def test_every_field_of_every_message_is_shown_by_its_name(every, tmp_path_factory):
    datagrams, expected = [], []
    for (core, kind), message in zip(ONE_OF_EACH, every, strict=True):
        codec = Codec(core.number, core.messages, RUN, NUMBERS)
        datagrams.append(codec.encode(2, 5, message, Purpose.DATA, 17))
        in_body = len(msgspec.msgpack.decode(datagrams[-1][HEADER.size :]))
        fields = list(own_fields(kind))[:in_body]
        expected.append({f"castbed.body.{field.name}": text_of(getattr(message, field.name), field) for field in fields})
    shown = layers(tmp_path_factory.mktemp("tshark"), datagrams, dissector(HOSTS))
    found = [
        {name: text for name, text in layer["castbed.message_tree"].items() if name.startswith("castbed.body.")}
        for layer in shown
    ]
    assert found == expected


def test_every_message_of_a_pack_is_shown_with_names_of_hosts(tmp_path):
    copies = [Copy(0, "h1", number, bytes([number])) for number in (3, 4, 7)]
    pack = CODEC.datagram(2, 6, [CODEC.part(copy, Purpose.REPAIR) for copy in copies], 17)
    (tmp_path / "castbed.lua").write_text(dissector(("left", "right")))
    (tmp_path / "x.pcap").write_bytes(pcap([(0, sent(pack)), (1, sent(ALONE))], snaplen=1600))
    names = (
        "message",
        "message.kind",
        "message.purpose",
        "message.origin",
        "message.sequence",
        "body.payload",
        "sender.name",
        "origin.name",
    )
    wanted = [word for name in (*(f"castbed.{name}" for name in names), "_ws.col.Info") for word in ("-e", name)]
    command = ["tshark", "-X", f"lua_script:{tmp_path / 'castbed.lua'}", "-r", str(tmp_path / "x.pcap"), "-T", "fields"]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True, check=True)
    packed, alone = ([*line.split("\t")] for line in done.stdout.splitlines())
    assert packed == [
        *("Copy left:3,Copy left:4,Copy left:7", "Copy,Copy,Copy", "repair,repair,repair", "left,left,left", "3,4,7"),
        *("03,04,07", "right", "left", "basic pack of 3, repair, from right, message 3 of left"),
    ]
    assert alone == [
        *("Copy left:9", "Copy", "data", "left", "9", b"hi".hex(), "right", "left"),
        "basic Copy, data, from right, message 9 of left",
    ]


def test_on_another_port_it_is_recognised_by_its_first_bytes(tshark):
    foreign = (
        b"\xcb\x18" + ALONE[2:],
        ALONE[:2] + b"\x02" + ALONE[3:],
        ALONE[:5] + b"\x03" + ALONE[6:],
        ALONE[:30],
        b"",
        b"\xcb",
    )
    ours, *others = tshark([sent(payload, port=5353 + 1) for payload in (ALONE, *foreign)])
    assert header_of(ours) == Header.of(ALONE)
    assert {row["magic"] for row in others} == {""}


@pytest.mark.parametrize("kept", [43, 44, 47, 53, 63, 77, 78, 80, 81])
def test_a_capture_may_be_cut_anywhere(kept, tshark):
    """Whatever it holds of the header is shown, and nothing is called malformed of which the rest was not kept."""
    ends = (2, 3, 4, 5, 6, 10, 12, 20, 22, 24, 28, 36)
    for row, datagram in zip(tshark([sent(ALONE), sent(PACKED)], snaplen=kept), (ALONE, PACKED), strict=True):
        fields = zip(FIELDS, ends, Header.of(datagram), strict=True)
        held = {name: value for name, end, value in fields if UDP_ENDS_AT + end <= kept}
        assert {name: int(row[name], 0) for name in FIELDS if row[name]} == held
        assert (row["malformed"], row["unknown"], bool(row["cut"])) == ("", "", kept < UDP_ENDS_AT + HEADER.size)
        assert row["messages"] == ("3" if datagram is PACKED and kept >= UDP_ENDS_AT + HEADER.size + 3 else "")


def pack_of(body):
    return PACKED[: HEADER.size] + body


HOSTILE = {
    "20 bytes are no header": ALONE[:20],
    "1 bytes are no header": b"\xcb",
    "not the magic of Castbed": bytes(50),
    "version 9, not 1": ALONE[:2] + b"\x09" + ALONE[3:],
    "there is no purpose 99": ALONE[:5] + b"\x63" + ALONE[6:],
    "longer than 1472 bytes": ALONE.ljust(LONGEST_DATAGRAM + 1, b"x"),
    "a pack without a body": pack_of(b""),
    "the body of a pack is not an array": pack_of(b"\xc0" * 9),
    "the body of a pack ends within its length": pack_of(b"\xdc\x00"),
    "65535 messages in a pack of 23 bytes": pack_of(b"\xdc\xff\xff" + bytes(20)),
    "4294967295 messages in a pack of 205 bytes": pack_of(b"\xdd\xff\xff\xff\xff" + bytes(200)),
    "1 messages in a pack of 21 bytes": pack_of(b"\x91" + bytes(20)),
}


def test_a_hostile_datagram_is_called_malformed(tshark):
    rows = tshark([sent(payload) for payload in HOSTILE.values()])
    assert [(row["malformed"], row["told"]) for row in rows] == [("1", complaint) for complaint in HOSTILE]


def test_numbers_that_nobody_has_are_told(tshark):
    protocol, kind = tshark([sent(ALONE[:3] + b"\xc8" + ALONE[4:]), sent(ALONE[:4] + b"\xc8" + ALONE[5:])])
    assert (protocol["told"], protocol["info"]) == (
        "there is no protocol 200",
        "protocol 200 kind 0, data, from 2, message 9 of 1",
    )
    assert kind["told"] == "basic has no message of kind 200"


def test_noise_on_our_port_never_breaks_it(tshark):
    random = Random(2)
    noise = [random.randbytes(random.randrange(1, 120)) for _ in range(200)]
    spoiled = [bytes(byte if random.random() > 0.1 else random.randrange(256) for byte in PACKED) for _ in range(300)]
    tshark([sent(payload) for payload in (*noise, *spoiled, HEADER.pack(*(MAGIC, VERSION, 2, PACK), *[0] * 8))])
