"""With failover: the entries that a host has accepted, and how far it has delivered them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.parts.history import History
from hostagent.protocols.sequencer.messages import Entry, destination


class Item(msgspec.Struct, frozen=True, array_like=True):
    """An entry as it is kept."""

    born: int
    """The epoch in which it got its number."""
    group: int
    origin: str
    sequence: int
    payload: bytes
    listed: bytes


class Log(Part):
    """The entries of this host, on stable storage. The last entry is never forgotten, as elections ask for its epoch."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        # The history asks one member only: `forget` says what all have.
        self._history = self.add("history", lambda own: History(own, (env.host,)))
        self.delivered = 0
        self.floor_born = 0
        """The epoch in which the last entry that was forgotten got its number."""
        self._applied: dict[str, int] = {}
        """The sequence number of the last message of each source among those that were delivered somewhere."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore how far this host has delivered."""
        self.delivered = stored.get("delivered", 0)
        self.floor_born = stored.get("floor born", 0)
        self._applied = {key.removeprefix("applied/"): value for key, value in stored.items() if key.startswith("applied/")}

    @property
    def floor(self) -> int:
        """The number of the last entry that was forgotten."""
        return self._history.first - 1

    @property
    def last(self) -> int:
        """The number of the last entry."""
        return self._history.last

    def __getitem__(self, number: int) -> Item:
        return Item(*self._history[number])

    def __contains__(self, number: int) -> bool:
        return number in self._history

    def __len__(self) -> int:
        return len(self._history)

    @property
    def born(self) -> int:
        """The epoch of the last entry."""
        return self[self.last].born if self.last else 0

    def taken(self) -> dict[str, int]:
        """The sequence number of the last message of each source in this log."""
        taken = dict(self._applied)
        for number in range(self.delivered + 1, self.last + 1):
            taken[self[number].origin] = max(self[number].sequence, taken.get(self[number].origin, 0))
        return taken

    def append(self, item: Item) -> int:
        """Add an entry; its number."""
        return self._history.append(msgspec.structs.astuple(item))

    def accept(self, entry: Entry) -> None:
        """Have this entry at its number; what was there and differs was never stable, and nothing after it either."""
        if entry.number in self and self[entry.number].born == entry.born:
            return
        assert self.delivered < entry.number <= self.last + 1, (entry.number, self.delivered, self.last)
        self._history.cut_after(entry.number - 1)
        self.append(Item(entry.born, entry.group, entry.origin, entry.sequence, entry.payload, entry.listed))

    def deliver_next(self) -> Item:
        """Deliver the next entry, if it is a message for this host."""
        self.delivered += 1
        self.env.store("delivered", self.delivered)
        item = self[self.delivered]
        if item.sequence:
            self._applied[item.origin] = item.sequence
            self.env.store(f"applied/{item.origin}", item.sequence)
            to = destination(item.group, item.listed, self.env.groups, self.env.hosts)
            if to and self.env.host in to.hosts:
                self.env.deliver(item.origin, item.sequence, item.payload)
        return item

    def has(self, number: int, born: int) -> bool:
        """Whether this host has this entry. It then has the same entries before it as whoever else has it."""
        if number in self:
            return self[number].born == born
        return number <= self.floor

    def forget(self, everywhere: int) -> None:
        """Forget what all hosts have; what this host has not delivered it keeps."""
        floor = min(everywhere, self.delivered, self.last - 1)
        if floor > self.floor:
            if self[floor].born != self.floor_born:
                self.floor_born = self[floor].born
                self.env.store("floor born", self.floor_born)
            self._history.acknowledge(self.env.host, floor)
