"""However a file is cut, its rows are those of reading it from one end to the other, also where payloads hold what looks like records."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkpcap import captures, walk
from sparkpcap.plan import LEAST_BYTES, FilePart, parts, plan
from sparkpcap.rows import Query, read
from tests.sparkpcap import making
from tests.sparkpcap.making import START_NS

PACKET = b"\0" * 12 + b"\x08\x00\x45" + bytes(8) + b"\x11" + bytes(30)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Lanes and windows so small that files of some kilobytes have many."""
    monkeypatch.setattr(walk, "_SHORTEST_LANE", 256)
    monkeypatch.setattr(captures, "WINDOW", 8192)
    monkeypatch.setattr(captures, "GUESSED", 1024)


def rows(part: FilePart):
    found, reader = [], read(part, Query(columns=("at_ns", "captured", "original")))
    while True:
        try:
            found += [tuple(row.values()) for row in next(reader).to_pylist()]
        except StopIteration as end:
            return found, end.value


def by_hand(data: bytes, order: str) -> list[tuple[int, int, int]]:
    """A classic file, record by record."""
    found, at = [], 24
    while at + 16 <= len(data):
        seconds, fraction, captured, original = struct.unpack_from(order + "IIII", data, at)
        if captured > captures.LONGEST_PACKET or at + 16 + captured > len(data):
            break
        found.append((seconds * 10**9 + fraction, captured, original))
        at += 16 + captured
    return found


def blocks_by_hand(data: bytes, order: str) -> list[tuple[int, int, int]]:
    """A pcapng file of enhanced packets in nanoseconds, block by block."""
    found, at = [], 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from(order + "II", data, at)
        if kind == 6:
            _, high, low, captured, original = struct.unpack_from(order + "IIIII", data, at + 8)
            found.append(((high << 32) + low, captured, original))
        at += length
    return found


times = st.integers(START_NS, START_NS + 10**13)
plain = st.one_of(
    st.binary(max_size=60), st.integers(0, 700).map(bytes), st.integers(0, 400).map(lambda size: PACKET + bytes(size))
)


@st.composite
def nested(draw, order):
    """A payload that is itself made of records or blocks, whole or cut off at either end."""
    inner = draw(st.lists(st.tuples(times, plain), min_size=1, max_size=6))
    data = b"".join(making.record(*packet, order) if draw(st.booleans()) else making.enhanced(*packet, order) for packet in inner)
    return data[draw(st.integers(0, 20)) :][: draw(st.integers(20, 1500))]


@st.composite
def files(draw):
    order = draw(st.sampled_from("<>"))
    few = draw(st.lists(st.tuples(times, st.one_of(plain, nested(order))), min_size=1, max_size=30))
    # Repeated, so that files are longer than windows without taking long to draw.
    packets = few * draw(st.integers(1, 20))
    if draw(st.booleans()):
        return "pcap", order, making.classic(packets, order)
    described = making.section(order) + making.interface(order, resolution=9)
    return "pcapng", order, described + b"".join(making.enhanced(*packet, order) for packet in packets)


@settings(max_examples=150, deadline=None)
@given(files(), st.integers(1, 40), st.integers(0, 60))
def test_any_number_of_parts_has_the_rows_of_the_whole(tmp_path_factory, made, count, missing):
    kind, order, data = made
    data = data[: len(data) - missing] if kind == "pcap" else data
    path = tmp_path_factory.getbasetemp() / "cut.pcap"
    path.write_bytes(data)
    wanted = by_hand(data, order) if kind == "pcap" else blocks_by_hand(data, order)
    partitions = plan([str(path)], count, least_bytes=1)
    found, packets, problems = [], 0, []
    for part in [part for partition in partitions for part in partition]:
        some, report = rows(part)
        found += some
        packets += report.packets
        problems += report.problems
    assert found == wanted
    assert packets == len(wanted)
    whole, report = rows(FilePart(str(path)))
    assert whole == wanted
    assert problems == list(report.problems)
    guessed = [rows(part) for partition in plan([str(path)], count, least_bytes=1, guessing=True) for part in partition]
    if not any(report.missed for _, report in guessed):
        assert [row for some, _ in guessed for row in some] == wanted
        assert [problem for _, report in guessed for problem in report.problems] == problems


