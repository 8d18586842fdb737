"""Finds the records of a capture. A record states its length, and its end is the start of the next one.

Following such a chain one record at a time is slow in Python, so many chains are followed at once: the stretch is divided into lanes, a
place that looks like a record is *guessed* in each lane, and one NumPy call takes a step in all lanes.
A guess is used only if it is *proved*: the chain of the lane before it, itself proved, must reach a place on the chain of the guess. If it
does not, because a payload looks like records, the proved chain is followed step by step until it does. The first lane starts at a known
record, so by induction the result is the true chain, whatever the payloads hold.
"""

from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

# A lane holds some dozens of packets, so that the steps of all lanes take few calls. Short stretches have shorter lanes, since a call for
# a few lanes takes as long as a call for hundreds.
_LANES: Final = 512
_LONGEST_LANE: Final = 64 * 1024
_SHORTEST_LANE: Final = 2 * 1024
# The fraction (1 / n) of a lane in which a start is searched, at first and at most. A lane without a start joins the lane before it.
_LOOK: Final = 64
_LOOK_MOST: Final = 4


class Chain(Protocol):
    """The records of one stretch, as its format describes them."""

    @property
    def size(self) -> int:
        """The bytes of the stretch."""

    def lengths(self, at: Places) -> Places:
        """The length of the record at each place; 0 where there is no complete record."""

    def length(self, at: int) -> int:
        """The length of the record at one place; 0 if there is no complete record."""

    def likely(self, at: Places, span: int) -> NDArray[np.bool_]:
        """Where a record may start in the `span` bytes from each place on, far from the end. Fewer wrong guesses make it faster."""


class _Lanes(NamedTuple):
    """The lanes, each followed from its guessed start until it left the lane or met no record."""

    starts: Places
    limits: Places
    paths: list[Places]
    ends: Places


def follow(chain: Chain) -> tuple[Places, int]:
    """The places of all complete records from the start of the stretch on, and the place after the last one."""
    lanes = _run(chain, _starts(chain))
    if len(lanes.starts) == 1 or np.array_equal(lanes.ends[:-1], lanes.starts[1:]):
        return np.concatenate(lanes.paths), int(lanes.ends[-1])
    proved: list[Places] = []
    here = 0
    for start, limit, path, end in zip(*lanes, strict=True):
        assert here >= start
        here, missing, found = _join(chain, here, int(limit), path)
        proved.append(np.array(missing, np.int64))
        if found < len(path):
            proved.append(path[found:])
            here = int(end)
        if here < limit:
            break
    return np.concatenate(proved), here


def _join(chain: Chain, here: int, limit: int, path: Places) -> tuple[int, list[int], int]:
    """Follow the chain until it meets the path of a lane or leaves the lane. Returns the place, the steps, and its index on the path."""
    missing, numbers = [], {place: number for number, place in enumerate(path.tolist())}
    while here < limit and here not in numbers:
        length = chain.length(here)
        if not length:
            break
        missing.append(here)
        here += length
    return here, missing, numbers.get(here, len(path))


def _starts(chain: Chain) -> Places:
    """The first likely start in each lane that has one; the stretch itself starts with a record."""
    long = min(_LONGEST_LANE, max(_SHORTEST_LANE, chain.size // _LANES))
    lanes = np.arange(long, chain.size - long, long, dtype=np.int64)
    found, begin, look = [np.zeros(1, np.int64)], 0, long // _LOOK
    while look <= long // _LOOK_MOST and len(lanes):
        likely = chain.likely(lanes + begin, look - begin)
        has = likely.any(axis=1)
        found.append((lanes + begin + likely.argmax(axis=1))[has])
        lanes, begin, look = lanes[~has], look, 2 * look
    return np.unique(np.concatenate(found))


def _run(chain: Chain, starts: Places) -> _Lanes:
    """Follow every lane to the start of the next lane."""
    limits = np.append(starts[1:], chain.size)
    at, ends, lane, limit = starts, starts.copy(), np.arange(len(starts)), limits
    places, numbers = [], []
    while len(at):
        lengths = chain.lengths(at)
        whole = lengths > 0
        if not whole.all():
            at, lane, limit, lengths = at[whole], lane[whole], limit[whole], lengths[whole]
        places.append(at)
        numbers.append(lane)
        at = at + lengths
        ends[lane] = at
        inside = at < limit
        if not inside.all():
            at, lane, limit = at[inside], lane[inside], limit[inside]
    all_places, all_numbers = np.concatenate(places), np.concatenate(numbers)
    ordered = all_places[np.argsort(all_numbers, kind="stable")]
    bounds = np.append(0, np.cumsum(np.bincount(all_numbers, minlength=len(starts))))
    return _Lanes(starts, limits, [ordered[first:last] for first, last in pairwise(bounds)], ends)


def numbers_at(data: Bytes, kind: str) -> NDArray[Any]:
    """The number that starts at each byte of `data`, as a view without copying."""
    layout = np.dtype(kind)
    return np.ndarray((max(0, len(data) - layout.itemsize + 1),), layout, data.data, strides=(1,))


def rows_at(numbers: NDArray[Any], at: Places, span: int) -> NDArray[Any]:
    """A row of `span` numbers from each place on."""
    rows: NDArray[Any] = np.lib.stride_tricks.sliding_window_view(numbers, span)[at]
    return rows
