"""What the members of a new ring owe each other of their last rings: which messages are sent again by whom, and what is delivered where.

The members that come from the same ring are *comrades*. Each has reported which messages of that ring it has. A message that one of them
has and another lacks is sent again, on the new ring, by the first comrade that has it. There is not always room in a report for all that a
member has: a message that is in no report is sent again by every comrade that has it, unless another one was faster. So in the end all
comrades have the same messages, and extended virtual synchrony says what becomes of them:

* In the old configuration: with agreed delivery, all messages before the first one that no comrade has; with safe delivery, those that a
  comrade knows all members of the old ring to have.
* In the transitional configuration, whose members are the comrades: what is left before that gap, and beyond it the messages of comrades.
  Messages of others beyond the gap are discarded, as they may depend on the one that is missing. A comrade has all of its own messages,
  so the gap is none of theirs, and they depend on nothing beyond the gap.

Obligations. One comrade installs the view of the new ring before another. It may deliver messages beyond the gap as safe, because the other
has them too; then the ring breaks before the other has installed its view, and the other must not discard them. So whoever has all that its
comrades have, and has lost the new ring without installing its view, is *obliged*: beyond a gap it delivers the messages of those comrades
in any case. Its next report says so, and its next comrades do the same. What it lacks, the former comrades had lacked as well, so their
messages do not depend on it. A ring of more than `MOST_OBLIGED` members has no room in its reports for that, and heeds no obligations.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from hostagent.contract.messages import hosts_in
from hostagent.parts.sequences import SequenceSet
from hostagent.protocols.totem.messages import Data, Report
from hostagent.protocols.totem.ring import Ring


class Recovery:
    """The last ring of a host, and its comrades in the new one. When it is over, the host has what any of them had."""

    def __init__(self, old: Ring, reports: Mapping[str, Report], hosts: Sequence[str]) -> None:
        self.old = old
        of_old = {member: report for member, report in reports.items() if report[0] == old.code}
        self.comrades = tuple(of_old)
        """In the order of the ring."""
        self._has = {member: SequenceSet(aru, beyond) for member, (_, aru, _, beyond, _, _) in of_old.items()}
        self._safe = max(safe for _, _, safe, _, _, _ in of_old.values())
        self.obliged = frozenset(of_old).union(*(hosts_in(obliged, hosts) for *_, obliged in of_old.values()))
        """The hosts whose messages are delivered even beyond the gap: comrades, and those that comrades name."""

    @staticmethod
    def is_needless(reports: Mapping[str, Report]) -> bool:
        """Whether all members that come from one ring have the same messages of it, so that nobody has to send anything again."""
        has: dict[int, set[object]] = {}
        for ring, aru, _, beyond, _, _ in reports.values():
            has.setdefault(ring, set()).add((aru, beyond))
        has_more = any(report[4] for report in reports.values())
        return not has_more and all(len(different) == 1 for different in has.values())

    def owed_by(self, host: str) -> Iterator[int]:
        """The numbers of the messages that a comrade, this host, has to send again: also of those that are in no report."""
        for number in sorted(self.old.messages):
            having = [member for member, numbers in self._has.items() if number in numbers] or [host]
            if having[0] == host and len(having) < len(self._has):
                yield number

    def in_old(self, delivery: Literal["agreed", "safe"]) -> Iterator[Data]:
        """What is delivered in the old configuration. All of it if no member is gone; nothing if a restart has ended the configuration."""
        if not self.old.members:
            return
        whole = self.comrades == self.old.members
        up_to = self.old.aru if delivery == "agreed" or whole else self._safe
        yield from self.old.next_up_to(up_to)

    def in_transitional(self) -> Iterator[Data]:
        """What is delivered after that."""
        yield from self.old.next_up_to(self.old.aru)
        for number, data in sorted(self.old.messages.items()):
            if number > self.old.aru and data.origin in self.obliged:
                yield data