def test_cuts_that_are_guessed_rightly_are_proved_and_wrong_ones_are_missed(tmp_path):
    """Where payloads are plain, every guess is right; where each is a capture of its own, none is, and a part says so."""
    plain_file, nested_file = tmp_path / "plain.pcap", tmp_path / "nested.pcap"
    plain_file.write_bytes(making.classic([(START_NS + number, PACKET) for number in range(2000)]))
    inner = b"".join(making.record(START_NS + number, PACKET) for number in range(12))
    nested_file.write_bytes(making.classic([(START_NS + 10**6 * number, inner) for number in range(600)]))
    right = [rows(part) for part in parts(str(plain_file), 5000, guessing=True)]
    assert len(right) > 20
    assert not any(report.missed for _, report in right)
    assert sum(len(some) for some, _ in right) == 2000
    assert any(rows(part)[1].missed for part in parts(str(nested_file), 5000, guessing=True))


def test_guesses_that_are_all_wrong_are_never_believed(tmp_path):
    """Each payload is a capture whose own records look better than the ones around them."""
    inner = b"".join(making.record(START_NS + number, PACKET) for number in range(12))
    packets = [(START_NS + 10**6 * number, inner[number % 50 :]) for number in range(600)]
    data = making.classic(packets)
    path = tmp_path / "nested.pcap"
    path.write_bytes(data)
    cut = parts(str(path), 5000)
    assert len(cut) > 50
    assert [row for part in cut for row in rows(part)[0]] == by_hand(data, "<")


def test_parts_of_a_section_know_the_interfaces_before_them_and_no_others(tmp_path):
    body = making.section() + making.interface(resolution=9)
    body += b"".join(making.enhanced(START_NS, bytes(100)) for _ in range(100))
    body += making.enhanced(START_NS, bytes(100), number=1)
    body += making.interface(resolution=6) + b"".join(making.enhanced(START_NS // 1000, bytes(100), number=1) for _ in range(100))
    body += making.section(">") + making.interface(">", resolution=3)
    body += b"".join(making.enhanced(START_NS // 10**6, bytes(100), ">") for _ in range(100))
    path = tmp_path / "sections.pcapng"
    path.write_bytes(body)
    read_back = [rows(part) for part in parts(str(path), 1000)]
    assert len(read_back) > 20
    micro, milli = START_NS // 1000 * 1000, START_NS // 10**6 * 10**6
    assert [row[0] for found, _ in read_back for row in found] == [START_NS] * 100 + [micro] * 100 + [milli] * 100
    problems = [problem for _, report in read_back for problem in report.problems]
    assert problems == ["has 1 packets of an interface that is not described before them"]


def test_small_files_are_packed_and_partitions_are_about_equal(tmp_path):
    paths = []
    for number in range(40):
        paths.append(str(tmp_path / f"{number}.pcap"))
        (tmp_path / f"{number}.pcap").write_bytes(making.classic([(START_NS, bytes(1000))] * 10))
    assert [len(partition) for partition in plan(paths[:10], 2)] == [10]
    packed = plan(paths, 4, least_bytes=1)
    assert [len(partition) for partition in packed] == [10, 10, 10, 10]
    assert [part.path for partition in packed for part in partition] == paths
    assert plan([str(tmp_path / "none.pcap")], 2) == [(FilePart(str(tmp_path / "none.pcap")),)]
    assert LEAST_BYTES > captures.LONGEST_PACKET


def test_a_block_without_a_packet_that_claims_more_than_there_is_is_told(tmp_path):
    """One that is longer than a window is passed over, and leads beyond the end here."""
    damaged = making.block(0xBAD, bytes(64))
    damaged = damaged[:4] + (1 << 30).to_bytes(4, "little") + damaged[8:]
    packets = b"".join(making.enhanced(number, PACKET) for number in range(200))
    path = tmp_path / "x.pcapng"
    path.write_bytes(making.section() + making.interface() + packets + damaged + packets)
    found, report = rows(FilePart(str(path)))
    assert len(found) == 200
    assert report.problems == ("ends in the middle of a block",)
