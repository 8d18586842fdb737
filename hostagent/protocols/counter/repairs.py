"""Requests for messages that the token names and this host lacks, and the answers.

A request (the paper's Req) names up to `WINDOW` messages of one origin, and has a number. It is sent to the origin; when no answer comes in
time, it is repeated with the next number, to a host that has counted itself in. The paper broadcasts requests and the messages that answer
them. Here both go to one host each: on a network without multicast anything else would cost n - 1 packets, and the paper counts one. What
the token names meanwhile is asked for at once, with all that is still missing: a repetition may be many cycles away.

A host answers each number once, if it is one of the last `REMEMBERED` of its sender. Numbers begin at random, so that a host that restarts
does not use old ones.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.parts.in_order import ranges
from hostagent.parts.round_trips import FIRST_WAIT_S, RoundTrips
from hostagent.protocols.counter.messages import Msg, Req

WINDOW: Final = 64
"""Messages in one request. The answer comes in one go, and fills two thirds of the default queue of a link."""
REMEMBERED: Final = 8
"""Requests of each host: the network may duplicate one that was overtaken by others."""


class Repairs(Part):
    """What one host lacks. `holders` gives the hosts that have a message, and `find` the payload of a message that this host has."""

    messages = (Req,)

    def __init__(
        self,
        env: Environment,
        longest_s: float,
        *,
        holders: Callable[[str, int], Sequence[str]],
        find: Callable[[str, int], bytes | None],
    ) -> None:
        super().__init__(env)
        self._holders = holders
        self._find = find
        self._trips = RoundTrips(longest_s, first_s=min(FIRST_WAIT_S, longest_s))
        self._missing: dict[str, dict[int, None]] = {}
        self._asked: dict[str, tuple[int, int, str]] = {}
        """By origin: the last message in the request, how often it was repeated, and who was asked."""
        self._number = env.random.randrange(1 << 24)
        self._answered: dict[str, deque[int]] = {}
        """The numbers of the last requests of each host."""

    def want(self, origin: str, numbers: Sequence[int]) -> None:
        """The token names messages that this host lacks."""
        if numbers:
            self._missing.setdefault(origin, {}).update(dict.fromkeys(numbers))

    def ask(self) -> None:
        """Ask for what is missing, unless that was done. What is newly missing does not wait for an older request to be repeated."""
        for origin, missing in self._missing.items():
            last, tries, host = self._asked.get(origin, (0, 0, ""))
            if not host:
                self._request(origin, 0)
            elif next(reversed(missing)) > last:
                self._trips.forget(host)
                self._request(origin, max(tries, 1))

    def arrived(self, origin: str, number: int) -> None:
        """A message has arrived."""
        missing = self._missing.get(origin)
        if missing is None or number not in missing:
            return
        del missing[number]
        asked = self._asked.get(origin)
        if asked is not None:
            last, tries, host = asked
            if not tries:
                self._trips.answered(host, self.env.now())
            if number >= last or not missing or next(iter(missing)) > last:
                self._end(origin)
        if not missing:
            del self._missing[origin]
        elif origin not in self._asked:
            self._request(origin, 0)

    def forget(self) -> None:
        """Nothing is missing any more: there is a new list, whose token says what is."""
        for origin in list(self._asked):
            self._end(origin)
        self._missing = {}

    def on_message(self, sender: str, message: Req, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """Send what another host lacks, once for each number."""
        answered = self._answered.setdefault(sender, deque(maxlen=REMEMBERED))
        if message.number in answered:
            return
        answered.append(message.number)
        numbers = (number for first, last in message.missing for number in range(first, last + 1))
        for number in islice(numbers, WINDOW):
            payload = self._find(message.origin, number)
            if payload is not None:
                self.env.send(sender, Msg(EVERYBODY, message.origin, number, payload), Purpose.REPAIR)

    def on_timer(self, name: str) -> None:
        """A request was not answered in time: repeat what is still missing, with the next number."""
        if name in self._asked:
            _, tries, host = self._asked.pop(name)
            self._trips.forget(host)
            self._request(name, tries + 1)

    def _end(self, origin: str) -> None:
        _, _, host = self._asked.pop(origin)
        self._trips.forget(host)
        self.env.cancel_timer(origin)

    def _request(self, origin: str, tries: int) -> None:
        missing = sorted(islice(self._missing.get(origin, ()), WINDOW))
        if not missing:
            return
        holders = [host for host in self._holders(origin, missing[0]) if host != self.env.host] or [origin]
        # The origin first, and then the others that have the message.
        host = holders[tries % len(holders)]
        if host == self.env.host:
            return
        self._number += 1
        if not tries:
            self._trips.asked(host, self.env.now())
        self._asked[origin] = missing[-1], tries, host
        request: Message = Req(EVERYBODY, origin, missing[-1], ranges(missing), self._number)
        self.env.send(host, request, Purpose.CONTROL)
        self.env.trace("request", (origin, missing[-1]), missing=ranges(missing), tries=tries)
        self.env.set_timer(origin, self._trips.wait_s(host, tries))
