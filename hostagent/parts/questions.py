"""Questions to other hosts, each repeated until its answer has come. What is a question and what answers it, the protocol decides.

Model. Datagrams are lost, duplicated and reordered. A host that is asked may be down for any time.

How. The protocol sends a question for the first time itself, on a network that multicasts to many hosts at once, and hands it to this
part, once for each host that must answer. For each host there is one timer. When it expires, the oldest questions that were asked before
it was set are repeated, at most `WINDOW` of them, and the wait doubles, so a host that is down costs few packets. The first answer makes
the wait short again. How long a wait is follows the round trips that were seen (`hostagent.parts.round_trips`).

What is kept. Nothing on stable storage: a protocol that restarts asks again what it needs to know.
"""

from collections.abc import Hashable
from itertools import islice, takewhile
from typing import Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Message, Purpose
from hostagent.parts.round_trips import RoundTrips

WINDOW: Final = 16
"""Questions that are repeated to a host at a time: with short messages that is one full datagram or two."""
# Waits are lengthened by up to a tenth at random, so that hosts do not stay synchronised.
JITTER: Final = 1.1
# Twenty round trips in a row fail one time in a million where half of them do.
REPETITIONS: Final = 20


def patience_ms(longest_ms: float, questions: int = 1) -> float:
    """The time within which a question was answered for sure, or several questions of which each follows the answer to the one before.

    The repetitions are spread over all of them, so each further question adds only a few.
    """
    return (REPETITIONS + 1 + 5 * (questions - 1)) * JITTER * longest_ms


class Questions(Part):
    """What this host has asked each other host and has no answer to. Nothing is awaited for longer than `longest_ms`."""

    def __init__(self, env: Environment, first_ms: float, longest_ms: float) -> None:
        super().__init__(env)
        self._trips = RoundTrips(longest_ms / 1000, first_ms / 1000)
        self._open: dict[str, dict[Hashable, tuple[int, Message]]] = {}
        """For each host its unanswered questions with their numbers, the oldest first."""
        self._asked = 0
        self._due: dict[str, int] = {}
        """For each host the last question that was asked before its timer was set: a later one may still be on its way."""
        self._repetitions: dict[str, int] = {}
        self._timed: dict[str, Hashable] = {}
        """For each host the question whose answer shows how long a round trip takes."""

    def awaits(self, host: str, key: Hashable) -> bool:
        """Whether an answer is still to come."""
        return key in self._open.get(host, ())

    def ask(self, host: str, key: Hashable, question: Message, *, sent: bool = True) -> None:
        """Wait for the answer of a host to a question that was sent just now; one that was not `sent` is treated as one to repeat."""
        self._asked += 1
        questions = self._open.setdefault(host, {})
        questions.pop(key, None)
        questions[key] = self._asked, question
        if not sent:
            self._due[host] = self._asked
            self.env.set_timer(host, 0.0)
            return
        if host not in self._timed:
            self._timed[host] = key
            self._trips.asked(host, self.env.now())
        if host not in self._due:
            self._wait(host)

    def answered(self, host: str, key: Hashable) -> bool:
        """The answer of a host has come, or is not needed any more; whether it was awaited."""
        questions = self._open.get(host, {})
        if questions.pop(key, None) is None:
            return False
        if self._timed.get(host) == key:
            del self._timed[host]
            self._trips.answered(host, self.env.now())
        repeated = self._repetitions.pop(host, 0)
        if not questions:
            del self._open[host]
            del self._due[host]
            self.env.cancel_timer(host)
        elif repeated:
            # The host is back: the others are repeated after one round trip.
            self._wait(host)
        return True

    def drop(self, host: str, key: Hashable) -> None:
        """The answer is not needed any more, and none has come."""
        if self._timed.get(host) == key:
            del self._timed[host]
            self._trips.forget(host)
        self.answered(host, key)

    def on_timer(self, name: str) -> None:
        """Repeat the oldest questions to a host."""
        if name not in self._due:
            super().on_timer(name)
        due = takewhile(lambda one: one[0] <= self._due[name], self._open[name].values())
        repeated = list(islice(due, WINDOW))
        for _, question in repeated:
            self.env.send(name, question, Purpose.REPAIR)
        if repeated:
            self._repetitions[name] = self._repetitions.get(name, 0) + 1
            self._timed.pop(name, None)
            self._trips.forget(name)
        self._wait(name)

    def _wait(self, host: str) -> None:
        self._due[host] = self._asked
        wait_s = self._trips.wait_s(host, self._repetitions.get(host, 0))
        self.env.set_timer(host, wait_s * self.env.random.uniform(1.0, JITTER))
