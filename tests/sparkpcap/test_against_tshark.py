"""Packet for packet and field for field what tshark says, in every format, on every link layer, and of damaged files."""

import gzip
import ipaddress
import struct
import subprocess
from decimal import Decimal

import numpy as np
import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether

from sparkpcap.plan import FilePart
from sparkpcap.rows import Query, read
from tests.sparkpcap.making import COOKED, COOKED_2, START_NS, block, classic, enhanced, interface, obsolete, section, simple

# How tshark calls what is in each of our columns.
NAMES = {
    "at_ns": ("frame.time_epoch",),
    "captured": ("frame.cap_len",),
    "original": ("frame.len",),
    "vlan": ("ieee8021ad.id", "vlan.id"),
    "source": ("ip.src",),
    "destination": ("ip.dst",),
    "source_ipv6": ("ipv6.src",),
    "destination_ipv6": ("ipv6.dst",),
    "dscp": ("ip.dsfield.dscp", "ipv6.tclass.dscp"),
    "ip_length": ("ip.len",),
    "source_port": ("udp.srcport", "tcp.srcport"),
    "destination_port": ("udp.dstport", "tcp.dstport"),
    "udp_length": ("udp.length",),
}


def tshark(path) -> list[dict]:
    asked = [word for names in NAMES.values() for name in names for word in ("-e", name)]
    # Nothing is put together from several packets, and payloads are nobody's protocol: what is in a packet is read from it alone.
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=f", "-E", "separator=|"]
    command += ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE", "-o", "udp.try_heuristic_first:FALSE"]
    said = subprocess.run([*command, *asked], capture_output=True, text=True, check=False)
    return [_row(line.split("|")) for line in said.stdout.splitlines()]


def _row(values: list[str]) -> dict:
    row, rest = {}, iter(values)
    for name, fields in NAMES.items():
        text = next((value for value in [next(rest) for _ in fields] if value), "")
        row[name] = _value(name, text) if text else None
    return row


def _value(name: str, text: str):
    if name == "at_ns":
        return int(Decimal(text) * 10**9)
    if name in {"source", "destination"}:
        return int(ipaddress.IPv4Address(text))
    if name.endswith("_ipv6"):
        return ipaddress.IPv6Address(text).packed
    return int(text, 0)


def ours(path):
    found, reader = [], read(FilePart(str(path)), Query(columns=(*NAMES, "ip_version")))
    while True:
        try:
            found += next(reader).to_pylist()
        except StopIteration as end:
            return found, end.value


def expected(row: dict) -> dict:
    """Of IPv6 tshark has no field for the whole length."""
    return {
        name: value
        for name, value in row.items()
        if not (row.get("ip_version") == 6 and name == "ip_length") and name != "ip_version"
    }


def agree(path):
    found, report = ours(path)
    wanted = tshark(path)
    assert len(found) == len(wanted)
    for number, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
        comparable = expected(mine)
        assert comparable == {name: theirs[name] for name in comparable}, f"packet {number + 1}"
    return found, report


def network_packets() -> list:
    """Everything that may come behind a link layer."""
    v4, v6 = IP(src="10.1.2.3", dst="192.168.200.1"), IPv6(src="2001:db8::1", dst="fe80::ff")
    data = b"payload of some bytes"
    return [
        v4 / UDP(sport=1234, dport=47000) / data,
        IP(src="0.0.0.0", dst="255.255.255.255", tos=0xB8) / UDP(sport=65535, dport=40000) / data,
        IP(src="1.2.3.4", dst="5.6.7.8", options=[("NOP"), ("NOP"), ("NOP"), ("EOL")]) / UDP(sport=7, dport=40001) / data,
        v4 / TCP(sport=50000, dport=40002, options=[("MSS", 1460)]) / data,
        v4 / ICMP() / data,
        *fragment(v4 / UDP(sport=40003, dport=40004) / bytes(3000), fragsize=1000),
        v6 / UDP(sport=40005, dport=40006) / data,
        IPv6(src="::1", dst="::2", tc=0x28) / TCP(sport=40007, dport=40008),
        v6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrRouting() / IPv6ExtHdrDestOpt() / UDP(sport=40009, dport=40010) / data,
        v6 / IPv6ExtHdrFragment(offset=0, m=1, nh=17) / UDP(sport=40011, dport=40012, len=500) / data,
        v6 / IPv6ExtHdrFragment(offset=40, m=0, nh=17) / data,
        v6 / AH(nh=17, icv=b"x" * 12) / UDP(sport=40013, dport=40014) / data,
        v6 / IPv6ExtHdrDestOpt(nh=59),
        IP(src="9.9.9.9", dst="8.8.8.8", proto=17) / b"abc",
        v4 / UDP(sport=40015, dport=40016),
    ]


