"""Sets of sequence numbers that stay small: everything up to a prefix, and a few ranges beyond it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class SequenceSet:
    """Sequence numbers from 1, stored as "all of 1..prefix" and the ranges above the first gap.

    A stream received without gaps costs one integer however long it gets, and a range two, however many numbers are in it.
    """

    def __init__(self, prefix: int = 0, beyond: Iterable[tuple[int, int]] = ()) -> None:
        self.prefix = prefix
        # The ranges are disjoint, in ascending order, and have a gap between any two of them and after the prefix.
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in beyond:
            self._add_range(first, last)

    @property
    def beyond(self) -> tuple[tuple[int, int], ...]:
        """What lies above the first gap, as pairs of first and last. `SequenceSet(prefix, beyond)` is an equal set."""
        return tuple(zip(self._firsts, self._lasts, strict=True))

    def add(self, number: int) -> bool:
        """Add a number, and say whether it is new."""
        if number == self.prefix + 1 and not self._firsts:
            # The usual case: the next number of a stream without gaps.
            self.prefix = number
            return True
        if number in self:
            return False
        self._add_range(number, number)
        return True

    def add_up_to(self, number: int) -> list[int]:
        """Add all numbers up to this one. Returns the numbers that were above the first gap before and no longer are."""
        before = self.beyond
        self._add_range(1, number)
        absorbed = before[: len(before) - len(self._firsts)]
        return [one for first, last in absorbed for one in range(first, last + 1)]

    def _add_range(self, first: int, last: int) -> None:
        """Add all numbers from `first` to `last`, and join the ranges that this brings together."""
        if last <= self.prefix:
            return
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        if first <= self.prefix + 1:
            self.prefix = last
            self._firsts[low:high], self._lasts[low:high] = (), ()
        else:
            self._firsts[low:high], self._lasts[low:high] = (first,), (last,)

    def __contains__(self, number: int) -> bool:
        return number <= self._end_of_range(number)

    def _end_of_range(self, number: int) -> int:
        """The last number of the range that holds this number; if no range does, a lower number."""
        if number <= self.prefix or not self._firsts:
            return self.prefix
        place = bisect_right(self._firsts, number) - 1
        return self._lasts[place] if place >= 0 else self.prefix

    def __iter__(self) -> Iterator[int]:
        for first, last in ((1, self.prefix), *self.beyond):
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self.prefix + sum(last + 1 - first for first, last in self.beyond)

    @property
    def highest(self) -> int:
        """The largest number, or 0."""
        return self._lasts[-1] if self._lasts else self.prefix

    @property
    def has_gaps(self) -> bool:
        """Whether a number below the highest is missing."""
        return bool(self._firsts)

    def lacking(self, other: "SequenceSet") -> Iterator[int]:
        """The numbers that are in this set and not in the other, in ascending order, computed lazily."""
        for number, last in ((1, self.prefix), *self.beyond):
            candidate = number
            while candidate <= last:
                end = other._end_of_range(candidate)  # noqa: SLF001 - of the same class
                if candidate > end:
                    yield candidate
                candidate = max(candidate, end) + 1
