"""A history: what was ordered or sent here, and is not known to have arrived at all of its receivers.

Source: the history buffer of the sequencer in Amoeba (Kaashoek, Tanenbaum, Hummel and Bal, "An Efficient Reliable Broadcast Protocol",
1989), from which lost messages are sent again.

Entries have the numbers 1, 2, 3, ... in the order in which they were added. An entry is for all members of the history or for some of
them. A member says from time to time up to which number it has everything that is for it (`acknowledge`). Entries that all of their
receivers have are forgotten, the oldest first: one that is missed somewhere keeps those after it. Whoever adds entries keeps a bound, and
waits with further ones until members have said what they have. So memory is bounded, and nothing is lost.

What survives a restart: the entries, the number of the last one, and for each member the number of the last entry for it. What members
have is not stored: they say it again when they are asked.

Costs. Adding an entry writes that entry; nothing that is kept is looked at. An acknowledgement looks at each member once if it comes from
one of those that have least, and each entry is forgotten once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import host_set, hosts_in


class History(Part):
    """Entries of any values that can be stored, for the members of a group of hosts."""

    def __init__(self, env: Environment, members: Sequence[str]) -> None:
        super().__init__(env)
        self._kept: dict[int, tuple[bytes, Any]] = {}
        """The receivers and the value of each entry, in the order of numbers; no receivers stand for all members."""
        self.last = 0
        """The number of the last entry that was added."""
        self._latest = dict.fromkeys(members, 0)
        """For each member, the number of the last entry for it."""
        self._forgotten = 0
        """All entries up to this one were forgotten."""
        self._latest_forgotten = dict.fromkeys(members, 0)
        """For each member, the number of the last entry for it that was forgotten."""
        self._marks = dict.fromkeys(members, 0)
        """For each member, the number up to which it has everything that is for it, as far as is known here."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the entries; what members have must be learnt again."""
        self.last, latest = stored.get("forgotten", (0, {}))
        self._forgotten = self.last
        self._latest_forgotten |= latest
        self._latest |= latest
        for number in sorted(int(key) for key in stored if key != "forgotten"):
            receivers, value = stored[str(number)]
            self._keep(number, receivers, value)
        self._marks = dict.fromkeys(self._latest, self._forgotten)

    @property
    def first(self) -> int:
        """The lowest number that is kept, or the next one to be given if nothing is kept."""
        return self._forgotten + 1

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, number: int) -> bool:
        return number in self._kept

    def __getitem__(self, number: int) -> Any:
        """The value of an entry that is kept."""
        return self._kept[number][1]

    def receivers(self, number: int) -> tuple[str, ...]:
        """The members that an entry which is kept is for."""
        receivers, _ = self._kept[number]
        return hosts_in(receivers, self.env.hosts) if receivers else tuple(self._latest)

    def latest(self, member: str) -> int:
        """The number of the last entry for a member, kept or forgotten; 0 if there was none."""
        return self._latest[member]

    def has(self, member: str) -> int:
        """The number up to which a member is known to have everything that is for it."""
        return self._marks[member]

    def lagging(self) -> Iterator[str]:
        """The members that are not known to have everything that is for them."""
        return (member for member, latest in self._latest.items() if self._marks[member] < latest)

    def append(self, value: Any, receivers: Iterable[str] | None = None) -> int:
        """Add an entry for some members, or for all; its number. The caller looks first whether there is room."""
        some = b"" if receivers is None else host_set(tuple(receivers), self.env.hosts)
        number = self.last + 1
        self.env.store(str(number), (some, value))
        self._keep(number, some, value)
        if not self.receivers(number):
            self._forget()
        return number

    def acknowledge(self, member: str, number: int) -> int:
        """A member has everything that is for it up to a number. Returns how many entries were forgotten, which makes as much room."""
        before = self._marks[member]
        # A member may know less than here, after a restart of this host, and never more than was given out.
        self._marks[member] = max(before, min(number, self.last))
        # If an entry is kept, a member that lacks it or has not said that it has it is known to have nothing after those forgotten.
        return self._forget() if self._marks[member] > before and before <= self._forgotten else 0

    def cut_after(self, number: int) -> None:
        """Take back all entries after this one: they were never valid. Their numbers are given again."""
        assert number >= self._forgotten, "what all have cannot be taken back"
        for late in range(number + 1, self.last + 1):
            del self._kept[late]
            self.env.store(str(late), None)
        self.last = min(self.last, number)
        self._latest = dict(self._latest_forgotten)
        for kept in self._kept:
            self._latest |= dict.fromkeys(self.receivers(kept), kept)
        self._marks = {member: min(mark, number) for member, mark in self._marks.items()}

    def _keep(self, number: int, receivers: bytes, value: Any) -> None:
        self._kept[number] = receivers, value
        self.last = number
        for member in self.receivers(number):
            self._latest[member] = number

    def _forget(self) -> int:
        """Forget the oldest entries, up to the first one that a member may lack. Returns how many they are."""
        everywhere = min((self._marks[member] for member in self.lagging()), default=self.last)
        forgotten = max(0, everywhere - self._forgotten)
        if not forgotten:
            return 0
        for number in range(self._forgotten + 1, everywhere + 1):
            self._latest_forgotten |= dict.fromkeys(self.receivers(number), number)
            del self._kept[number]
            self.env.store(str(number), None)
        self._forgotten = everywhere
        self.env.store("forgotten", (everywhere, self._latest_forgotten))
        return forgotten