def ethernet() -> list[bytes]:
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    packets = network_packets()
    frames = [bytes(ether / packet) for packet in packets]
    frames += [bytes(ether / Dot1Q(vlan=100 + number, prio=5) / packet) for number, packet in enumerate(packets)]
    frames += [
        bytes(ether / Dot1AD(vlan=4000) / Dot1Q(vlan=17) / packets[0]),
        bytes(ether / ARP(psrc="10.0.0.1", pdst="10.0.0.2")),
    ]
    frames += [frames[0] + bytes(18), b"\0" * 14, bytes(ether)[:12] + b"\x08\x00\x55" + bytes(40), b"\1\2\3"]
    return frames


def cooked() -> list[bytes]:
    types = [0x86DD if packet.haslayer(IPv6) else 0x0800 for packet in network_packets()]
    head = [struct.pack("!HHH8sH", 0, 1, 6, b"\2\0\0\0\0\1\0\0", kind) for kind in types]
    return [start + bytes(packet) for start, packet in zip(head, network_packets(), strict=True)]


def cooked_2() -> list[bytes]:
    types = [0x86DD if packet.haslayer(IPv6) else 0x0800 for packet in network_packets()]
    head = [struct.pack("!HHIHBB8s", kind, 0, 3, 1, 0, 6, b"\2\0\0\0\0\1\0\0") for kind in types]
    return [start + bytes(packet) for start, packet in zip(head, network_packets(), strict=True)]


def timed(frames):
    return [(START_NS + 1_234_567 * number, frame) for number, frame in enumerate(frames)]


