"""Whoever waits asks, in the timestamp protocol: for a clock, for messages that are missing, and whether messages have arrived."""

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.parts.in_order import WINDOW, ranges
from hostagent.parts.questions import JITTER
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.timestamp.messages import Missing
from hostagent.protocols.timestamp.parameters import TimestampParameters

if TYPE_CHECKING:
    from hostagent.protocols.timestamp.protocol import Timestamp


class Asking(Part):
    """What this host waits for, and how long. `core` is this host."""

    def __init__(self, env: Environment, parameters: TimestampParameters, core: "Timestamp") -> None:
        super().__init__(env)
        self._core = core
        silence_ms = parameters.silence_ms if parameters.silent == "null" else 0.0
        self._trips = RoundTrips(parameters.longest_ms / 1000, (parameters.retry_ms + silence_ms) / 1000)
        self._timed: dict[str, int] = {}
        """For each host the number of this host's message whose answer shows how long a round trip takes."""
        self._asked: dict[str, int] = {}
        """For each host that was asked again: how often."""
        self._requested: dict[str, int] = {}
        """For each host the highest number of a message of it that was asked for."""
        self._waits = False
        """Whether the timer to ask again is set."""

    def sent(self, number: int) -> None:
        """A message of this host was sent to everybody."""
        for peer in self.env.peers:
            if peer not in self._timed:
                self._timed[peer] = number
                self._trips.asked(peer, self.env.now())

    def arrived(self, host: str, number: int) -> None:
        """Another host has this many messages of this one."""
        if self._timed.get(host, number + 1) <= number:
            del self._timed[host]
            self._trips.answered(host, self.env.now())

    def answered(self, host: str) -> None:
        """Another host has said something new."""
        self._asked.pop(host, None)

    def clear(self) -> None:
        """There is a new view, in which nobody has said anything."""
        self._timed.clear()
        self._asked.clear()
        self._requested.clear()

    def later(self) -> None:
        """Ask again if somebody is waited for, after the time that its answer should take; longer with each time."""
        if not self._waits and (owing := self._owing()):
            self._waits = True
            wait_s = max(self._trips.wait_s(host, self._asked.get(host, 0)) for host in owing)
            self.env.set_timer("ask", wait_s * self.env.random.uniform(1.0, JITTER))

    def on_timer(self, name: str) -> None:
        """Somebody has been waited for in vain."""
        if name != "ask":
            super().on_timer(name)
        self._waits = False
        owing = self._owing()
        # Of a burst that is longer than a queue, always the same places are dropped.
        self.env.random.shuffle(owing)
        for host in owing:
            self._timed.pop(host, None)
            self._trips.forget(host)
            self._asked[host] = self._asked.get(host, 0) + 1
            self.env.send(host, self._core.stamp(asks=True), Purpose.CONTROL)
        for source in self.env.hosts if self._core.views else self.env.peers:
            self.request(source, self._core.known_of(source), again=True)
        self.later()

    def _owing(self) -> list[str]:
        """The hosts that are waited for: for a clock, for messages, or for a sign that they have what this host keeps for them."""
        core = self._core
        first = core.queue[0] if core.queue else None
        others = [host for host in core.members if host != self.env.host]
        kept = {source: number for source, number in core.items if core.views or source == self.env.host}
        said = core.done if core.views else core.has
        owing = [
            host
            for host in others
            if (first and core.waits_for(host, *first))
            or host in core.announced
            or host in core.early
            or core.known.get(host, 0) > core.last[host]
            or any(said[host][self.env.hosts.index(source)] < number for source, number in kept.items())
        ]
        # Messages of hosts that are no members, and those of this host that others had when it was none, any member may have.
        return owing or (others if any(number > core.last[source] for source, number in core.known.items()) else [])

    def request(self, source: str, number: int, *, again: bool) -> None:
        """Ask for messages of a source up to a number that are missing here; once, and again when the time is up.

        With a detector, others are asked too if the source does not answer.
        """
        early = self._core.early.get(source, {})
        missing = list(islice((n for n in range(self._core.last[source] + 1, number + 1) if n not in early), WINDOW))
        if not missing or (not again and self._requested.get(source, 0) >= missing[-1]):
            return
        self._requested[source] = missing[-1]
        others = [host for host in self._core.members if host != self.env.host] if self._core.views else [source]
        to = self.env.random.choice(others) if others and (again or source not in others) else source
        self.env.send(to, Missing(EVERYBODY, source, 0, ranges(missing), self._core.view), Purpose.CONTROL)

    def send_again(self, to: str, request: Missing) -> None:
        """Another host lacks messages."""
        source = request.origin
        numbers = (n for first, end in request.missing for n in range(first, min(end, self._core.last[source]) + 1))
        for number in islice(numbers, WINDOW):
            if (source, number) in self._core.items:
                self.env.send(to, msgspec.structs.replace(self._core.items[source, number], view=self._core.view), Purpose.REPAIR)
