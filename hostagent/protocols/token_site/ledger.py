"""What one site has: messages without a number, messages with one, and how far they were delivered.

Numbers are given by the token site, from 1 and without gaps, to the messages of each source in the order of their sequence. A site may
know the number of a message that it lacks, and have messages whose number it does not know. `top` is the number up to which it has
everything, `delivered` the number up to which it has delivered, and up to `base` every host has everything, so it is forgotten.

Stable storage. Numbered messages are stored in chunks, before this site says to anybody that it has them and before it delivers them; so
each message is stored once. Messages without a number are not stored here: their source has them.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.protocols.token_site.messages import MOST_IN_RUN, MOST_RUNS

WINDOW: Final = 64
"""Messages in one request. They are sent in one go, which fills two thirds of the default queue of a link."""
MOST_AHEAD: Final = MOST_IN_RUN
"""Messages of one source that are kept beyond the last one with a number. A source sends fewer; after a gap it sends again."""

Run = tuple[str, int, int]
"""Messages of one source in a row: the source, the sequence of the first one, and how many there are."""
Entry = tuple[str, int, bytes | None]
"""Origin, sequence and payload of a numbered message; no payload if this site lacks it."""


class Ledger(Part):
    """The messages at one site. `on_deliver` is called with the origin and the sequence of each message that is delivered."""

    def __init__(self, env: Environment, on_deliver: Callable[[str, int], None]) -> None:
        super().__init__(env)
        self._on_deliver = on_deliver
        self.base = self.delivered = self.top = self.last = 0
        """`last` is the highest number known to be given."""
        self._stored = 0
        """Everything up to this number is on stable storage, or forgotten."""
        self._chunks: dict[int, int] = {}
        """First and last number of each chunk on stable storage, in ascending order."""
        self._entries: dict[int, Entry] = {}
        self._aside: dict[int, Entry] = {}
        """What had these numbers at this site before it took them back, on stable storage: others may know that all sites have it."""
        self._lacking: dict[tuple[str, int], int] = {}
        """The numbers of messages that this site lacks, by origin and sequence."""
        self._numbered: dict[str, int] = {}
        """The sequence of the last message of each source with a number up to `top`."""
        self._unnumbered: dict[str, dict[int, bytes]] = {}
        self._heard: dict[str, int] = {}
        """The highest sequence of each source that has arrived."""
        self._ready: dict[str, None] = {}
        """The sources whose next message to be numbered is here."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore what was stored."""
        self.base, self.delivered = stored.get("base", 0), stored.get("delivered", 0)
        chunks = {int(key.removeprefix("log/")): entries for key, entries in stored.items() if key.startswith("log/")}
        for first in sorted(chunks):
            self._chunks[first] = first + len(chunks[first]) - 1
            for number, (origin, sequence, payload) in enumerate(chunks[first], start=first):
                if number > self.base:
                    self._entries[number] = origin, sequence, payload
        self.top = self.last = self._stored = max(self._entries, default=self.base)
        self._aside = {number: (origin, sequence, payload) for number, origin, sequence, payload in stored.get("aside", ())}
        self._numbered = {key.removeprefix("of/"): value for key, value in stored.items() if key.startswith("of/")}
        assert self.base <= self.delivered <= self.top, (self.base, self.delivered, self.top)

    def numbered(self, origin: str) -> int:
        """The sequence of the last message of a source with a number up to `top`."""
        return self._numbered.get(origin, 0)

    @property
    def is_ready(self) -> bool:
        """Whether there is a message here that can be numbered."""
        return bool(self._ready)

    def offer(self, origin: str, sequence: int, payload: bytes) -> bool:
        """A message has come from its source; whether it was lacking or is new."""
        self._heard[origin] = max(sequence, self._heard.get(origin, 0))
        if (number := self._lacking.get((origin, sequence))) is not None:
            self._put(number, (origin, sequence, payload))
            self._rise()
            return True
        numbered, waiting = self._numbered.get(origin, 0), self._unnumbered.setdefault(origin, {})
        if not numbered < sequence <= numbered + MOST_AHEAD or sequence in waiting:
            return False
        waiting[sequence] = payload
        if sequence == numbered + 1:
            self._ready[origin] = None
        return True

    def number_messages(self, most: int) -> tuple[Run, ...]:
        """Number what can be numbered, up to so many messages, and say which those are. Sources take turns to be the first."""
        if self.top < self.last:
            # There is a second token, as a host has lost its storage and made one: do not give numbers twice.
            return ()
        runs: list[Run] = []
        for origin in list(islice(self._ready, MOST_RUNS)):
            first, waiting, count = self._numbered.get(origin, 0) + 1, self._unnumbered[origin], 0
            while count < min(most, MOST_IN_RUN) and first + count in waiting:
                count += 1
            if not count:
                break
            runs.append((origin, first, count))
            most -= count
        before = self.last + 1
        for origin, _, _ in runs:
            # A source that has more is the last next time.
            del self._ready[origin]
        self.register(before, runs)
        assert self.top == self.last, "only messages that are here get a number"
        return tuple(runs)

    def register(self, first: int, runs: Iterable[Run]) -> None:
        """Note the numbers that the token site gave to messages, from `first` on."""
        number = first
        for origin, sequence, count in runs:
            waiting = self._unnumbered.get(origin, {})
            for offset in range(count):
                if number + offset > self.top and number + offset not in self._entries:
                    self._put(number + offset, (origin, sequence + offset, waiting.pop(sequence + offset, None)))
            number += count
        self.last = max(self.last, number - 1)
        self._rise()

    def supply(self, number: int, origin: str, sequence: int, payload: bytes) -> bool:
        """A numbered message came from another site; whether it was lacking."""
        if number <= self.top or self._entries.get(number, ("", 0, None))[2] is not None:
            return False
        self._unnumbered.get(origin, {}).pop(sequence, None)
        self._put(number, (origin, sequence, payload))
        self.last = max(self.last, number)
        self._rise()
        return True

    def entry(self, number: int) -> tuple[str, int, bytes] | None:
        """A numbered message that this site has, also one beyond a gap."""
        origin, sequence, payload = self._entries.get(number, ("", 0, None))
        return None if payload is None else (origin, sequence, payload)

    def missing(self, last: int) -> list[int]:
        """The lowest numbers up to `last` that this site lacks, at most a window."""
        lacking = (number for number in range(self.top + 1, last + 1) if self.entry(number) is None)
        return list(islice(lacking, WINDOW))

    def origin_of(self, number: int) -> str:
        """The source of a message; empty if it is not known here which one has this number."""
        return self._entries[number][0] if number in self._entries else ""

    def is_overtaken(self, number: int) -> bool:
        """Whether a later message of its source has come than the one with this number, which is known."""
        origin, sequence, _ = self._entries[number]
        return sequence < self._heard.get(origin, 0)

    def store(self) -> None:
        """Put everything up to `top` on stable storage."""
        if self.top <= self._stored:
            return
        first = self._stored + 1
        entries = [self._entries[number] for number in range(first, self.top + 1)]
        self.env.store(f"log/{first}", entries)
        self._chunks[first] = self.top
        for origin, sequence in {origin: sequence for origin, sequence, _ in entries}.items():
            self.env.store(f"of/{origin}", sequence)
        self._stored = self.top

    def deliver(self, committed: int) -> None:
        """Deliver what this site has, up to a number."""
        if min(committed, self.top) <= self.delivered:
            return
        self.store()
        while self.delivered < min(committed, self.top):
            self.delivered += 1
            origin, sequence, payload = self._entries[self.delivered]
            assert payload is not None, self.delivered
            self.env.deliver(origin, sequence, payload, ordinal=self.delivered)
            self._on_deliver(origin, sequence)
        self.env.store("delivered", self.delivered)

    def forget(self, base: int) -> None:
        """Every host has everything up to a number, and this one has delivered it."""
        assert base <= self.delivered, (base, self.delivered)
        if base <= self.base:
            return
        for number in range(self.base + 1, base + 1):
            self._entries.pop(number, None)
        for first in [first for first, last in self._chunks.items() if last <= base]:
            del self._chunks[first]
            self.env.store(f"log/{first}", None)
        self.base = base
        self.env.store("base", base)

    def cut_after(self, number: int) -> None:
        """Take back all numbers after this one: another list has given them to other messages. What came with them has no number again."""
        assert number >= self.delivered, "what was delivered cannot be taken back"
        if number > self.top:
            self._take_up_to(number)
        if number > self.top:
            self._skip_to(number)
            return
        for later in [later for later in self._entries if later > number]:
            origin, sequence, payload = self._entries.pop(later)
            self._lacking.pop((origin, sequence), None)
            if payload is not None:
                self._unnumbered.setdefault(origin, {})[sequence] = payload
            if later <= self.top:
                self._numbered[origin] = min(self._numbered[origin], sequence - 1)
            if later <= self._stored:
                self.env.store(f"of/{origin}", self._numbered[origin])
        for first in [first for first, last in self._chunks.items() if last > number]:
            del self._chunks[first]
            self.env.store(f"log/{first}", None)
            # The first messages of the chunk may be forgotten.
            start = max(first, self.base + 1)
            if kept := [self._entries[each] for each in range(start, number + 1)]:
                self._chunks[start] = number
                self.env.store(f"log/{start}", kept)
        self.top, self.last, self._stored = min(self.top, number), min(self.last, number), min(self._stored, number)
        for origin in self._unnumbered:
            self._look_at(origin)

    def set_aside_after(self, number: int) -> None:
        """Take back all numbers after this one, as another list may have given them otherwise. What turns out to be everywhere is kept."""
        for later in range(number + 1, self._stored + 1):
            self._aside.setdefault(later, self._entries[later])
        self._store_aside()
        self.cut_after(number)

    def drop_aside(self) -> None:
        """This site has what a list has, so it needs nothing of what it had before."""
        if self._aside:
            self._aside = {}
            self._store_aside()

    def _store_aside(self) -> None:
        self.env.store("aside", [(number, *entry) for number, entry in self._aside.items()] or None)

    def _take_up_to(self, number: int) -> None:
        """All sites have had everything up to a number, this one too before it set it aside."""
        while self.top < number and self.top + 1 in self._aside:
            self._put(self.top + 1, self._aside[self.top + 1])
            self.last = max(self.last, self.top + 1)
            self._rise()

    def _skip_to(self, number: int) -> None:
        """Everybody else has forgotten what this host lacks, so it has lost its storage: go on with what comes after."""
        for key in [*(f"log/{first}" for first in self._chunks), *(f"of/{origin}" for origin in self._numbered)]:
            self.env.store(key, None)
        self._chunks, self._entries, self._lacking, self._numbered = {}, {}, {}, {}
        self.base = self.delivered = self.top = self.last = self._stored = number
        self.env.store("base", number)
        self.env.store("delivered", number)

    def _put(self, number: int, entry: Entry) -> None:
        origin, sequence, payload = entry
        self._entries[number] = entry
        if payload is None:
            self._lacking[origin, sequence] = number
        else:
            self._lacking.pop((origin, sequence), None)

    def _look_at(self, origin: str) -> None:
        """Note whether the next message of a source that can be numbered is here."""
        if self._numbered.get(origin, 0) + 1 not in self._unnumbered.get(origin, {}):
            self._ready.pop(origin, None)
        else:
            self._ready[origin] = None

    def _rise(self) -> None:
        """Move `top` up to the next message that is lacking."""
        passed: dict[str, None] = {}
        while (entry := self._entries.get(self.top + 1)) is not None and entry[2] is not None:
            self.top += 1
            origin, sequence, _ = entry
            self._numbered[origin] = sequence
            if waiting := self._unnumbered.get(origin):
                waiting.pop(sequence, None)
            passed[origin] = None
        for origin in passed:
            self._look_at(origin)
