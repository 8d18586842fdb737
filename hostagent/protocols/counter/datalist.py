"""The paper's DataList: the messages that a host has, the entries that it has seen in the token, and what it has committed.

An entry is *open* from when it is seen in the token until it is committed here. Then it is kept, with its messages, until every host that
it concerns has committed it: a host that was out of the list for a while gets it from those that were in it. A new generation of the token
names everything that any host still has to commit, so open entries of former generations are forgotten.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.parts.tokens.places import places
from hostagent.protocols.counter.state import CERTAIN, Entry, TokenState


class Open:
    """An entry that is not committed here yet, and those of its messages that this host needs and lacks."""

    def __init__(self, entry: Entry, missing: set[int]) -> None:
        self.entry = entry
        self.missing = missing


class DataList(Part):
    """What one host has. `want` is called with the messages of a host that turn out to be missing, `found` with one that no longer is."""

    want: Callable[[str, Sequence[int]], None]
    found: Callable[[str, int], None]

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._me = env.hosts.index(env.host)
        self._payloads: dict[str, dict[int, bytes]] = {}
        self._settled: dict[str, int] = {}
        """Up to which number the messages of each host were forgotten here, as all have them."""
        self._open: dict[int, Open] = {}
        self._lacking: dict[tuple[str, int], Open] = {}
        self._committed: dict[int, Entry] = {}
        self.done = 0
        """Everything up to this position is committed here."""
        self.own_done = 0
        """The last message of this host that is committed here."""
        self._kept = 0

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore messages and committed entries."""
        self.done, self.own_done = stored.get("done", (0, 0))
        for key, value in stored.items():
            match key.split("/"):
                case ["message", origin, number]:
                    self._payloads.setdefault(origin, {})[int(number)] = value
                    self._kept += 1
                case ["settled", origin]:
                    self._settled[origin] = value
                case ["committed", position]:
                    self._committed[int(position)] = msgspec.convert(value, Entry)

    @property
    def undone(self) -> int:
        """How many messages this host keeps or lacks."""
        return self._kept + len(self._lacking)

    @property
    def is_lacking(self) -> bool:
        """Whether this host lacks a message that the token names."""
        return bool(self._lacking)

    def find(self, origin: str, number: int) -> bytes | None:
        """The payload of a message, if this host has it."""
        return self._payloads.get(origin, {}).get(number)

    def keep(self, origin: str, number: int, payload: bytes) -> bool:
        """Keep a message on stable storage, and say whether it is new."""
        lacking = self._lacking.pop((origin, number), None)
        payloads = self._payloads.setdefault(origin, {})
        if number in payloads or (number <= self._settled.get(origin, 0) and lacking is None):
            return False
        payloads[number] = payload
        self._kept += 1
        self.env.store(f"message/{origin}/{number}", payload)
        if lacking is not None:
            lacking.missing.discard(number)
        return True

    def begin(self) -> None:
        """Forget open entries, as there is a new generation of the token."""
        self._open, self._lacking = {}, {}

    def learn(self, state: TokenState) -> None:
        """Take in the entries of a token, and see what this host lacks."""
        for entry in state.entries:
            known = self._open.get(entry.position)
            if known is not None:
                known.entry = entry
                continue
            origin = self.env.hosts[entry.origin]
            has = self._payloads.get(origin, {})
            needed = () if self._is_settled(entry, state) else entry.messages(self._needs(entry, state.members))
            missing = [number for number in needed if number not in has]
            known = self._open[entry.position] = Open(entry, set(missing))
            self._lacking |= dict.fromkeys(((origin, number) for number in missing), known)
            self.want(origin, missing)

    def counted(self, entry: Entry) -> Entry:
        """The entry, with this host counted in if it has every message that it needs."""
        known = self._open.get(entry.position)
        if known is None or known.missing:
            return entry
        return msgspec.structs.replace(entry, have=entry.have | 1 << self._me)

    def commit(self, frontier: int) -> None:
        """Deliver every message up to a position, in the order of positions; the last one is marked as committed."""
        due = sorted(position for position in self._open if position <= frontier)
        last, changed = None, False
        for position in due:
            known = self._open[position]
            if known.missing and position > self.done:
                return  # A forged token: no other one says that everybody has what is missing here.
            if known.missing:
                self._give_up(position)
                continue
            last = (self._deliver(known.entry) if position > self.done else None) or last
            del self._open[position]
            self._committed[position] = known.entry
            self.env.store(f"committed/{position}", known.entry)
            self.done, changed = max(position, self.done), True
        self.done = max(self.done, frontier)
        if changed:
            self.env.store("done", (self.done, self.own_done))
        if last is not None:
            self.env.commit(*last)

    def _give_up(self, position: int) -> None:
        """This host committed and forgot an entry, then crashed, and an old token has named it again."""
        known = self._open.pop(position)
        origin = self.env.hosts[known.entry.origin]
        for number in sorted(known.missing):
            self._lacking.pop((origin, number), None)
            self.found(origin, number)

    def forget(self, state: TokenState) -> None:
        """Forget the entries that every host which they concern has committed, with their messages."""
        slowest = min(position for place, position in enumerate(state.done) if state.members >> place & 1)
        for position, entry in list(self._committed.items()):
            if position > slowest or not self._is_settled(entry, state):
                continue
            del self._committed[position]
            self.env.store(f"committed/{position}", None)
            self._settle(entry)

    def ballot(self, state: TokenState) -> tuple[tuple[tuple[Entry, bool], ...], tuple[tuple[Entry, bool], ...]]:
        """Committed and open entries, each with whether this host has all of its messages; of open ones it also says if it has its own.

        A host that is not in the list has no open entries, and may have messages of those that the token names.
        """
        uncommitted = {entry.position: entry for entry in state.entries if entry.position not in self._committed}
        uncommitted |= {position: known.entry for position, known in self._open.items()}
        committed = tuple((entry, self._has(entry, -1)) for entry in self._committed.values())
        return committed, tuple((self._owned(entry), self._has(entry, -1)) for entry in uncommitted.values())

    def holders(self, origin: str, number: int, members: int) -> list[str]:
        """Whom to ask for a message: of the members first the origin, then those that have counted themselves in, then all others."""
        known, hosts = self._lacking.get((origin, number)), self.env.hosts
        has = next((ids & known.entry.have for ids, numbers in _runs(known.entry) if number in numbers), 0) if known else 0
        asked = (*places(members & 1 << hosts.index(origin), hosts), *places(members & has, hosts), *places(members, hosts))
        return [host for host in dict.fromkeys(asked) if host != self.env.host]

    def _needs(self, entry: Entry, members: int) -> int:
        """Whose messages of an entry this host needs: its own, or all (-1) if a destination that may lack some is not in the list."""
        return -1 if entry.to_any & ~members and not entry.have & CERTAIN else self._me

    @staticmethod
    def _is_settled(entry: Entry, state: TokenState) -> bool:
        """Whether every host that an entry concerns has committed it."""
        return all(done >= entry.position for place, done in enumerate(state.done) if entry.interested >> place & 1)

    def _owned(self, entry: Entry) -> Entry:
        """The entry, with this host counted in if it has its own messages."""
        return msgspec.structs.replace(entry, have=entry.have | self._has(entry, self._me) << self._me)

    def _has(self, entry: Entry, host: int) -> bool:
        """Whether this host has the messages of an entry for a host; all of them for host -1."""
        has = self._payloads.get(self.env.hosts[entry.origin], {})
        return all(number in has for number in entry.messages(host))

    def _deliver(self, entry: Entry) -> tuple[str, int] | None:
        """Hand the messages of an entry that are for this host to the application. Returns the last one."""
        origin, last = self.env.hosts[entry.origin], None
        if entry.origin == self._me:
            self.own_done = max(self.own_done, entry.last)
        payloads = self._payloads.get(origin, {})
        for number in entry.messages(self._me):
            # Only a forged token names a message that was forgotten.
            if (payload := payloads.get(number)) is not None:
                self.env.deliver(origin, number, payload)
                last = origin, number
        return last

    def _settle(self, entry: Entry) -> None:
        origin = self.env.hosts[entry.origin]
        payloads = self._payloads.get(origin, {})
        for number in range(entry.first, entry.last + 1):
            if payloads.pop(number, None) is not None:
                self._kept -= 1
                self.env.store(f"message/{origin}/{number}", None)
        if not payloads:
            self._payloads.pop(origin, None)
        if entry.last > self._settled.get(origin, 0):
            self._settled[origin] = entry.last
            self.env.store(f"settled/{origin}", entry.last)


def _runs(entry: Entry) -> Iterable[tuple[int, range]]:
    number = entry.first
    for count, ids in entry.runs:
        yield ids, range(number, number + count)
        number += count
