"""Capture files as arrays: for each packet the place of its bytes, its time, its length and its link type.

Reads classic pcap (micro- and nanoseconds) and pcapng (section header, interface description, enhanced, simple and obsolete packet
blocks; others are skipped), both in either byte order. No content of a file raises an exception: whatever can be read is read,
and `problems` says what cannot be.
"""

from collections import Counter
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkpcap.files import Source
from sparkpcap.walk import Bytes, Places, follow, numbers_at, rows_at

Flags = NDArray[np.bool_]

WINDOW: Final = 32 << 20
"""The bytes processed at a time: memory depends on this, and not on the size of a file."""
GUESSED: Final = 1 << 20
"""The bytes in which the start of a record is guessed; the chain from the guess must lead through half of them."""
# The longest packet that libpcap and Wireshark accept.
LONGEST_PACKET: Final = 262144

_FILE_HEADER: Final = 24
_RECORD_HEADER: Final = 16
_MAGICS: Final = {0xA1B2C3D4: 6, 0xA1B23C4D: 9}
# Neighbouring packets of a file are assumed to be less than a day apart; if they are not, reading is only slower.
_DAY_S: Final = 86_400

_SECTION: Final = b"\x0a\x0d\x0d\x0a"
_BYTE_ORDER: Final = 0x1A2B3C4D
_SECTION_HEADER: Final = 28
_LEAST_BLOCK: Final = 12
_INTERFACE, _OBSOLETE, _SIMPLE, _ENHANCED = 1, 2, 3, 6
_TSRESOL, _TSOFFSET = 9, 14
_ERA_S: Final = 9_200_000_000


class Interface(NamedTuple):
    """The properties of an interface. `resolution` is as in pcapng: a power of ten, or of two if the top bit is set."""

    link_type: int
    resolution: int = 6
    snap_bytes: int = 0
    offset_s: int = 0


class Form(NamedTuple):
    """What is needed to read a file from some place on: its format, its byte order, and the interfaces described before that place."""

    blocks: bool
    order: str
    interfaces: tuple[Interface, ...]


class Packets(NamedTuple):
    """The packets in a window: where their bytes are, and what the capture says about them. A packet that is not `timed` has no time."""

    data: Bytes
    at: Places
    captured: Places
    original: Places
    at_ns: Places
    timed: Flags
    link_type: Places


class Stretch(NamedTuple):
    """Complete records of a file: the place of the window, the window, the places of records in it, and how to read the first one."""

    at: int
    data: Bytes
    records: Places
    form: Form

    def form_at(self, number: int) -> Form:
        """How to read the file from record `number` on."""
        described = _interfaces(self.data, self.records[:number], self.form.order) if self.form.blocks else []
        return self.form._replace(interfaces=(*self.form.interfaces, *described))


