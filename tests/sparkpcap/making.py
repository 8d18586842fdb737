"""Captures made by hand, in every format that is read."""

import struct

ETHERNET, COOKED, COOKED_2 = 1, 113, 276
START_NS = 1_700_000_000_123_456_000


def classic(packets, order="<", nano=True, snaplen=65535, link_type=ETHERNET) -> bytes:
    """A pcap file of (at_ns, bytes) pairs."""
    header = struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, snaplen, link_type)
    return header + b"".join(record(at_ns, data, order, nano, snaplen) for at_ns, data in packets)


def record(at_ns, data, order="<", nano=True, snaplen=65535) -> bytes:
    kept = data[:snaplen]
    fraction = at_ns % 10**9 // (1 if nano else 1000)
    return struct.pack(order + "IIII", at_ns // 10**9, fraction, len(kept), len(data)) + kept


def block(kind, body, order="<") -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(order + "II", kind, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)


def section(order="<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(order="<", link_type=ETHERNET, snaplen=0, resolution=None, offset_s=None) -> bytes:
    options = b""
    if resolution is not None:
        options += struct.pack(order + "HHB3x", 9, 1, resolution)
    if offset_s is not None:
        options += struct.pack(order + "HHq", 14, 8, offset_s)
    options += struct.pack(order + "HH", 0, 0) if options else b""
    return block(1, struct.pack(order + "HHI", link_type, 0, snaplen) + options, order)


def enhanced(ticks, data, order="<", number=0, original=None) -> bytes:
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), original or len(data))
    return block(6, head + data, order)


def obsolete(ticks, data, order="<", number=0) -> bytes:
    return block(2, struct.pack(order + "HHIIII", number, 7, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data)) + data, order)


def simple(data, order="<", original=None) -> bytes:
    return block(3, struct.pack(order + "I", original or len(data)) + data, order)
