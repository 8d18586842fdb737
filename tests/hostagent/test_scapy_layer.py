"""The Scapy layer and the codec speak the same format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import split_layers

from hostagent.contract.messages import Purpose
from hostagent.contract.wire import HEADER, PORT, Codec, Header
from hostagent.parts.delivery import Copy
from hostagent.protocols.basic import Basic
from hostagent.tools.scapy_layer import Castbed, bind
from tests.hostagent.arbitrary import NUMBERS, RUN, unhurried

CODEC = Codec(Basic.number, Basic.messages, RUN, NUMBERS)


@pytest.fixture
def bound():
    bind(PORT)
    yield
    split_layers(UDP, Castbed, dport=PORT)
    split_layers(UDP, Castbed, sport=PORT)


def test_what_scapy_crafts_the_codec_decodes():
    crafted = Castbed(protocol=2, kind=0, purpose="repair", run=RUN, sender=2, packet=5, group=6, origin=900, sequence=7, sent=8)
    datagram = bytes(crafted / b"\x91\xc4\x02hi")
    received, header = CODEC.decode(datagram), Header.of(datagram)
    assert (received.sender, received.messages) == ("h2", (Copy(6, "h900", 7, b"hi"),))
    assert (header.purpose, header.packet, header.sent_ns) == (Purpose.REPAIR, 5, 8)


@unhurried
@given(st.tuples(*(st.integers(0, 2**bits - 1) for bits in (8, 8, 8, 32, 16, 64, 16, 16, 32, 64))))
def test_every_field_of_the_header_is_where_the_wire_format_has_it(fields):
    raw = HEADER.pack(0xCB17, 1, *fields)
    assert [Castbed(raw).getfieldval(field.name) for field in Castbed.fields_desc] == [0xCB17, 1, *fields]
    assert bytes(Castbed(raw)) == raw


@pytest.mark.usefixtures("bound")
def test_a_frame_with_our_port_is_dissected():
    datagram = CODEC.encode(1, 1, Copy(0, "h1", 3, b"hi"), Purpose.DATA, 0)
    frame = Ether(bytes(Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=PORT, dport=PORT) / datagram))
    assert (frame[Castbed].sequence, bytes(frame[Castbed].payload)) == (3, b"\x91\xc4\x02hi")
    shown = frame[Castbed].show(dump=True)
    assert "protocol  = basic" in shown
    assert "purpose   = data" in shown


def test_a_pack_is_shown_as_one():
    parts = [CODEC.part(Copy(0, "h1", sequence, b"hi"), Purpose.DATA) for sequence in (3, 4)]
    assert "kind      = pack" in Castbed(CODEC.datagram(1, 1, parts, 0)).show(dump=True)
