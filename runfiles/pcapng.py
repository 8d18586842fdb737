"""All captures of a run as one file for Wireshark: each link is an interface, and the hosts have their names.

The format is pcapng (draft-ietf-opsawg-pcapng): a section, an interface for each capture, the names of addresses, and all packets by time.
"""

import heapq
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from runfiles.errors import ResultsError
from runfiles.format import CaptureRecord
from runfiles.reading import RunInput

_SECTION, _INTERFACE, _NAMES, _PACKET = 0x0A0D0D0A, 1, 4, 6
_NAME, _DESCRIPTION, _RESOLUTION = 2, 3, 9
_ETHERNET: Final = 1
# The byte order of a capture and the nanoseconds of its unit of time, by its first four bytes.
_MAGIC: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1000), b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\x3c\x4d": (">", 1), b"\x4d\x3c\xb2\xa1": ("<", 1),
}  # fmt: skip
# No packet is longer; a length above it is no length.
_LONGEST: Final = 1 << 18


class _Packet(NamedTuple):
    at_ns: int
    interface: int
    length: int
    """On the wire; the data may be cut."""
    data: bytes


def write_pcapng(run: RunInput, path: Path) -> int:
    """Write the captures of a run as one file. Returns the number of packets."""
    if not run.run.captures:
        raise ResultsError(f"{run.directory} has no captures: it was simulated")
    unfinished = path.with_name(f".{path.name}")
    try:
        count = _write(run, unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _write(run: RunInput, path: Path) -> int:
    count, captures = 0, run.run.captures
    with path.open("wb") as out:
        out.write(_block(_SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        for capture in captures:
            out.write(_interface(capture))
        out.write(_names({address: host for host, address in run.network.addresses.items()}))
        for packet in heapq.merge(*(_packets(run.directory / one.file, number) for number, one in enumerate(captures))):
            out.write(_block(_PACKET, _enhanced(packet)))
            count += 1
    return count


def _packets(path: Path, interface: int) -> Iterator[_Packet]:
    """The packets of a capture, to its end or to where it is cut off."""
    with path.open("rb") as file:
        header = file.read(24)
        if len(header) < 24 or header[:4] not in _MAGIC:
            raise ResultsError(f"{path} is not a capture")
        order, ns = _MAGIC[header[:4]]
        while record := _record(file, order):
            seconds, fraction, length, data = record
            yield _Packet(seconds * 1_000_000_000 + fraction * ns, interface, length, data)


def _record(file: BinaryIO, order: str) -> tuple[int, int, int, bytes] | None:
    head = file.read(16)
    if len(head) < 16:
        return None
    seconds, fraction, kept, length = struct.unpack(f"{order}IIII", head)
    data = file.read(kept) if kept <= _LONGEST else b""
    return (seconds, fraction, length, data) if len(data) == kept else None


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _interface(capture: CaptureRecord) -> bytes:
    both = f"both directions of {capture.source}-{capture.target}"
    about = both if capture.both_ways else f"from {capture.source} to {capture.target}"
    options = (
        _option(_NAME, f"{capture.source}-{capture.target}".encode()),
        _option(_DESCRIPTION, about.encode()),
        _option(_RESOLUTION, b"\x09"),
        _option(0, b""),
    )
    return _block(_INTERFACE, struct.pack("<HHI", _ETHERNET, 0, 0) + b"".join(options))


def _names(hosts: Mapping[str, str]) -> bytes:
    """A block with the name of each IPv4 address."""
    records = []
    for address, host in hosts.items():
        value = bytes(map(int, address.split("."))) + host.encode() + b"\0"
        records.append(struct.pack("<HH", 1, len(value)) + _padded(value))
    return _block(_NAMES, b"".join(records) + bytes(4))


def _enhanced(packet: _Packet) -> bytes:
    high, low = packet.at_ns >> 32, packet.at_ns & 0xFFFFFFFF
    return struct.pack("<IIIII", packet.interface, high, low, len(packet.data), packet.length) + _padded(packet.data)
