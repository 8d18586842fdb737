"""Sets of sequence numbers that stay small: everything up to a prefix, and the few beyond it."""

from collections.abc import Iterator, Sequence


class SequenceSet:
    """Sequence numbers from 1, stored as "all of 1..prefix" and what lies above the first gap.

    A stream received without gaps costs one integer however long it gets.
    """

    def __init__(self, prefix: int = 0, beyond: Sequence[int] = ()) -> None:
        self.prefix = prefix
        self._beyond = set(beyond)

    def add(self, number: int) -> bool:
        """Add a number; whether it is new."""
        if number in self:
            return False
        if number > self.prefix + 1:
            self._beyond.add(number)
            return True
        self.prefix = number
        while self.prefix + 1 in self._beyond:
            self.prefix += 1
            self._beyond.remove(self.prefix)
        return True

    def add_up_to(self, number: int) -> list[int]:
        """Add all numbers up to this one; what lay above the first gap until now and no longer does."""
        before, self.prefix = sorted(self._beyond), max(self.prefix, number)
        while self.prefix + 1 in self._beyond:
            self.prefix += 1
        self._beyond = {above for above in before if above > self.prefix}
        return before[: len(before) - len(self._beyond)]

    def __contains__(self, number: int) -> bool:
        return number <= self.prefix or number in self._beyond

    def __iter__(self) -> Iterator[int]:
        yield from range(1, self.prefix + 1)
        yield from sorted(self._beyond)

    def __len__(self) -> int:
        return self.prefix + len(self._beyond)

    @property
    def highest(self) -> int:
        """The largest number, or 0."""
        return max(self._beyond, default=self.prefix)

    def lacking(self, other: "SequenceSet") -> list[int]:
        """The numbers that are here and not in the other set, in order."""
        behind = (number for number in range(other.prefix + 1, self.prefix + 1) if number not in other)
        return [*behind, *(number for number in sorted(self._beyond) if number not in other)]

    def state(self) -> tuple[int, list[int]]:
        """What `SequenceSet(*state)` makes into an equal set again."""
        return self.prefix, sorted(self._beyond)
