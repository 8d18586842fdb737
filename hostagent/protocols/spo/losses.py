"""What an entity of SPO lacks and whom it asks: the two loss conditions and the requests (section 3.4 of the paper)."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.spo.messages import Pdu, Request
from hostagent.protocols.spo.receipts import Receipts

# The wait for PDUs that were asked for doubles no more often: everybody waits for the one that lacks them.
MOST_DOUBLINGS: Final = 3
# Requests at a time for the gaps of one sender.
MOST_REQUESTS: Final = 8


class Asked(NamedTuple):
    """Up to which PSEQ an entity was asked for PDUs, how often in a row the first of them did not come in time, and that one."""

    up_to: int
    repetition: int
    first: int


class Losses(Part):
    """LC1 and LC2. Entities are named by their places in the static order."""

    def __init__(
        self, env: Environment, receipts: Callable[[], Receipts], lc2: Literal["wait", "at-once"], wait_s: float, longest_s: float
    ) -> None:
        super().__init__(env)
        self._get_receipts = receipts
        self._lc2, self._wait_s = lc2, wait_s
        self.trips = RoundTrips(longest_s, longest_s / 20)
        """From a question to its answer, also of questions that others ask."""
        self._asked: dict[int, Asked] = {}
        """The entities that were asked for PDUs; the timer of each is set."""
        self._suspected: dict[int, None] = {}
        """LC2: the entities of which this one may lack a PDU, while it waits for the next."""

    @property
    def _receipts(self) -> Receipts:
        return self._get_receipts()

    def arrived(self, place: int, pdu: Pdu) -> None:
        """A PDU has come, perhaps one that was asked for."""
        if place in self._asked and pdu.pseq[self._receipts.me] <= self._asked[place].up_to:
            self.trips.answered(self.env.hosts[place], self.env.now())

    def look(self) -> None:
        """LC1 and LC2, for all that was not asked for yet."""
        for place, log in enumerate(self._receipts.logs):
            if place == self._receipts.me:
                continue
            asked = self._asked.get(place)
            if asked and self._has_come(place, asked):
                asked = None
                self._forget(place)
            if log.heard_pseq > max(log.preq, asked.up_to + 1 if asked else 0):
                self._ask(place)
            elif asked is None and place not in self._suspected and log.heard_tseq > log.treq and not log.early:
                if self._lc2 == "at-once":
                    self._ask(place)
                else:
                    self._suspected[place] = None
                    self.env.set_timer(f"wait/{place}", self._wait_s)

    def on_timer(self, name: str) -> None:
        """LC2's wait is over, or PDUs that were asked for have not come."""
        kind, _, number = name.partition("/")
        place = int(number)
        if kind == "ask":
            self._ask_again(place)
        else:
            del self._suspected[place]
            if place not in self._asked:
                self._ask(place)
        self.look()

    def _has_come(self, place: int, asked: Asked) -> bool:
        """Whether all that an entity was asked for is here."""
        if not asked.up_to:
            log = self._receipts.logs[place]
            return log.heard_tseq <= log.treq
        first = next(self._receipts.gaps(place), None)
        return first is None or first[0] > asked.up_to

    def _forget(self, place: int) -> None:
        del self._asked[place]
        self.env.cancel_timer(f"ask/{place}")
        self.trips.forget(self.env.hosts[place])

    def _ask(self, place: int, repetition: int = 0) -> None:
        """Ask for what is missing of an entity and was not asked for since its timer was set."""
        log, host, before = self._receipts.logs[place], self.env.hosts[place], self._asked.get(place, Asked(0, repetition, 0))
        every = list(self._receipts.gaps(place))
        gaps = [gap for gap in every if gap[1] > before.up_to][:MOST_REQUESTS]
        if not gaps and place not in self._asked and log.heard_tseq > log.treq and not log.early:
            every = gaps = [(log.preq, 0)]
        if not gaps:
            return
        for first, last in gaps:
            self.env.send(host, Request(EVERYBODY, host, 0, max(first, before.up_to + 1), last), Purpose.CONTROL)
            self.env.trace("asked", source=host, first=first, last=last)
        if place not in self._asked:
            self.env.set_timer(f"ask/{place}", self.trips.wait_s(host, min(repetition, MOST_DOUBLINGS)))
            if not repetition:
                self.trips.asked(host, self.env.now())
        self._asked[place] = Asked(max(before.up_to, gaps[-1][1]), before.repetition, every[0][0])

    def _ask_again(self, place: int) -> None:
        """Ask once more for what has not come; soon again if the first of it has come."""
        self.trips.forget(self.env.hosts[place])
        before = self._asked.pop(place)
        first, _ = next(self._receipts.gaps(place), (before.first, 0))
        self._ask(place, before.repetition + 1 if first == before.first else 0)