def blocks(order) -> bytes:
    """Two sections with several interfaces each, and every kind of packet block among blocks of no interest."""
    frames, ticks = timed(ethernet()), 1_700_000_000
    parts = [section(order), interface(order, resolution=9), block(5, bytes(20), order), interface(order, COOKED, snaplen=60)]
    parts += [enhanced(at_ns, frame, order) for at_ns, frame in frames]
    parts += [enhanced(at_ns // 1000, frame[:60], order, 1, len(frame)) for at_ns, frame in timed(cooked())]
    parts += [obsolete(at_ns, frame, order) for at_ns, frame in frames[:5]]
    parts += [interface(order, resolution=0x80 | 10, offset_s=5), enhanced(ticks << 10 | 513, frames[0][1], order, 2)]
    parts += [
        interface(order, COOKED_2, resolution=3),
        *(enhanced(at // 10**6, frame, order, 3) for at, frame in timed(cooked_2())),
    ]
    other = ">" if order == "<" else "<"
    parts += [section(other), interface(other), *(enhanced(at_ns // 1000, frame, other) for at_ns, frame in frames)]
    return b"".join(parts)


LAYERS = {1: ethernet, COOKED: cooked, COOKED_2: cooked_2}
FILES = {
    **{
        f"{'nano' if nano else 'micro'} {'little' if order == '<' else 'big'} {link_type}": (
            lambda order=order, nano=nano, link_type=link_type: classic(
                timed(LAYERS[link_type]()), order, nano, link_type=link_type
            )
        )
        for order in "<>"
        for nano in (True, False)
        for link_type in LAYERS
    },
    "pcapng little": lambda: blocks("<"),
    "pcapng big": lambda: blocks(">"),
    "pcap compressed": lambda: gzip.compress(classic(timed(ethernet()))),
    "pcapng compressed": lambda: gzip.compress(blocks("<")),
    "huge snap length": lambda: classic(timed(ethernet()), snaplen=0xFFFFFFFF),
}


@pytest.mark.parametrize("name", FILES)
def test_every_packet_is_read_as_tshark_reads_it(tmp_path, name):
    path = tmp_path / "some.pcap"
    path.write_bytes(FILES[name]())
    found, report = agree(path)
    assert len(found) >= len(network_packets())
    assert report.problems == ()


@pytest.mark.parametrize("snaplen", [0, 13, 14, 20, 33, 34, 38, 41, 42, 54, 60, 80])
def test_packets_that_were_cut_are_read_as_far_as_they_go(tmp_path, snaplen):
    path = tmp_path / "cut.pcap"
    # Libpcap takes a snap length of 0 for none at all.
    path.write_bytes(classic([])[:24] + classic(timed(ethernet()[:30]), snaplen=snaplen)[24:])
    found, report = ours(path)
    for mine, theirs in zip(found, tshark(path), strict=True):
        # Of a header that is not whole tshark shows the fields that are; here it is read whole or not at all.
        read_of_it = {name: value for name, value in expected(mine).items() if value is not None}
        if theirs["destination"] is None:
            # Where options are cut off, one that it does not see might name another destination.
            read_of_it.pop("destination", None)
        assert read_of_it == {name: theirs[name] for name in read_of_it}
        assert (mine["captured"], mine["original"]) == (theirs["captured"], theirs["original"])
    assert (report.packets, report.cut > 0) == (30, True)


def test_simple_packets_have_no_time_and_the_length_that_their_interface_keeps(tmp_path):
    frame = ethernet()[0]
    path = tmp_path / "simple.pcapng"
    path.write_bytes(section() + interface(snaplen=50) + simple(frame[:50], original=len(frame)) + simple(frame[:43]))
    found, report = ours(path)
    assert [(row["at_ns"], row["captured"], row["original"]) for row in found] == [(None, 50, len(frame)), (None, 43, 43)]
    assert [(row["captured"], row["original"], row["source_port"]) for row in tshark(path)] == [
        (50, len(frame), 1234),
        (43, 43, 1234),
    ]
    assert {row["source_port"] for row in found} == {1234}
    assert report.problems == ()


def damaged() -> dict[str, tuple[bytes, str]]:
    """Files with something wrong in them, and what is said of it."""
    whole = classic(timed(ethernet()))
    third = len(classic(timed(ethernet()[:2])))
    bad, negative = bytearray(whole), bytearray(whole)
    struct.pack_into("<I", bad, third + 8, 262145)
    struct.pack_into("<I", negative, third + 8, 0xFFFFFFF0)
    start = section() + interface() + enhanced(START_NS // 1000, ethernet()[0])
    zero = start + struct.pack("<II", 6, 0) + bytes(100)
    contradiction = start + enhanced(1, bytes(50))[:-4] + struct.pack("<I", 99)
    return {
        "cut tail": (whole[:-1], "ends in the middle of a packet"),
        "cut record header": (whole[: third + 7], "ends in the middle of a packet; the last 7 bytes are skipped"),
        "too long": (
            bytes(bad),
            f"has a packet of impossible length 262145 at byte {third}; the {len(whole) - third} bytes from there",
        ),
        "negative": (bytes(negative), f"has a packet of impossible length 4294967280 at byte {third}"),
        "header only": (whole[:24], ""),
        "cut header": (whole[:23], "is not a pcap file"),
        "wrong magic": (b"\xa1\xb2\xc3\xd5" + whole[4:], "is not a pcap file"),
        "empty": (b"", "is empty"),
        "zero block": (zero, f"has a block of impossible length 0 at byte {len(start)}"),
        "lengths that contradict": (contradiction, f"has a block of impossible length 84 at byte {len(start)}"),
        "cut block": (start[:-5], "ends in the middle of a packet"),
        "cut section": (start[:20], "has a damaged section header"),
        "cut compression": (gzip.compress(whole)[:-300], "cannot be decompressed to its end"),
        "another link": (
            classic(timed(ethernet()), link_type=105),
            f"has {len(ethernet())} packets of link type 105, which is not read",
        ),
    }


@pytest.mark.parametrize("name", damaged())
def test_damaged_files_are_read_as_far_as_tshark_reads_them_and_described(tmp_path, name):
    data, problem = damaged()[name]
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data)
    found, report = ours(path)
    # What is less than a section header tshark takes for some other kind of file, with one packet.
    wanted = tshark(path) if name != "cut section" else []
    if name == "cut compression":
        # What zlib has in its buffer when the data ends is handed out or not.
        assert abs(len(found) - len(wanted)) <= 2
    else:
        assert len(found) == len(wanted)
    assert all(mine["at_ns"] == theirs["at_ns"] for mine, theirs in zip(found, wanted, strict=False))
    assert report.packets == len(found)
    assert problem in " ".join(report.problems)
    assert bool(problem) == bool(report.problems)


def test_random_damage_to_blocks_never_raises(tmp_path):
    whole = np.frombuffer(blocks("<"), np.uint8)
    generator = np.random.default_rng(2)
    path = tmp_path / "damaged.pcapng"
    for _ in range(300):
        damaged = whole.copy()
        damaged[generator.integers(0, len(damaged), 10)] = generator.integers(0, 256, 10)
        path.write_bytes(damaged[: generator.integers(0, len(damaged))].tobytes())
        ours(path)
