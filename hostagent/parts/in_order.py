"""Streams of numbered items from other hosts, put into order at their receiver, who asks for what is missing.

A sender numbers its items 1, 2, 3, ... and may send each of them any number of times. The receiver hands them on in the order of numbers,
each once, also across restarts: it stores the number of the last item that it handed on. An item that comes too early waits.

When an item or a sign of life of the sender shows that earlier items are missing, the receiver sends a `Request` for them. A request names
at most `WINDOW` items; the next request follows when those have arrived. One that is not answered in time is repeated, three times; after
that the receiver waits for the next item or sign of life, so that nobody is asked for ever who has died. How long an answer may take
follows the round trips that were seen (`hostagent.parts.round_trips`).
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose, Ranges
from hostagent.parts.round_trips import RoundTrips
from hostagent.parts.sequences import SequenceSet

WINDOW: Final = 64
"""Items in one request. The sender answers it in one go, which fills two thirds of the default queue of a link."""
REPETITIONS: Final = 3

OnItem = Callable[[str, int, Any], None]
"""Called with the sender, the number and the item."""


class Null(Message, frozen=True):
    """A sign of life of the origin of a stream; `sequence` is the number of its last item."""


class Request(Message, frozen=True):
    """The receiver of this message is the origin of a stream, and its sender lacks these items."""

    missing: Ranges


class InOrder(Part):
    """The streams of all other hosts at their receiver. `wait_ms` is how long an answer may take at most; None to ask for nothing.

    If `insists`, every item that comes out of order is a reason to ask again, as in the third paper; otherwise one request at a time is
    under way, which costs less and takes longer when it is lost.
    """

    def __init__(self, env: Environment, on_item: OnItem, wait_ms: float | None, *, insists: bool = False) -> None:
        super().__init__(env)
        self._insists = insists
        self._on_item = on_item
        self._wait_ms = wait_ms
        self._last: dict[str, int] = {}
        self._waiting: dict[str, dict[int, Any]] = {}
        self._heard: dict[str, int] = {}
        """The highest number that each sender is known to have used."""
        self._asked: dict[str, tuple[int, int]] = {}
        """For each sender that was asked: the highest number in the request, and how often the request may still be repeated."""
        self._trips = RoundTrips((wait_ms or 0.0) / 1000)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the number of the last item of each sender."""
        self._last |= stored

    def last(self, sender: str) -> int:
        """The number of the last item of a sender that was handed on or given up."""
        return self._last.get(sender, 0)

    def has(self, sender: str, number: int) -> bool:
        """Whether an item has arrived, or was given up."""
        return number <= self.last(sender) or number in self._waiting.get(sender, ())

    def keep(self, sender: str, number: int, item: Any) -> None:
        """Keep an item that has arrived, without handing anything on."""
        if not self.has(sender, number):
            self._waiting.setdefault(sender, {})[number] = item

    def take(self, sender: str, number: int, item: Any) -> None:
        """An item has arrived: hand on what is in order now, and ask for what is missing before the item."""
        if sender in self._asked and number <= self._asked[sender][0] and not self.has(sender, number):
            self._trips.answered(sender, self.env.now())
        self.keep(sender, number, item)
        self._hand_on(sender)
        # What was asked for is no news of the sender.
        self.hear(sender, number, insists=self._insists and number > self._heard.get(sender, 0))

    def give_up_before(self, sender: str, number: int) -> None:
        """Go on with this item, whatever is missing before it."""
        self._last[sender] = max(number - 1, self.last(sender))
        self.env.store(sender, self._last[sender])
        waiting = self._waiting.get(sender, {})
        for early in [early for early in waiting if early < number]:
            del waiting[early]

    def hear(self, sender: str, number: int, *, insists: bool = True) -> None:
        """A sender has used this number: ask for what is missing up to it.

        Unless the host insists, a request that is under way is given time to be answered.
        """
        self._heard[sender] = max(number, self._heard.get(sender, 0))
        if sender in self._asked and (insists or self.last(sender) >= self._asked[sender][0]):
            del self._asked[sender]
            self._trips.forget(sender)
            self.env.cancel_timer(sender)
        if sender not in self._asked:
            self._ask(sender, REPETITIONS)

    def on_timer(self, name: str) -> None:
        """A request was not answered in time: repeat it."""
        if name not in self._asked:
            super().on_timer(name)
        _, left = self._asked.pop(name)
        self._trips.forget(name)
        if left:
            self._ask(name, left - 1)

    def _hand_on(self, sender: str) -> None:
        waiting, before = self._waiting.get(sender, {}), self.last(sender)
        number = before
        while number + 1 in waiting:
            number += 1
            self._last[sender] = number
            self._on_item(sender, number, waiting.pop(number))
        if not waiting:
            self._waiting.pop(sender, None)
        if number != before:
            self.env.store(sender, number)

    def _ask(self, sender: str, left: int) -> None:
        if self._wait_ms is None or not (missing := self._missing(sender)):
            return
        self._asked[sender] = missing[-1], left
        if left == REPETITIONS:
            self._trips.asked(sender, self.env.now())
        self.env.send(sender, Request(EVERYBODY, sender, missing[-1], ranges(missing)), Purpose.CONTROL)
        self.env.set_timer(sender, self._trips.wait_s(sender, REPETITIONS - left))

    def _missing(self, sender: str) -> list[int]:
        """The first numbers of a sender that are missing."""
        waiting = self._waiting.get(sender, {})
        numbers = range(self.last(sender) + 1, self._heard.get(sender, 0) + 1)
        return list(islice((number for number in numbers if number not in waiting), WINDOW))


def ranges(numbers: list[int]) -> Ranges:
    """Ascending numbers as ranges."""
    found = SequenceSet(0, ((number, number) for number in numbers))
    return (*(((1, found.prefix),) if found.prefix else ()), *found.beyond)


def asked_for(request: Request, last: int) -> Iterator[int]:
    """The numbers that a request asks for, of a sender whose last item has the number `last`."""
    numbers = (number for first, end in request.missing for number in range(first, min(end, last) + 1))
    return islice(numbers, WINDOW)
