"""Captures to arrays, against scapy and against hostile files."""

import struct

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.utils import rdpcap

from analysis import pcap
from hostagent.messages import Purpose
from hostagent.wire import COST_DSCP, COST_TOS, HEADER, Header
from tests.analysis.synthetic import PORT, RUN, START_NS, datagram, frame
from tests.analysis.synthetic import pcap as make_pcap

ARP = bytes(12) + b"\x08\x06" + bytes(46)


def read(data: bytes) -> tuple[pcap.Index, pcap.Datagrams]:
    array = np.frombuffer(data, np.uint8)
    found = pcap.index(array)
    return found, pcap.extract(array, found, slice(None), PORT, RUN)


def packets(count: int) -> list[tuple[int, bytes]]:
    return [
        (
            START_NS + 1000 * number,
            frame("h1", "h3", datagram(1, number, Purpose(number % 3), 2, number + 1), COST_TOS * (number % 2)),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("nano", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_field_is_read_in_either_byte_order_and_precision(order, nano):
    found, read_back = read(make_pcap(packets(50), order, nano))
    assert not found.problem
    assert read_back.at_ns.tolist() == [START_NS + 1000 * number for number in range(50)]
    assert read_back.dscp.tolist() == [COST_DSCP * (number % 2) for number in range(50)]
    assert read_back.ours.all()
    wanted = [Header._make(HEADER.unpack_from(datagram(1, number, Purpose(number % 3), 2, number + 1))) for number in range(50)]
    assert [Header._make(row.tolist()) for row in read_back.header] == wanted


def test_agrees_with_scapy(tmp_path):
    file = tmp_path / "one.pcap"
    file.write_bytes(make_pcap([*packets(20), (START_NS + 10**6, frame("h4", "h1", b"x" * 300, port=PORT))], snaplen=65535))
    _, ours = read(file.read_bytes())
    theirs = rdpcap(str(file))
    assert len(theirs) == len(ours.at_ns)
    for number, packet in enumerate(theirs):
        assert ours.at_ns[number] == int(packet.time * 10**9)
        assert ours.dscp[number] == packet[IP].tos >> 2
        assert ours.bytes[number] == packet[IP].len + 14
        assert int(ours.destination[number]).to_bytes(4) == bytes(map(int, packet[IP].dst.split(".")))
        payload = bytes(packet[UDP].payload)
        assert ours.ours[number] == (number < 20)
        assert number >= 20 or ours.header[number].tolist() == HEADER.unpack_from(payload)


def test_bytes_count_what_was_on_the_wire_and_not_what_the_capture_kept():
    _, found = read(make_pcap([(START_NS, frame("h1", "h2", datagram(1, 1, body=bytes(1000))))]))
    assert found.bytes.tolist() == [14 + 20 + 8 + 36 + 1000]


def test_ip_options_move_the_header():
    _, found = read(make_pcap([(START_NS, frame("h1", "h2", datagram(1, 9), options=b"\x01" * 4))]))
    assert found.header["packet"].tolist() == [9]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty"),
        (b"garbage", "is not a pcap file"),
        (bytes(1000), "is not a pcap file"),
        (b"\x0a\x0d\x0d\x0a" + bytes(100), "is not a pcap file"),
        (make_pcap([], link_type=113), "is not a capture of Ethernet"),
    ],
)
def test_what_is_no_capture_is_described(data, problem):
    found, nothing = read(data)
    assert found.problem == problem
    assert len(nothing.at_ns) == 0


def test_a_truncated_tail_costs_only_the_last_packet():
    whole = make_pcap(packets(3))
    for missing in range(1, 40):
        found, kept = read(whole[:-missing])
        assert "ends in the middle of a packet" in found.problem
        assert len(kept.at_ns) == 2


def test_a_corrupt_length_costs_what_comes_after_it():
    data = bytearray(make_pcap(packets(3)))
    second = 24 + 16 + len(packets(1)[0][1])
    struct.pack_into("<I", data, second + 8, 0xFFFFFFF0)
    found, kept = read(bytes(data))
    assert f"impossible length 4294967280 at byte {second}" in found.problem
    assert len(kept.at_ns) == 1


def test_other_traffic_is_skipped_and_counted():
    other = [(START_NS, ARP), (START_NS, frame("h1", "h2", datagram(1, 1), port=53)), (START_NS, b"\0" * 60)]
    _, found = read(make_pcap([*other, *packets(1)]))
    assert (len(found.at_ns), found.skipped, found.cut) == (1, 3, 0)


def test_datagrams_to_our_port_that_are_not_of_this_run_are_kept_but_not_ours():
    strange = [
        b"",
        b"x",
        datagram(1, 1, run=RUN + 1),
        b"\0\0" + datagram(1, 1)[2:],
        datagram(1, 1)[:5] + b"\x07" + datagram(1, 1)[6:],
    ]
    _, found = read(make_pcap([(START_NS, frame("h1", "h2", payload)) for payload in strange]))
    assert found.ours.tolist() == [False] * len(strange)


def test_packets_of_which_too_little_was_kept_are_counted():
    _, found = read(make_pcap(packets(4), snaplen=60))
    assert (len(found.at_ns), found.cut) == (0, 4)


def test_random_damage_never_raises():
    whole = np.frombuffer(make_pcap(packets(30)), np.uint8)
    generator = np.random.default_rng(1)
    for _ in range(300):
        damaged = whole.copy()
        damaged[generator.integers(0, len(damaged), 20)] = generator.integers(0, 256, 20)
        read(damaged[: generator.integers(0, len(damaged))].tobytes())
