"""Decodes packets: link layer, VLAN tags, IPv4 and IPv6, ports, and fields of UDP payloads, each for all packets at once.

A capture may keep only the first bytes of a packet. A packet is `cut` if too few bytes were kept to decode it.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkpcap.captures import Flags, Packets, gather
from sparkpcap.walk import Places

Numbers = NDArray[Any]

_ETHERNET, _COOKED, _COOKED_2 = 1, 113, 276
# For each link type, the place of the protocol number, and the place where the packet of that protocol starts.
_LINKS: Final = {_ETHERNET: (12, 14), _COOKED: (14, 16), _COOKED_2: (0, 20)}
_VLAN: Final = (0x8100, 0x88A8, 0x9100)
_IPV4, _IPV6 = 0x0800, 0x86DD
_TCP, _UDP, _FRAGMENT, _AUTHENTICATION = 6, 17, 44, 51
# IPv6 extension headers that state their length and the next header: hop-by-hop, routing, fragment, authentication, destination options,
# mobility, host identity, shim6.
_EXTENSIONS: Final = (0, 43, _FRAGMENT, _AUTHENTICATION, 60, 135, 139, 140)
_UDP_HEADER: Final = 8

_TYPE: Final = np.dtype(">u2")
_TAG: Final = np.dtype([("tag", ">u2"), ("type", ">u2")])
_HEADER_4: Final = np.dtype(
    [
        ("first", "u1"), ("tos", "u1"), ("length", ">u2"), ("identification", ">u2"), ("fragment", ">u2"), ("ttl", "u1"),
        ("protocol", "u1"), ("checksum", ">u2"), ("source", ">u4"), ("destination", ">u4"),
    ]
)  # fmt: skip
_HEADER_6: Final = np.dtype(
    [("first", ">u4"), ("length", ">u2"), ("next", "u1"), ("hops", "u1"), ("source", "V16"), ("destination", "V16")]
)
_EXTENSION: Final = np.dtype([("next", "u1"), ("length", "u1"), ("fragment", ">u2")])
_PORTS: Final = np.dtype([("source", ">u2"), ("destination", ">u2")])
_LENGTH: Final = np.dtype(">u2")


class Column(NamedTuple):
    """A value for each packet, and a flag that says whether the packet has the value."""

    values: Numbers
    there: Flags


class Decoded(NamedTuple):
    """Decoded packets. `payload` is the place of a UDP payload in its packet, and `payload_bytes` its length; 0 for other packets."""

    columns: dict[str, Column]
    is_udp: Flags
    payload: Places
    payload_bytes: Places
    cut: Flags
    unread: dict[int, int]
    """The number of packets of each link type that is not supported."""


def decode(packets: Packets) -> Decoded:
    """Read the headers of packets."""
    decoder = _Decoder(packets)
    unread = decoder.link_layer()
    decoder.vlan_tags()
    decoder.ipv4()
    decoder.ipv6()
    decoder.ports()
    return Decoded(decoder.columns, decoder.is_udp, decoder.here, decoder.payload_bytes, decoder.cut, unread)


def fields(packets: Packets, found: Decoded, layout: np.dtype[Any]) -> tuple[Numbers, Flags, Flags]:
    """The start of each UDP payload as a record of `layout`: the records, which packets have one, and which were cut before its end."""
    long_enough = found.payload_bytes >= layout.itemsize
    kept = long_enough & (found.payload + layout.itemsize <= packets.captured)
    return _gather(packets, kept, found.payload, layout), kept, long_enough & ~kept


def _gather(packets: Packets, wanted: Flags, offset: Places, layout: np.dtype[Any]) -> Numbers:
    """A record of `layout` at an offset in each wanted packet; zeros for the other packets."""
    if wanted.all():
        return gather(packets.data, packets.at + offset, layout)
    records = np.zeros(len(wanted), layout)
    records[wanted] = gather(packets.data, packets.at[wanted] + offset[wanted], layout)
    return records


class _Decoder:
    """Decodes layer by layer. `here` is the current place in each packet, `_kind` the type of the header at that place."""

    def __init__(self, packets: Packets) -> None:
        count = len(packets.at)
        self._packets = packets
        self.columns: dict[str, Column] = {}
        self.cut = np.zeros(count, np.bool_)
        self.here = np.zeros(count, np.int64)
        self._kind = np.zeros(count, np.int64)
        self._transport = np.full(count, -1)
        # The number of bytes from `here` on, according to IP.
        self._room = np.zeros(count, np.int64)
        self.is_udp = np.zeros(count, np.bool_)
        self.payload_bytes = np.zeros(count, np.int64)

    def _reach(self, wanted: Flags, size: int) -> Flags:
        """The wanted packets of which `size` more bytes were kept; the other wanted packets are marked as cut."""
        kept = self.here + size <= self._packets.captured
        self.cut |= wanted & ~kept
        return wanted & kept

    def _read(self, wanted: Flags, layout: np.dtype[Any]) -> Numbers:
        return _gather(self._packets, wanted, self.here, layout)

    def link_layer(self) -> dict[int, int]:
        """Read the type of the payload of each frame; returns the packets of unsupported link types."""
        unread = {}
        for link_type, count in zip(*np.unique(self._packets.link_type, return_counts=True), strict=True):
            if int(link_type) not in _LINKS:
                unread[int(link_type)] = int(count)
                continue
            type_at, size = _LINKS[int(link_type)]
            of_this = self._reach(self._packets.link_type == link_type, size)
            self.here = np.where(of_this, type_at, self.here)
            self._kind = np.where(of_this, self._read(of_this, _TYPE), self._kind)
            self.here = np.where(of_this, size, self.here)
        return unread

    def vlan_tags(self) -> None:
        """Skip VLAN tags and keep the first one."""
        vlan, tagged = np.zeros(len(self.here), np.int64), np.zeros(len(self.here), np.bool_)
        while (wanted := self._reach(np.isin(self._kind, _VLAN) & ~self.cut, _TAG.itemsize)).any():
            tags = self._read(wanted, _TAG)
            vlan = np.where(wanted & ~tagged, tags["tag"] & 0x0FFF, vlan)
            tagged |= wanted
            self._kind = np.where(wanted, tags["type"], self._kind)
            self.here = self.here + _TAG.itemsize * wanted
        self.columns["vlan"] = Column(vlan, tagged)

    def ipv4(self) -> None:
        """Read IPv4 headers with options. Only the first fragment of a datagram has ports."""
        wanted = self._reach((self._kind == _IPV4) & ~self.cut, _HEADER_4.itemsize)
        header = self._read(wanted, _HEADER_4)
        size = 4 * (header["first"] & 0x0F).astype(np.int64)
        wanted = wanted & (header["first"] >> 4 == 4) & (size >= _HEADER_4.itemsize)
        length = header["length"].astype(np.int64)
        self.columns |= {
            "ip_version": Column(np.full(len(wanted), 4), wanted),
            "source": Column(header["source"], wanted),
            "destination": Column(header["destination"], wanted),
            "ip_protocol": Column(header["protocol"], wanted),
            "dscp": Column(header["tos"] >> 2, wanted),
            "ip_length": Column(length, wanted),
        }
        first = wanted & (header["fragment"] & 0x1FFF == 0)
        self._transport = np.where(first, header["protocol"], self._transport)
        # A capture shows length 0 if the network card does the segmentation: the real length is unknown.
        self._room = np.where(wanted, np.where(length == 0, 65535, length) - size, self._room)
        self.here = self.here + size * wanted

    def ipv6(self) -> None:
        """Read IPv6 headers, with the extension headers that state their length."""
        wanted = self._reach((self._kind == _IPV6) & ~self.cut, _HEADER_6.itemsize)
        if not wanted.any():
            return
        header = self._read(wanted, _HEADER_6)
        wanted = wanted & (header["first"] >> 28 == 6)
        next_header, length = header["next"].astype(np.int64), header["length"].astype(np.int64)
        self._room = np.where(wanted, length, self._room)
        self.here = self.here + _HEADER_6.itemsize * wanted
        later = np.zeros(len(wanted), np.bool_)
        while (on := self._reach(wanted & ~later & ~self.cut & np.isin(next_header, _EXTENSIONS) & (self._room >= 8), 8)).any():
            extension = self._read(on, _EXTENSION)
            size = 8 * (extension["length"].astype(np.int64) + 1)
            size = np.where(next_header == _FRAGMENT, 8, size)
            size = np.where(next_header == _AUTHENTICATION, 4 * (extension["length"].astype(np.int64) + 2), size)
            later |= on & (next_header == _FRAGMENT) & (extension["fragment"] & 0xFFF8 != 0)
            next_header = np.where(on, extension["next"], next_header)
            self.here = self.here + size * on
            self._room = self._room - size * on
        self._transport = np.where(wanted & ~later & ~np.isin(next_header, _EXTENSIONS), next_header, self._transport)
        self._join("ip_version", np.full(len(wanted), 6), wanted)
        self._join("ip_protocol", next_header, wanted)
        self._join("dscp", header["first"] >> 22 & 0x3F, wanted)
        self._join("ip_length", length + _HEADER_6.itemsize, wanted)
        self.columns |= {f"{end}_ipv6": Column(header[end], wanted) for end in ("source", "destination")}

    def _join(self, name: str, values: Numbers, there: Flags) -> None:
        """Add the values of IPv6 packets to a column that IPv4 packets have too."""
        column = self.columns[name]
        self.columns[name] = Column(np.where(there, values, column.values), column.there | there)

    def ports(self) -> None:
        """Read the ports of TCP and UDP, and find UDP payloads."""
        is_udp = (self._transport == _UDP) & (self._room >= _UDP_HEADER)
        is_tcp = (self._transport == _TCP) & (self._room >= _PORTS.itemsize)
        wanted = self._reach((is_udp | is_tcp) & ~self.cut, _PORTS.itemsize)
        of_udp = self._reach(is_udp & wanted, _UDP_HEADER)
        ports = self._read(wanted, _PORTS)
        self.here = self.here + _PORTS.itemsize
        length = self._read(of_udp, _LENGTH).astype(np.int64)
        self.columns |= {
            "source_port": Column(ports["source"], wanted),
            "destination_port": Column(ports["destination"], wanted),
            "udp_length": Column(length, of_udp),
        }
        self.here = self.here + (_UDP_HEADER - _PORTS.itemsize)
        self.is_udp = of_udp
        self.payload_bytes = np.where(of_udp, np.maximum(np.minimum(length, self._room) - _UDP_HEADER, 0), 0)
