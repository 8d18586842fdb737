"""Captures to arrays: an index of where each packet starts, then every field of every packet in one NumPy gather each.

Reads what `tcpdump -w` writes: classic pcap, micro- or nanoseconds, either byte order, Ethernet. Nothing here raises for what a file
holds: the part that can be read is read, and the rest is counted and described.
"""

from array import array
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hostagent.messages import Purpose
from hostagent.wire import HEADER, MAGIC, VERSION, Header

Bytes = NDArray[np.uint8]
Records = NDArray[Any]
"""A structured array: one record a packet."""

_MICRO, _NANO = 0xA1B2C3D4, 0xA1B23C4D
_ETHERNET = 1
_FILE_HEADER: Final = 24
_RECORD_HEADER: Final = 16
_UDP: Final = 8
# What libpcap takes for "no limit" when a file does not say how much of each packet it keeps.
_LONGEST_RECORD: Final = 262144

_SIZES = {"B": "u1", "H": ">u2", "I": ">u4", "Q": ">u8"}
CASTBED: Final = np.dtype([(name, _SIZES[code]) for name, code in zip(Header._fields, HEADER.format[1:], strict=True)])
"""The fixed header of `hostagent.wire`, derived from it so that the two cannot disagree."""

_FRAME: Final = np.dtype(
    [
        ("ethernet", "V12"), ("type", ">u2"), ("version", "u1"), ("tos", "u1"), ("length", ">u2"), ("identification", ">u2"),
        ("fragment", ">u2"), ("ttl", "u1"), ("protocol", "u1"), ("checksum", ">u2"), ("source", ">u4"), ("destination", ">u4"),
    ]
)  # fmt: skip
_PORTS: Final = np.dtype([("source", ">u2"), ("destination", ">u2"), ("length", ">u2"), ("checksum", ">u2")])


class Index(NamedTuple):
    """Where the packets of a file start, how to read their record headers, and what could not be read."""

    offsets: NDArray[np.int64]
    record: np.dtype[Any]
    tick_ns: int
    problem: str = ""


class Datagrams(NamedTuple):
    """The datagrams to one UDP port, a column a field. `header` is meaningless where `ours` is false.

    `skipped` counts packets that are not datagrams to that port, `cut` those of which the capture kept too little to tell.
    """

    at_ns: NDArray[np.int64]
    source: NDArray[np.uint32]
    destination: NDArray[np.uint32]
    dscp: NDArray[np.uint8]
    bytes: NDArray[np.int64]
    ours: NDArray[np.bool_]
    header: Records
    skipped: int
    cut: int


def index(data: Bytes) -> Index:
    """Find the packets of a capture."""
    for order in "<>":
        if len(data) >= _FILE_HEADER and (magic := Struct(order + "I").unpack_from(data.data)[0]) in (_MICRO, _NANO):
            return _walk(data, order, tick_ns=1 if magic == _NANO else 1000)
    return _unreadable("is empty" if not len(data) else "is not a pcap file")


def extract(data: Bytes, found: Index, part: slice, udp_port: int, run: int) -> Datagrams:
    """The datagrams to `udp_port` among some of the packets; ours are those with a valid header of this run."""
    offsets = found.offsets[part]
    records = _gather(data, offsets, found.record)
    frame, captured = offsets + _RECORD_HEADER, records["captured"].astype(np.int64)
    whole = captured >= _FRAME.itemsize
    frames = _gather_where(whole, data, frame, _FRAME)
    udp_at = 14 + 4 * (frames["version"] & 0x0F).astype(np.int64)
    is_udp = _is_udp(frames)
    readable = is_udp & (captured >= udp_at + _UDP)
    ports = _gather_where(readable, data, frame + udp_at, _PORTS)
    wanted = readable & (ports["destination"] == udp_port)
    long_enough = wanted & (ports["length"] >= _UDP + CASTBED.itemsize)
    cut = long_enough & (captured < udp_at + _UDP + CASTBED.itemsize)
    header = _gather_where(long_enough & ~cut, data, frame + udp_at + _UDP, CASTBED)
    kept, too_short = wanted & ~cut, ~whole | (is_udp & ~readable) | cut
    header, frames, records = header[kept], frames[kept], records[kept]
    return Datagrams(
        at_ns=records["seconds"].astype(np.int64) * 1_000_000_000 + records["fraction"].astype(np.int64) * found.tick_ns,
        source=frames["source"].astype(np.uint32),
        destination=frames["destination"].astype(np.uint32),
        dscp=frames["tos"] >> 2,
        bytes=frames["length"].astype(np.int64) + 14,
        ours=_is_ours(header, run),
        header=header,
        skipped=int((~kept & ~too_short).sum()),
        cut=int(too_short.sum()),
    )


def _walk(data: Bytes, order: str, tick_ns: int) -> Index:
    """The index pass: each record says how long it is, so the next one starts behind it."""
    longest, link_type = Struct(order + "II").unpack_from(data.data, 16)
    if link_type & 0xFFFF != _ETHERNET:
        return _unreadable("is not a capture of Ethernet")
    longest = longest if 0 < longest <= _LONGEST_RECORD else _LONGEST_RECORD
    length, view, end = Struct(order + "I").unpack_from, data.data, len(data)
    offsets, at, problem = array("q"), _FILE_HEADER, ""
    while at + _RECORD_HEADER <= end:
        captured = length(view, at + 8)[0]
        following = at + _RECORD_HEADER + captured
        if captured > longest:
            problem = f"has a packet of impossible length {captured} at byte {at}; the {end - at} bytes from there are skipped"
            break
        if following > end:
            break
        offsets.append(at)
        at = following
    if at < end and not problem:
        problem = f"ends in the middle of a packet; the last {end - at} bytes are skipped"
    return Index(np.array(offsets, np.int64), _record(order), tick_ns, problem)


def _unreadable(problem: str) -> Index:
    return Index(np.empty(0, np.int64), _record("<"), 1, problem)


def _record(order: str) -> np.dtype[Any]:
    return np.dtype([(name, order + "u4") for name in ("seconds", "fraction", "captured", "length")])


def _gather(data: Bytes, at: NDArray[np.int64], layout: np.dtype[Any]) -> Records:
    """The bytes at each offset, read as one record of `layout` each."""
    records: Records = data[at[:, np.newaxis] + np.arange(layout.itemsize)].view(layout).ravel()
    return records


def _gather_where(wanted: NDArray[np.bool_], data: Bytes, at: NDArray[np.int64], layout: np.dtype[Any]) -> Records:
    """Like `_gather`, with zeros for the packets that do not reach that far."""
    records = np.zeros(len(at), layout)
    records[wanted] = _gather(data, at[wanted], layout)
    return records


def _is_udp(frames: Records) -> NDArray[np.bool_]:
    """UDP over IPv4. Later fragments of a datagram have no ports; the first stands for all of it."""
    udp = (frames["type"] == 0x0800) & (frames["version"] >> 4 == 4) & (frames["protocol"] == 17)
    return np.asarray(udp & (frames["fragment"] & 0x1FFF == 0), dtype=np.bool_)


def _is_ours(header: Records, run: int) -> NDArray[np.bool_]:
    known = (header["magic"] == MAGIC) & (header["version"] == VERSION) & (header["purpose"] <= Purpose.CONTROL)
    return np.asarray(known & (header["run"] == run), dtype=np.bool_)
