"""Who is alive: each host asks those that it watches for a sign of life, and waits for the answer as long as round trips were seen to take.

While all is well, only the manager watches everybody, and everybody watches the manager: its signs of life say that it is in the same graph
and sees a majority. A host that misses the manager, or that has left its graph, watches all others until it is in a graph again.

Once in a period a host asks each host that it watches, unless that one has spoken since the last time. A question that is not answered in
time is repeated, and each repetition waits twice as long (`hostagent.parts.round_trips`). A host is suspected when it was silent for
`timeout_ms` and has not answered `TRIES` questions in a row, at the latest after `longest_timeout_ms` and two periods. Any message is a
sign of life, and ends a suspicion; who was suspected wrongly may leave two more questions unanswered from then on.

Like `hostagent.parts.detector`, this errs where hosts are slow or messages are lost, counts silence in periods of its own timer, so that a
jump of the clock causes no suspicion, and stores nothing. That part sends heartbeats from all to all, n(n - 1) datagrams in a period; here
there are at most 2(n - 1) while all is well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Purpose
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.propagation_graph.items import Alive
from hostagent.protocols.propagation_graph.parameters import FailureParameters

# Where a tenth of all datagrams are lost, question or answer are lost so often in a row once in 800 cases.
TRIES: Final = 4
ANSWER: Final = "answer "
"""The beginning of the name of the timer for a host's answer."""


class Watch(Part):
    """Whom one host suspects. `sign` makes a sign of life, which asks for one if it is a question; `watched` says whom to watch now."""

    def __init__(
        self,
        env: Environment,
        parameters: FailureParameters,
        sign: Callable[[bool], Alive],
        watched: Callable[[], Sequence[str]],
        on_suspect: Callable[[str], None],
    ) -> None:
        super().__init__(env)
        self._parameters = parameters
        self._sign, self._watched, self._on_suspect = sign, watched, on_suspect
        # A host that never answered is suspected after twice its time-out.
        self._trips = RoundTrips(parameters.longest_timeout_ms / 1000, parameters.timeout_ms / 1000 / 2 ** (TRIES - 1))
        self._tries = dict.fromkeys(env.peers, TRIES)
        """How many questions in a row each host may leave unanswered."""
        self._unanswered = dict.fromkeys(env.peers, 0)
        self._silent_periods = dict.fromkeys(env.peers, 0)
        self._asked: dict[str, None] = {}
        """The hosts whose answer is awaited."""
        self._has_spoken: dict[str, None] = {}
        """The hosts that gave a sign of life since their last turn."""
        self._turn = 0
        self.suspected: dict[str, None] = {}

    def on_start(self, stored: Mapping[str, Any]) -> None:  # noqa: ARG002 - suspicions are not stored
        """Trust everybody, and begin to ask."""
        if self.env.peers:
            self._wait(self.env.random.random())

    def heard(self, host: str, sign: Alive | None) -> None:
        """A message came from a host, perhaps a sign of life: the host is up, and a suspicion of it was a mistake."""
        assert host != self.env.host, "no host hears itself"
        self._silent_periods[host] = self._unanswered[host] = 0
        if host in self._asked:
            del self._asked[host]
            self.env.cancel_timer(ANSWER + host)
        if sign is not None:
            self._has_spoken[host] = None
            if sign.question:
                self.env.send(host, self._sign(False), Purpose.CONTROL)
            else:
                self._trips.answered(host, self.env.now())
        if host in self.suspected:
            del self.suspected[host]
            self._tries[host] += 2
            self.env.trace("trust", host=host)

    def on_timer(self, name: str) -> None:
        """It is the turn of the next host that is watched; or a host has not answered in time."""
        if name != "turn":
            self._not_answered(name.removeprefix(ANSWER))
            return
        watched = self._watched()
        self._turn = (self._turn + 1) % len(watched)
        host = watched[self._turn]
        if host in self._has_spoken:
            del self._has_spoken[host]
        else:
            # The period in which the host spoke last is not counted: it may have been silent for only a part of it.
            self._silent_periods[host] += 1
            if self._is_lost(host):
                self._suspect(host)
            if host not in self._asked:
                self._ask(host)
        self._wait(1 / len(watched))

    def _not_answered(self, host: str) -> None:
        del self._asked[host]
        self._trips.forget(host)
        if host not in self._watched():
            # All is well again, and silence is not counted any more.
            self._silent_periods[host] = self._unanswered[host] = 0
            return
        self._unanswered[host] += 1
        if self._is_lost(host):
            self._suspect(host)
        else:
            self._ask(host)

    def _is_lost(self, host: str) -> bool:
        silent_ms = self._silent_periods[host] * self._parameters.period_ms
        leaves_unanswered = self._unanswered[host] >= self._tries[host] and silent_ms >= self._parameters.timeout_ms
        return host not in self.suspected and (leaves_unanswered or silent_ms >= self._parameters.longest_timeout_ms)

    def _suspect(self, host: str) -> None:
        self.suspected[host] = None
        if host in self._asked:
            del self._asked[host]
            self.env.cancel_timer(ANSWER + host)
        self.env.trace("suspect", host=host)
        self._on_suspect(host)

    def _ask(self, host: str) -> None:
        """Ask for a sign of life. Who is suspected is asked once in a period, and no answer is awaited."""
        self.env.send(host, self._sign(True), Purpose.CONTROL)
        if host not in self.suspected:
            if not self._unanswered[host]:
                self._trips.asked(host, self.env.now())
            self._asked[host] = None
            self.env.set_timer(ANSWER + host, self._trips.wait_s(host, self._unanswered[host]))

    def _wait(self, periods: float) -> None:
        self.env.set_timer("turn", periods * self._parameters.period_ms / 1000)
