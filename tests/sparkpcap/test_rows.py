"""Captures to batches: fields of payloads, filters, what is counted, and hostile files."""

import gzip
import struct

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.utils import rdpcap

from analysis.tables.scan import FIELDS
from hostagent.contract.messages import Purpose
from hostagent.contract.wire import COST_DSCP, COST_TOS, HEADER, MAGIC, Header
from sparkpcap import captures
from sparkpcap.plan import FilePart
from sparkpcap.rows import Query, Report, read
from tests.analysis.synthetic import PORT, RUN, START_NS, datagram, frame
from tests.analysis.synthetic import pcap as make_pcap

ARP = bytes(12) + b"\x08\x06" + bytes(46)
OURS = Query(PORT, FIELDS, {"magic": MAGIC, "run": RUN})


@pytest.fixture
def reading(tmp_path):
    """Reads bytes as if they were a file: the rows and the report."""

    def read_bytes(data: bytes, query: Query = OURS) -> tuple[list[dict], Report]:
        path = tmp_path / "some.pcap"
        path.write_bytes(data)
        rows, batches = [], read(FilePart(str(path)), query)
        while True:
            try:
                rows += next(batches).to_pylist()
            except StopIteration as end:
                return rows, end.value

    return read_bytes


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
def test_every_field_is_read_in_either_byte_order_and_precision(reading, order, nano):
    rows, report = reading(make_pcap(packets(50), order, nano))
    assert (report.packets, report.skipped, report.cut, report.problems) == (50, 0, 0, ())
    assert [row["at_ns"] for row in rows] == [START_NS + 1000 * number for number in range(50)]
    assert [row["dscp"] for row in rows] == [COST_DSCP * (number % 2) for number in range(50)]
    wanted = [Header._make(HEADER.unpack_from(datagram(1, number, Purpose(number % 3), 2, number + 1))) for number in range(50)]
    assert [Header(*(row[name] for name in Header._fields)) for row in rows] == wanted


def test_agrees_with_scapy(reading, tmp_path):
    data = make_pcap([*packets(20), (START_NS + 10**6, frame("h4", "h1", b"x" * 300, port=PORT))], snaplen=65535)
    rows, _ = reading(data)
    theirs = rdpcap(str(tmp_path / "some.pcap"))
    for number, (row, packet) in enumerate(zip(rows, theirs, strict=True)):
        assert row["at_ns"] == int(packet.time * 10**9)
        assert (row["dscp"], row["ip_length"]) == (packet[IP].tos >> 2, packet[IP].len)
        assert row["destination"].to_bytes(4) == bytes(map(int, packet[IP].dst.split(".")))
        payload = bytes(packet[UDP].payload)
        header = tuple(row[name] for name in Header._fields)
        assert header == (HEADER.unpack_from(payload) if number < 20 else (None,) * len(header))


def test_ip_options_move_the_payload(reading):
    rows, _ = reading(make_pcap([(START_NS, frame("h1", "h2", datagram(1, 9), options=b"\x01" * 4))]))
    assert [row["packet"] for row in rows] == [9]


def test_a_truncated_tail_costs_only_the_last_packet(reading):
    whole = make_pcap(packets(3))
    for missing in range(1, 40):
        rows, report = reading(whole[:-missing])
        assert "ends in the middle of a packet" in report.problems[0]
        assert len(rows) == 2


def test_a_corrupt_length_costs_what_comes_after_it(reading):
    data = bytearray(make_pcap(packets(3)))
    second = 24 + 16 + len(packets(1)[0][1])
    struct.pack_into("<I", data, second + 8, 0xFFFFFFF0)
    rows, report = reading(bytes(data))
    assert f"impossible length 4294967280 at byte {second}" in report.problems[0]
    assert len(rows) == 1


def test_what_is_skipped_of_a_compressed_file_is_counted_too(reading):
    whole = make_pcap(packets(1))
    lost = b"\xff" * 16 + np.random.default_rng(1).bytes(5_000_000)
    rows, report = reading(gzip.compress(whole + lost, 1))
    assert len(rows) == 1
    assert report.problems[0].endswith(f"at byte {len(whole)}; the {len(lost)} bytes from there are skipped")


def test_compressed_files_are_read_in_windows(reading, monkeypatch):
    monkeypatch.setattr(captures, "WINDOW", 1000)
    rows, report = reading(gzip.compress(make_pcap(packets(500))))
    assert ([row["packet"] for row in rows], report.problems) == (list(range(500)), ())


def test_other_traffic_is_skipped_and_counted(reading):
    other = [(START_NS, ARP), (START_NS, frame("h1", "h2", datagram(1, 1), port=53)), (START_NS, b"\0" * 60)]
    rows, report = reading(make_pcap([*other, *packets(1)]))
    assert (len(rows), report.skipped, report.cut) == (1, 3, 0)


def test_payloads_that_do_not_match_are_kept_without_their_fields_or_dropped(reading):
    strange = [b"", b"x", datagram(1, 1, run=RUN + 1), b"\0\0" + datagram(1, 1)[2:]]
    data = make_pcap([(START_NS, frame("h1", "h2", payload)) for payload in [*strange, datagram(1, 1)]])
    rows, report = reading(data)
    assert [row["packet"] for row in rows] == [None] * len(strange) + [1]
    assert report.skipped == 0
    rows, report = reading(data, Query(None, FIELDS, {"magic": MAGIC, "run": RUN}, drop_unmatched=True))
    assert ([row["packet"] for row in rows], report.skipped, report.packets) == ([1], len(strange), len(strange) + 1)


def test_packets_of_which_too_little_was_kept_are_counted(reading):
    rows, report = reading(make_pcap(packets(4), snaplen=60))
    assert (len(rows), report.skipped, report.cut) == (0, 0, 4)
    rows, report = reading(make_pcap(packets(4), snaplen=60), Query(fields=FIELDS))
    assert ([row["destination_port"] for row in rows], report.cut) == ([PORT] * 4, 4)
    assert {row["magic"] for row in rows} == {None}


def test_a_file_that_is_not_there_is_a_report():
    with pytest.raises(StopIteration) as ended:
        next(read(FilePart("/nowhere/at/all.pcap"), OURS))
    assert ended.value.value.problems == ("cannot be read (No such file or directory)",)


def test_random_damage_never_raises(reading):
    whole = np.frombuffer(make_pcap(packets(30)), np.uint8)
    generator = np.random.default_rng(1)
    for _ in range(300):
        damaged = whole.copy()
        damaged[generator.integers(0, len(damaged), 20)] = generator.integers(0, 256, 20)
        reading(damaged[: generator.integers(0, len(damaged))].tobytes(), Query(fields=FIELDS))
