"""What the members of a new ring owe each other of their last rings: which messages are sent again by whom, and what is delivered where.

The members that come from the same ring are *comrades*. Each has reported which messages of that ring it has. A message that one of them
has and another lacks is sent again, on the new ring, by the first comrade that has it. So in the end all comrades have the same messages,
and extended virtual synchrony says what becomes of them:

* In the old configuration: with agreed delivery, all messages before the first one that no comrade has; with safe delivery, those that a
  comrade knows all members of the old ring to have.
* In the transitional configuration, whose members are the comrades: what is left before that gap, and beyond it the messages of comrades.
  Messages of others beyond the gap are discarded, as they may depend on the one that is missing. A comrade has all of its own messages,
  so the gap is none of theirs, and they depend on nothing beyond the gap.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from hostagent.parts.sequences import SequenceSet
from hostagent.protocols.totem.messages import Data, Report
from hostagent.protocols.totem.ring import Ring


class Recovery:
    """The last ring of a host, and its comrades in the new one."""

    def __init__(self, old: Ring, reports: Mapping[str, Report]) -> None:
        self.old = old
        has = {member: SequenceSet(aru, beyond) for member, (ring, aru, _, beyond) in reports.items() if ring == old.code}
        self.comrades = tuple(has)
        """In the order of the ring."""
        self._has = has
        self._safe = max(reports[member][2] for member in has)
        beyond = [span for numbers in has.values() for span in numbers.beyond]
        self._all = SequenceSet(max(numbers.prefix for numbers in has.values()), beyond)
        """What any comrade has."""

    @staticmethod
    def is_needless(reports: Mapping[str, Report]) -> bool:
        """Whether all members that come from one ring have the same messages of it, so that nobody has to send anything again."""
        has: dict[int, set[object]] = {}
        for ring, aru, _, beyond in reports.values():
            has.setdefault(ring, set()).add((aru, beyond))
        return all(len(different) == 1 for different in has.values())

    def owed_by(self, host: str) -> Iterator[int]:
        """The numbers of the messages that a comrade, this host, has to send again."""
        for number in sorted(self.old.messages):
            having = [member for member, numbers in self._has.items() if number in numbers]
            if having[:1] == [host] and len(having) < len(self._has):
                yield number

    def in_old(self, delivery: Literal["agreed", "safe"]) -> Iterator[Data]:
        """What is delivered in the old configuration. All of it if no member is gone; nothing if a restart has ended the configuration."""
        if not self.old.members:
            return
        whole = self.comrades == self.old.members
        up_to = self._all.prefix if delivery == "agreed" or whole else min(self._safe, self._all.prefix)
        yield from self.old.next_up_to(up_to)

    def in_transitional(self) -> Iterator[Data]:
        """What is delivered after that."""
        yield from self.old.next_up_to(self._all.prefix)
        for number, data in sorted(self.old.messages.items()):
            if number > self._all.prefix and number in self._all and data.origin in self._has:
                yield data
