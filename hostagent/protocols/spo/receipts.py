"""What one entity has received: the receipt logs of SPO and the vectors that decide how far each PDU has come (section 3 of the paper)."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any, NamedTuple

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.protocols.spo.messages import Pdu, Status


class Logged(NamedTuple):
    """A PDU in a receipt log, with the places of its destinations in the static order of hosts."""

    pdu: Pdu
    places: tuple[int, ...]


class Sublog:
    """RL_ij: what this entity has of another entity, or of itself."""

    def __init__(self) -> None:
        self.treq = self.preq = 1
        """TREQ and PREQ: the total and the partial number that are expected next."""
        self.early: dict[int, Pdu] = {}
        """What arrived and cannot be accepted yet, by TSEQ."""
        self.order: list[int] = []
        """The numbers of those, as a heap."""
        self.accepted: deque[Logged] = deque()
        """RRL."""
        self.pre_acknowledged: deque[Logged] = deque()
        """PRL. What is acknowledged (ARL) has been delivered, and is not kept."""
        self.heard_tseq = self.heard_pseq = 1
        """The highest next numbers that anybody, or the entity itself, is known to have stated."""


class Receipts(Part):
    """The receipt logs of one entity, AL, PAL and BUF. Entities are named by their places in the static order."""

    def __init__(self, env: Environment, buffers: int) -> None:
        super().__init__(env)
        size = len(env.hosts)
        self.me = env.hosts.index(env.host)
        self.logs = [Sublog() for _ in env.hosts]
        self.al = [[1] * size for _ in env.hosts]
        """AL_jk: what entity k is known to expect from entity j next."""
        self.pal = [[1] * size for _ in env.hosts]
        """PAL_jk: what of entity j is known to be acknowledged by k so that all that need the acknowledgement have it."""
        self._free = [buffers] * size
        """BUF_j, for all but this entity."""
        self._buffers = buffers
        self.held = 0
        """Messages of the application that take a buffer here."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the logs. All PDUs in them count as accepted: that they were pre-acknowledged is soon known again."""
        for key in sorted(stored, key=_in_order):
            match key.split("/"):
                case ["from", place]:
                    log = self.logs[int(place)]
                    log.treq, log.preq = log.heard_tseq, log.heard_pseq = stored[key]
                    self.al[int(place)][self.me] = log.treq
                case ["pal", place]:
                    for about, number in enumerate(stored[key]):
                        self.pal[about][int(place)] = number
                case ["pdu", place, _]:
                    pdu = msgspec.convert(stored[key], Pdu)
                    self.logs[int(place)].accepted.append(Logged(pdu, self.places(pdu)))
                    self.held += bool(pdu.sequence)

    def places(self, pdu: Pdu) -> tuple[int, ...]:
        """The places of the destinations of a PDU."""
        return _places(pdu.destinations)

    def expected(self) -> tuple[int, ...]:
        """ACK: what this entity expects next from each entity."""
        return tuple(log.treq for log in self.logs)

    @property
    def left(self) -> int:
        """The buffers that this entity has left."""
        return max(self._buffers - self.held, 0)

    @property
    def fullest(self) -> tuple[int, int]:
        """minBUF, and the entity that has the fewest buffers left, this one included."""
        self._free[self.me] = self.left
        return min((free, place) for place, free in enumerate(self._free))

    def put(self, place: int, pdu: Pdu) -> bool:
        """Keep a PDU that has arrived, unless it is old, or there is no buffer for it and others must come first."""
        log = self.logs[place]
        if pdu.tseq < log.treq or pdu.tseq in log.early:
            return False
        if pdu.sequence and not self.left and pdu.pseq[self.me] > log.preq:
            self.env.trace("buffers-full", (pdu.origin, pdu.sequence))
            return False
        log.early[pdu.tseq] = pdu
        heappush(log.order, pdu.tseq)
        self.held += bool(pdu.sequence)
        return True

    def hear(self, place: int, stated: Pdu | Status) -> None:
        """Learn from a PDU, accepted or not, or from a status which numbers there are."""
        log = self.logs[place]
        mine = isinstance(stated, Pdu) and self.me in self.places(stated)
        log.heard_pseq = max(log.heard_pseq, stated.pseq[self.me] + mine)
        for about, number in enumerate(stated.ack):
            self.logs[about].heard_tseq = max(self.logs[about].heard_tseq, number)

    def learn(self, place: int, stated: Pdu | Status) -> None:
        """Take over what an entity expects next from each entity, and its buffers."""
        for about, number in enumerate(stated.ack):
            self.al[about][place] = max(self.al[about][place], number)
        self._free[place] = stated.buffers

    def skip(self, place: int, status: Status) -> None:
        """If nothing for this entity is missing, the PDUs up to the next one of this sender are not for it."""
        log = self.logs[place]
        if status.pseq[self.me] == log.preq and status.tseq > log.treq:
            self._expect(place, status.tseq, log.preq)

    def accept(self) -> Iterator[tuple[int, Pdu]]:
        """The accept procedure, as often as it finds something; with the place of the sender of each PDU."""
        found = True
        while found:
            found = False
            for place, log in enumerate(self.logs):
                while (pdu := self._first_early(log)) is not None:
                    if pdu.pseq[self.me] == log.preq and pdu.tseq > log.treq:
                        self._expect(place, pdu.tseq, log.preq)
                        found = True
                    if not self._is_acceptable(place, log, pdu):
                        break
                    heappop(log.order)
                    del log.early[pdu.tseq]
                    self._take(place, pdu)
                    found = True
                    yield place, pdu

    def _first_early(self, log: Sublog) -> Pdu | None:
        while log.order and log.order[0] < log.treq:
            old = log.early.pop(heappop(log.order))
            self.held -= bool(old.sequence)
        return log.early[log.order[0]] if log.order else None

    def _is_acceptable(self, place: int, log: Sublog, pdu: Pdu) -> bool:
        if pdu.tseq != log.treq:
            return False
        return all(number <= self.logs[about].treq for about, number in enumerate(pdu.ack) if about != place)

    def take_own(self, pdu: Pdu) -> None:
        """Accept a PDU that this entity sends."""
        self.held += bool(pdu.sequence)
        self._take(self.me, pdu)

    def _take(self, place: int, pdu: Pdu) -> None:
        self.learn(place, pdu)
        places = self.places(pdu)
        mine = self.me in places
        self._expect(place, pdu.tseq + 1, pdu.pseq[self.me] + mine)
        if mine and pdu.asks:
            self.logs[place].accepted.append(Logged(pdu, places))
            self.env.store(f"pdu/{place}/{pdu.tseq}", pdu)
            if pdu.sequence:
                self.env.receive(pdu.origin, pdu.sequence)
        else:
            self.held -= bool(pdu.sequence)

    def _expect(self, place: int, treq: int, preq: int) -> None:
        log = self.logs[place]
        log.treq, log.preq = treq, preq
        log.heard_tseq, log.heard_pseq = max(treq, log.heard_tseq), max(preq, log.heard_pseq)
        self.al[place][self.me] = treq
        self.env.store(f"from/{place}", (treq, preq))

    def pre_acknowledge(self) -> None:
        """The pre-acknowledgement procedure. An empty PDU has done its work then, and is not kept."""
        for place, log in enumerate(self.logs):
            known = self.al[place]
            while log.accepted and _is_above(known, log.accepted[0]):
                logged = log.accepted.popleft()
                pdu = logged.pdu
                if pdu.answers:
                    self._note_answers(place, pdu.ack)
                if pdu.sequence:
                    log.pre_acknowledged.append(logged)
                    self.env.trace("pre-acknowledged", (pdu.origin, pdu.sequence))
                else:
                    self.env.store(f"pdu/{place}/{pdu.tseq}", None)

    def _note_answers(self, place: int, ack: Sequence[int]) -> None:
        for about, number in enumerate(ack):
            self.pal[about][place] = max(self.pal[about][place], number)
        self.env.store(f"pal/{place}", [self.pal[about][place] for about in range(len(self.pal))])

    def acknowledge(self) -> Iterator[Pdu]:
        """The acknowledgement procedure: what is to be delivered now."""
        for place, log in enumerate(self.logs):
            known = self.pal[place]
            while log.pre_acknowledged and _is_above(known, log.pre_acknowledged[0]):
                pdu = log.pre_acknowledged.popleft().pdu
                self.env.store(f"pdu/{place}/{pdu.tseq}", None)
                self.held -= 1
                yield pdu

    def awaited(self) -> dict[int, tuple[int, int, str]]:
        """For each entity that PDUs in the logs wait for: whose PDU waits, its TSEQ, and for what."""
        found: dict[int, tuple[int, int, str]] = {}
        for place, log in enumerate(self.logs):
            for known, entries, phase in ((self.al, log.accepted, "al"), (self.pal, log.pre_acknowledged, "pal")):
                if entries:
                    pdu, places = entries[0]
                    for other in places:
                        if other != self.me and known[place][other] <= pdu.tseq:
                            found.setdefault(other, (place, pdu.tseq, phase))
        return found

    def gaps(self, place: int) -> Iterator[tuple[int, int]]:
        """LC1: the ranges of PSEQ of an entity that are known to be for this one and have not arrived."""
        log = self.logs[place]
        has = sorted(pdu.pseq[self.me] for pdu in log.early.values() if self.me in self.places(pdu))
        first = log.preq
        for number in (*has, log.heard_pseq):
            if number > first:
                yield first, number - 1
            first = max(first, number + 1)


@lru_cache(maxsize=1024)
def _places(destinations: bytes) -> tuple[int, ...]:
    bits = int.from_bytes(destinations)
    return tuple(place for place in range(bits.bit_length()) if bits >> place & 1)


def _is_above(known: list[int], logged: Logged) -> bool:
    tseq = logged.pdu.tseq
    return all(known[place] > tseq for place in logged.places)


def _in_order(key: str) -> tuple[str, ...]:
    """PDUs of one sender by number."""
    return tuple(part.zfill(12) if part.isdigit() else part for part in key.split("/"))
