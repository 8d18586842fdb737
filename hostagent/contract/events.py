"""The event log of a host: one JSON object a line, in the order in which things happened.

What a host logged between two commits is there as a whole or not at all. Each line but the last of a commit says how many lines of it are
`left`; the last one has the `sum` (CRC-32) of all bytes of the commit before that field. A process that is killed while it writes leaves a
commit without its sum, which no reader believes, and which the next life of the host cuts off. So what a reader believes never changes,
also while the log grows. Lines with neither field, as simulated runs and older versions write them, are each a commit.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple
from zlib import crc32

import msgspec

from hostagent.contract.messages import SequenceNumber

Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
"""Since 1970, until 2116, so that sums of two fit into 64 bits."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a host's event log. `origin` and `sequence` name the message it is about, if any.

    Every agent logs `start`, `broadcast`, `deliver` and `stop`; protocols trace events of their own beside them.
    """

    at_ns: Nanoseconds
    event: str
    origin: str = ""
    sequence: SequenceNumber = 0
    details: dict[str, Any] = {}


class Committed(NamedTuple):
    """What a reader may believe of a log, or of what was added to it."""

    lines: list[bytes]
    length: int
    """The bytes that these lines take."""
    damaged: bool
    """Whether what comes next is no commit that was interrupted: its sum is wrong, or half a line follows lines without marks."""


_encode = msgspec.json.Encoder().encode
# The last field of a line, behind the comma and the quotation mark that begin it.
_MARK: Final = re.compile(rb'(left":\d+|sum":(?P<sum>\d+))\}')


def commit(events: Sequence[Event]) -> bytes:
    """What is added to a log when these events are committed."""
    assert events, "a commit without events leaves no line"
    *lines, last = map(_encode, events)
    body = b"".join([b'%b,"left":%d}\n' % (line[:-1], len(lines) - number) for number, line in enumerate(lines)]) + last[:-1]
    return b'%b,"sum":%d}\n' % (body, crc32(body))


def committed(log: bytes) -> Committed:
    """The lines of all whole commits at the beginning of a log."""
    lines: list[bytes] = []
    first = length = end = 0
    mark = None
    for line in log.split(b"\n")[:-1]:
        start, end = end, end + len(line) + 1
        lines.append(line)
        before, _, last_field = line.rpartition(b',"')
        mark = _MARK.fullmatch(last_field)
        if mark is not None and mark["sum"] is None:
            continue
        if mark is not None and int(mark["sum"]) != crc32(log[length : start + len(before)]):
            return Committed(lines[:first], length, damaged=True)
        first, length = len(lines), end
    # Nobody leaves half a line behind lines without marks: those logs are written at once, or were cut back.
    return Committed(lines[:first], length, damaged=bool(lines) and mark is None and length < len(log))
