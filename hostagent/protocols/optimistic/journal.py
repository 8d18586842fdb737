"""What one host has of the one order of all messages: delivered at once, committed later, taken back in a rollback.

Numbers up to `done` are committed, and stay. Those after it, up to `top`, are delivered and may be taken back: the *tail*. A message that
is taken back is kept; the paper discards it (see `protocol`). What is committed is kept until all of its destinations know that it is, also
those that are not in the list, since they need it when they are back.
"""

from collections.abc import Iterator, Mapping
from itertools import count, takewhile
from typing import Any

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.parts.in_order import ranges
from hostagent.protocols.optimistic.state import Ballot, Key, Stamp, TokenState

Kept = tuple[int, bytes]
"""The destinations of a message as a set of places, and its payload."""


class Journal(Part):
    """The messages that this host has, and their order."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._me = env.hosts.index(env.host)
        self._messages: dict[Key, Kept] = {}
        self._order: dict[int, Key] = {}
        """The messages with numbers that are kept."""
        self.stamps: dict[Key, Stamp] = {}
        """For each message that is not committed, the list and rollback in which it was last heard."""
        self.stamp: Stamp = 0, 0
        """The list and rollback in which the tail was delivered."""
        self.done = self.top = 0

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore messages, their order and the tail."""
        self.done, self.top, generation, rollbacks = stored.get("state", (0, 0, 0, 0))
        self.stamp = generation, rollbacks
        for key, value in stored.items():
            match key.split("/"):
                case ["message", origin, sequence]:
                    self._messages[int(origin), int(sequence)] = tuple(value)
                case ["number", number]:
                    self._order[int(number)] = tuple(value)
        self._order = dict(sorted(self._order.items()))
        # Own messages may have been broadcast before the restart.
        self.stamps = {key: (-1, -1) for key in self._messages if key[0] == self._me}

    def find(self, key: Key) -> Kept | None:
        """A message, if this host has it."""
        return self._messages.get(key)

    def own(self, after: int) -> Iterator[Key]:
        """The messages of this host with sequence numbers after this one."""
        return takewhile(self._messages.__contains__, ((self._me, number) for number in count(after + 1)))

    def keep(self, key: Key, to: int, payload: bytes) -> bool:
        """Keep a message on stable storage, and say whether it is new."""
        if key in self._messages:
            return False
        self._messages[key] = to, payload
        self.env.store(_name(key), (to, payload))
        return True

    def align(self, state: TokenState) -> int:
        """Roll back if the token says so: take back what is not in its order, the last message first. Returns how many that were."""
        if state.stamp == self.stamp:
            return 0
        if state.generation == self.stamp[0]:
            kept = min(self.top, state.base)
        else:
            kept = max(self.ballot().keeps(state.parent, state.settled), self.done)
        taken = self.top - kept
        for number in range(self.top, kept, -1):
            # Where a number is missing, all of its destinations had its message.
            if (key := self._order.pop(number, None)) is None:
                continue
            self.env.store(f"number/{number}", None)
            if self._is_for(key):
                self.env.take_back(self.env.hosts[key[0]], key[1])
        self.top, self.stamp = kept, state.stamp
        self._store_state()
        return taken

    def deliver(self, state: TokenState) -> None:
        """Deliver the messages that are in force, in their order, up to the first that is missing here."""
        while state.base <= self.top < state.top:
            key = state.names[self.top - state.base].key
            if key not in self._messages:
                return
            self.place(self.top + 1, key)

    def place(self, number: int, key: Key) -> None:
        """Deliver a message which this host has, and which has this number."""
        self.top = number
        self._order[number] = key
        self.env.store(f"number/{number}", key)
        self._store_state()
        if self._is_for(key):
            self.env.deliver(self.env.hosts[key[0]], key[1], self._messages[key][1])

    def skip_to(self, number: int) -> None:
        """The messages up to this number that are not here are with all of their destinations."""
        self.top = max(self.top, number)
        self._store_state()

    def commit(self, up_to: int) -> None:
        """Mark what is delivered up to a number as committed."""
        up_to = min(up_to, self.top)
        if up_to <= self.done:
            return
        for number in range(self.done + 1, up_to + 1):
            if (key := self._order.get(number)) is not None and self._is_for(key):
                self.env.commit(self.env.hosts[key[0]], key[1])
        self.done = up_to
        self._store_state()

    def forget(self, state: TokenState) -> None:
        """Forget the messages that all of their destinations know to be committed, and late copies of such."""
        slowest = min(state.done[self._me], self.done)
        for number in [number for number in self._order if number <= slowest]:
            key = self._order[number]
            to = self._to(key)
            if all(done >= number for place, done in enumerate(state.done) if to >> place & 1):
                del self._order[number]
                self.env.store(f"number/{number}", None)
                self._drop(key)
        if state.is_idle:
            needed = set(self._order.values())
            for key in [key for key in self._messages if key[1] <= state.lasts[key[0]] and key not in needed]:
                self._drop(key)

    def kept(self, after: int, up_to: int) -> list[tuple[int, Key, Kept]]:
        """The messages that are kept with numbers after one and up to another."""
        found = ((number, key) for number, key in sorted(self._order.items()) if after < number <= up_to)
        return [(number, key, self._messages[key]) for number, key in found if key in self._messages]

    def ballot(self) -> Ballot:
        """What this host has, for a new list."""
        by_origin: dict[int, list[int]] = {}
        for origin, sequence in sorted(self._messages):
            by_origin.setdefault(origin, []).append(sequence)
        has = tuple((origin, *span) for origin, numbers in by_origin.items() for span in ranges(numbers))
        tail = tuple(self._order[number] for number in range(self.done + 1, self.top + 1) if number in self._order)
        # A host that is catching up was not told of what all have: it does not know the order.
        whole = len(tail) == self.top - self.done
        return Ballot(self.stamp[0], self.top, self.done, tail if whole else (), has)

    def _to(self, key: Key) -> int:
        """The destinations of a message; none of one that was forgotten, which only a forged token gives two numbers."""
        return self._messages[key][0] if key in self._messages else 0

    def _is_for(self, key: Key) -> bool:
        return bool(self._to(key) >> self._me & 1)

    def _drop(self, key: Key) -> None:
        self._messages.pop(key, None)
        self.stamps.pop(key, None)
        self.env.store(_name(key), None)

    def _store_state(self) -> None:
        self.env.store("state", (self.done, self.top, *self.stamp))


def _name(key: Key) -> str:
    return f"message/{key[0]}/{key[1]}"
