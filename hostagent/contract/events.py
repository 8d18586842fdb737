"""The event log of a host: one JSON object a line, in the order in which things happened.

A commit, that is, what a host logged in one go, is complete or does not count. Each line of a commit but the last says how many lines are
`left`; the last line has the `sum` (CRC-32) of all bytes of the commit before that field. A process that is killed while it writes leaves a
commit without a sum. Readers ignore such a commit, and the next life of the host removes it. So a line that a reader accepted stays, also
while the log grows. Lines with neither field, as simulated runs and older versions write them, are each a commit.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Annotated, Any, Final, NamedTuple
from zlib import crc32

import msgspec

from hostagent.contract.messages import SequenceNumber

Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
"""Since 1970, at most until 2116, so that the sum of two times fits into 64 bits."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a host's event log. `origin` and `sequence` name the message that the event is about, if any.

    Every agent logs `start`, `broadcast` and `stop`. What becomes of a message at a host are its marks: `receive`, `deliver`, `commit`,
    `take-back`. `join` and `leave` are what the application asked for, `view` is what the protocol made of it; `group` is a group that was
    made during the run. Protocols add events of their own with `trace`.
    """

    at_ns: Nanoseconds
    event: str
    origin: str = ""
    sequence: SequenceNumber = 0
    details: dict[str, Any] = {}


class Committed(NamedTuple):
    """The complete commits of a log, or of what was added to a log."""

    lines: list[bytes]
    length: int
    """The bytes that these lines take."""
    damaged: bool
    """Whether what follows is damage and not an interrupted commit: a wrong sum, or half a line after lines without marks."""


_encode_lines = msgspec.json.Encoder().encode_lines
# The last field of a line, after its comma and quotation mark.
_MARK: Final = re.compile(rb'(left":\d+|sum":(?P<sum>\d+))\}')


def commit(events: Sequence[Event]) -> bytes:
    """What is added to a log when these events are committed."""
    assert events, "a commit without events leaves no line"
    # No text has a line break of its own in JSON, so this is where lines end.
    *lines, last, _ = _encode_lines(events).split(b"}\n")
    body = b"".join(chain.from_iterable(zip(lines, map(_left, range(len(lines), 0, -1)), strict=True))) + last
    return b'%b,"sum":%d}\n' % (body, crc32(body))


@cache
def _left(lines: int) -> bytes:
    """The end of a line that so many follow in its commit."""
    return b',"left":%d}\n' % lines


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
    # Half a line after lines without marks is damage: such logs were written in one go, or cut back to whole lines.
    return Committed(lines[:first], length, damaged=bool(lines) and mark is None and length < len(log))