class Capture:
    """The packets of a file, or of the part from `start` to `end`: then records start at both places, and `form` is known."""

    def __init__(self, source: Source, start: int = 0, end: int | None = None, form: Form | None = None) -> None:
        self._source = source
        self._at = start
        self._end = end
        self._form = form
        self.packets = 0
        self._problem = ""
        self._damaged = Counter[str]()

    @property
    def at(self) -> int:
        """The place up to which the file was read. A file that grows can be read on from there, with `form`."""
        return self._at

    @property
    def form(self) -> Form | None:
        """How to read the file from `at` on."""
        return self._form

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read so far."""
        counted = (f"has {count} packets {what}" for what, count in self._damaged.items() if count)
        return tuple(problem for problem in (self._source.problem, self._problem, *counted) if problem)

    def __iter__(self) -> Iterator[Packets]:
        for stretch in self.stretches():
            found = self._blocks(stretch) if stretch.form.blocks else _records(stretch)
            self.packets += len(found.at)
            yield found

    def stretches(self) -> Iterator[Stretch]:
        """The records of the capture, a window at a time. Where the chain of records is broken, this ends early with a problem."""
        while (window := self._window()) is not None:
            if self._form is None or (self._form.blocks and _starts_section(window)):
                length = self._open(window)
                if not length:
                    return
                self._at += length
                continue
            chain = _Blocks(window, self._form.order) if self._form.blocks else _Records(window, self._form.order)
            records, stop = follow(chain)
            if not len(records):
                stop = self._pass_over(window, chain)
                if not stop:
                    return
            stretch = Stretch(self._at, window, records, self._form)
            self._form = stretch.form_at(len(records))
            self._at += stop
            yield stretch

    def _window(self) -> Bytes | None:
        size = WINDOW if self._end is None else min(WINDOW, self._end - self._at)
        window = self._source.window(self._at, size)
        if len(window):
            return window
        if self._at == 0 and not self._source.problem:
            self._problem = "is empty"
        elif self._source.rest(self._at) < 0:
            self._problem = "ends in the middle of a block"
        return None

    def _open(self, window: Bytes) -> int:
        """Read the header of a file or of a section. Returns its length, or 0 if it is not valid."""
        if _starts_section(window):
            order, length = _section(window)
            self._form = Form(blocks=True, order=order, interfaces=())
            if not length:
                self._problem = self._stopped("has a damaged section header", self._at)
            return length
        for order in "<>":
            if len(window) >= _FILE_HEADER and (magic := _word(order, window, 0)) in _MAGICS:
                link_type = _word(order, window, 20) & 0xFFFF
                self._form = Form(blocks=False, order=order, interfaces=(Interface(link_type, _MAGICS[magic]),))
                return _FILE_HEADER
        self._problem = "is not a pcap file"
        return 0

    def _pass_over(self, window: Bytes, chain: "_Records | _Blocks") -> int:
        """There is no complete record: record the problem and return 0, or the length of a long block without packets, to skip it."""
        length = chain.claimed(0)
        if length is None or (0 < length <= chain.longest and len(window) < length):
            self._problem = f"ends in the middle of a packet; the last {self._source.rest(self._at)} bytes are skipped"
        elif self._form and self._form.blocks and length > len(window) == WINDOW and not chain.holds_packet(0):
            return length
        else:
            blocks = self._form and self._form.blocks
            what = f"block of impossible length {length}" if blocks else f"packet of impossible length {length - _RECORD_HEADER}"
            self._problem = self._stopped(f"has a {what}", self._at)
        return 0

    def _stopped(self, why: str, at: int) -> str:
        return f"{why} at byte {at}; the {self._source.rest(at)} bytes from there are skipped"

    def _blocks(self, stretch: Stretch) -> Packets:
        """The packets among the blocks of a section."""
        data, order = stretch.data, stretch.form.order
        words = numbers_at(data, order + "u4")
        kinds = words[stretch.records]
        interfaces = (*stretch.form.interfaces, *_interfaces(data, stretch.records, order))
        known = len(stretch.form.interfaces) + np.cumsum(kinds == _INTERFACE)
        is_packet = np.isin(kinds, (_ENHANCED, _OBSOLETE, _SIMPLE))
        at, kinds, known = stretch.records[is_packet], kinds[is_packet], known[is_packet]
        length = words[at + 4].astype(np.int64)
        simple = kinds == _SIMPLE
        overhead = np.where(simple, 16, 32)
        full = ~simple & (length >= overhead)
        number = _where(full, at + 8, words)
        number = np.where(kinds == _OBSOLETE, _where(full, at + 8, numbers_at(data, order + "u2")), number)
        described = number < known
        snap = np.array([interface.snap_bytes or LONGEST_PACKET for interface in interfaces] or [0], np.int64)
        original = np.where(simple, words[at + 8], _where(full, at + 24, words))
        captured = np.where(simple, np.minimum(np.minimum(original, snap[0]), length - 16), _where(full, at + 20, words))
        sound = (length >= overhead) & (captured + overhead <= length) & (captured <= LONGEST_PACKET)
        self._damaged["whose block is too short for them"] += int((~sound).sum())
        self._damaged["of an interface that is not described before them"] += int((sound & ~described).sum())
        good = sound & described
        ticks = _where(full, at + 12, words).astype(np.uint64) << np.uint64(32) | _where(full, at + 16, words).astype(np.uint64)
        number, ticks = number[good], ticks[good]
        at_ns, link_type = np.zeros(len(number), np.int64), np.zeros(len(number), np.int64)
        for used in np.unique(number).tolist():
            here = number == used
            at_ns[here] = _nanoseconds(ticks[here], interfaces[used])
            link_type[here] = interfaces[used].link_type
        start = at[good] + np.where(simple[good], 12, 28)
        return Packets(data, start, captured[good], original[good], at_ns, ~simple[good], link_type)


def guess(source: Source, at: int, form: Form) -> int | None:
    """The first place from `at` on that looks like the start of a record of classic pcap, or None. A payload can look like one, too."""
    window = source.window(at, GUESSED)
    first_s = numbers_at(source.window(_FILE_HEADER, _RECORD_HEADER), form.order + "u4")[0]
    span = len(window) // 2
    if span < _RECORD_HEADER:
        return None
    chain = _Records(window, form.order, first_s)
    for here in np.flatnonzero(chain.likely(np.zeros(1, np.int64), span)[0]).tolist():
        following = here
        while following < span and chain.length(following):
            following += chain.length(following)
        if following >= span:
            return at + int(here)
    return None


class _Records:
    """The records of classic pcap as a chain. `first_s` is the time of the first record if `data` does not start with a record."""

    longest: Final = _RECORD_HEADER + LONGEST_PACKET

    def __init__(self, data: Bytes, order: str, first_s: np.uint32 | None = None) -> None:
        self.size = len(data)
        self._data = data
        self._words = numbers_at(data, order + "u4")
        self._unpack = Struct(order + "I").unpack_from
        self._view = data.data
        begins = self._words[0] if self.size >= _RECORD_HEADER else np.uint32(0)
        self._first_s = begins if first_s is None else first_s

    def lengths(self, at: Places) -> Places:
        if self.size < _RECORD_HEADER:
            return np.zeros(len(at), np.int64)
        captured = self._words[np.minimum(at, self.size - _RECORD_HEADER) + 8].astype(np.int64)
        length = captured + _RECORD_HEADER
        return np.asarray(length * ((captured <= LONGEST_PACKET) & (at + length <= self.size)))

    def length(self, at: int) -> int:
        length = self.claimed(at)
        return length if length and length <= self.longest and at + length <= self.size else 0

    def claimed(self, at: int) -> int | None:
        """The length that the header of the record states; None if the header is incomplete."""
        return _RECORD_HEADER + int(self._unpack(self._view, at + 8)[0]) if at + _RECORD_HEADER <= self.size else None

    def holds_packet(self, _at: int) -> bool:
        """Every record holds a packet."""
        return True

    def likely(self, at: Places, span: int) -> Flags:
        """Where a record may start: its time is near that of the first record, its lengths are possible, and the next time fits."""
        found = self._near(rows_at(self._words, at, span))
        row, column = np.nonzero(found)
        places = at[row] + column
        captured = self._words[places + 8].astype(np.int64)
        following = places + _RECORD_HEADER + captured
        good = (captured > 0) & (captured <= self._words[places + 12]) & (captured <= LONGEST_PACKET)
        good &= (self._words[places + 4] < 1_000_000_000) & (following + _RECORD_HEADER <= self.size)
        good[good] = self._near(self._words[following[good]])
        found[row, column] = good
        return found

    def _near(self, seconds: NDArray[Any]) -> Flags:
        return np.asarray(seconds - self._first_s + np.uint32(_DAY_S) < 2 * _DAY_S)


class _Blocks:
    """The blocks of a section of pcapng as a chain, which ends at the next section."""

    # A block has options after its packet.
    longest: Final = 2 * LONGEST_PACKET

    def __init__(self, data: Bytes, order: str) -> None:
        self.size = len(data)
        self._words = numbers_at(data, order + "u4")
        self._unpack = Struct(order + "II").unpack_from
        self._view = data.data

    def lengths(self, at: Places) -> Places:
        if self.size < _LEAST_BLOCK:
            return np.zeros(len(at), np.int64)
        here = np.minimum(at, self.size - _LEAST_BLOCK)
        length = self._words[here + 4].astype(np.int64)
        good = (length >= _LEAST_BLOCK) & (length % 4 == 0) & (at + length <= self.size)
        good &= (self._words[np.where(good, here + length - 4, 0)] == length) & (self._words[here] != int.from_bytes(_SECTION))
        return np.asarray(length * good)

    def length(self, at: int) -> int:
        return int(self.lengths(np.array([at]))[0])

    def claimed(self, at: int) -> int | None:
        """The length that the header of the block states; None if the header is incomplete."""
        return int(self._unpack(self._view, at)[1]) if at + 8 <= self.size else None

    def holds_packet(self, at: int) -> bool:
        """Whether the block holds a packet or describes an interface: such blocks must not be skipped."""
        return self._unpack(self._view, at)[0] in {_INTERFACE, _OBSOLETE, _SIMPLE, _ENHANCED}

    def likely(self, at: Places, span: int) -> Flags:
        """Where a block may start: at a multiple of four, of the most common kind, and with two lengths that agree."""
        found = np.asarray(rows_at(self._words, at, span) == _ENHANCED)
        row, column = np.nonzero(found)
        places = at[row] + column
        found[row, column] = (places % 4 == 0) & (self.lengths(places) > 0)
        return found


def _records(stretch: Stretch) -> Packets:
    """The packets of classic pcap."""
    interface, layout = stretch.form.interfaces[0], np.dtype([(name, stretch.form.order + "u4") for name in ("s", "f", "c", "o")])
    headers = gather(stretch.data, stretch.records, layout)
    tick_ns = 10 ** (9 - interface.resolution)
    return Packets(
        data=stretch.data,
        at=stretch.records + _RECORD_HEADER,
        captured=headers["c"].astype(np.int64),
        original=headers["o"].astype(np.int64),
        at_ns=headers["s"].astype(np.int64) * 1_000_000_000 + headers["f"].astype(np.int64) * tick_ns,
        timed=np.ones(len(headers), np.bool_),
        link_type=np.full(len(headers), interface.link_type),
    )


def gather(data: Bytes, at: Places, layout: np.dtype[Any]) -> NDArray[Any]:
    """The bytes at each place, read as one record of `layout` each."""
    # NumPy copies plain bytes at once, and records field by field.
    records: NDArray[Any] = numbers_at(data, f"V{layout.itemsize}")[at].view(layout)
    return records


def _where(wanted: Flags, at: Places, numbers: NDArray[Any]) -> Places:
    """The numbers at the wanted places, and 0 elsewhere."""
    found = np.zeros(len(at), np.int64)
    found[wanted] = numbers[at[wanted]]
    return found


def _starts_section(window: Bytes) -> bool:
    return window[:4].tobytes() == _SECTION


def _section(window: Bytes) -> tuple[str, int]:
    """The byte order of a section and the length of its header; 0 if the header is not valid."""
    for order in "<>":
        if len(window) >= _SECTION_HEADER and _word(order, window, 8) == _BYTE_ORDER:
            length = _word(order, window, 4)
            sound = _SECTION_HEADER <= length <= len(window) and length % 4 == 0 and _word(order, window, length - 4) == length
            return order, length if sound else 0
    return "<", 0


def _interfaces(data: Bytes, records: Places, order: str) -> list[Interface]:
    """The interfaces described among the blocks."""
    described = records[numbers_at(data, order + "u4")[records] == _INTERFACE]
    return [_interface(data, at, order) for at in described.tolist()]


def _interface(data: Bytes, at: int, order: str) -> Interface:
    """Read an interface description. One that is too short counts as an interface, so that the others keep their numbers."""
    end = at + _word(order, data, at + 4) - 4
    if end < at + 16:
        return Interface(-1)
    option, half = Struct(order + "HH").unpack_from, Struct(order + "H").unpack_from
    resolution, offset_s, here = 6, 0, at + 16
    while here + 4 <= end:
        code, length = option(data.data, here)
        if code == 0 or here + 4 + length > end:
            break
        if code == _TSRESOL and length == 1:
            resolution = int(data[here + 4])
        elif code == _TSOFFSET and length == 8:
            offset_s = int(Struct(order + "q").unpack_from(data.data, here + 4)[0])
        here += 4 + (length + 3) // 4 * 4
    return Interface(half(data.data, at + 8)[0], resolution, _word(order, data, at + 12), offset_s)


def _nanoseconds(ticks: NDArray[np.uint64], interface: Interface) -> Places:
    """Ticks of the clock of an interface as nanoseconds since 1970, rounded down."""
    power = interface.resolution & 0x7F
    if not interface.resolution & 0x80:
        factor, divisor = 10 ** max(0, 9 - power), 10 ** min(19, max(0, power - 9))
        nanoseconds = ticks // np.uint64(divisor) * np.uint64(factor)
    else:
        # A fraction of a second keeps 34 bits at most, so that its product with 10^9 fits into 64 bits.
        power = min(power, 63)
        spare = max(0, power - 34)
        whole, fraction = ticks >> np.uint64(power), (ticks & np.uint64((1 << power) - 1)) >> np.uint64(spare)
        nanoseconds = whole * np.uint64(10**9) + (fraction * np.uint64(10**9) >> np.uint64(power - spare))
    # 64 bits of nanoseconds hold about 290 years, so the offset is limited to that.
    return nanoseconds.astype(np.int64) + max(-_ERA_S, min(_ERA_S, interface.offset_s)) * 10**9


def _word(order: str, data: Bytes, at: int) -> int:
    return int(Struct(order + "I").unpack_from(data.data, at)[0])
