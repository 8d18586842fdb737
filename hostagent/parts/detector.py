"""A failure detector: every host tells every other that it is there, and who is silent for too long is suspected.

Source: the second paper ("Reliable Broadcast") assumes a *perfect* failure detector. This is what can be had of it.

Model. Hosts crash and restart; their messages are lost and delayed. Whoever is up sends a heartbeat to every other host each period. Any
message from a host is a sign of life.

What it promises. A host that has crashed, or is cut off, is suspected by all others that run, at the latest two periods after its
time-out, and for as long as it is silent. A host is never suspected before it was silent for its time-out.

What it does not. It is not perfect: on a real network nobody can tell a host that is dead from one that is slow, paused or behind a
partition or a lossy line. So a suspicion may be wrong. It is then taken back with the next sign of life, and the time-out of that host
grows by a period, up to a bound: mistakes get rare but never impossible. A protocol that stands on it must stay safe when it
errs, and say what it then does not promise. `analysis.figures.detection` counts the mistakes of a run and measures how long detection took.

Silence is counted in periods of the host's own timer and not read from a clock, so neither a clock that jumps nor a pause of the host
itself makes it suspect everybody. Suspicions are not stored: a host that restarts trusts all again.

Messages. One heartbeat (control) to each other host each period: n - 1 datagrams a period from each host, also when nothing else is to do.
It also says below which number everything that its sender sent over perfect links has arrived.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hostagent.contract.core import Milliseconds, Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Message, Purpose, SequenceNumber
from hostagent.parts.links import LinkParameters


class Heartbeat(Message, frozen=True):
    """The sender is there, and everybody has what it sent over links under numbers below `floor`."""

    floor: SequenceNumber


class DetectorParameters(LinkParameters, frozen=True, kw_only=True):
    """The detector's, beside those of the links: every core that has a detector has links too."""

    period_ms: Milliseconds = 1000.0
    """Between two heartbeats to a host. At 12 hosts that is 132 small packets a second in the whole network."""
    timeout_ms: Milliseconds = 2500.0
    """Silence after which a host is suspected: two heartbeats in a row may be lost, or one late by a period and a half."""
    longest_timeout_ms: Milliseconds = 5000.0
    """The time-out of a host grows by a period with each suspicion that proves wrong, up to this."""

    def check_detector(self) -> None:
        """Raise a `ValueError` with a sentence if heartbeats come too seldom for the time-out."""
        if self.timeout_ms <= self.period_ms:
            raise ValueError(
                f"timeout_ms={self.timeout_ms:g} must be above period_ms={self.period_ms:g}, "
                f"or every host is suspected between two heartbeats"
            )
        if self.longest_timeout_ms < self.timeout_ms:
            raise ValueError(
                f"longest_timeout_ms={self.longest_timeout_ms:g} must not be below timeout_ms={self.timeout_ms:g}: time-outs only grow"
            )

    @property
    def detection_ms(self) -> float:
        """How long it takes at the most until a silent host is suspected."""
        return self.longest_timeout_ms + 2 * self.period_ms

    def heartbeats_per_second(self, hosts: int) -> float:
        """What a host sends for the detector alone."""
        return 1000 * (hosts - 1) / self.period_ms


class Detector(Part):
    """What one host thinks of the others. `heartbeat` makes what is sent to them, and `on_suspect` is told of each new suspicion.

    Every message is a sign of life, so the core must say whom it has `heard`, whatever the message.
    """

    messages = (Heartbeat,)

    def __init__(
        self,
        env: Environment,
        parameters: DetectorParameters,
        heartbeat: Callable[[], Heartbeat],
        on_suspect: Callable[[str], None],
    ) -> None:
        super().__init__(env)
        self._parameters = parameters
        self._heartbeat = heartbeat
        self._on_suspect = on_suspect
        self._silent_periods = dict.fromkeys(env.peers, 0)
        self._timeout_ms = dict.fromkeys(env.peers, parameters.timeout_ms)
        self._turn = 0
        self.suspected: dict[str, None] = {}

    def on_start(self, stored: Mapping[str, Any]) -> None:  # noqa: ARG002 - suspicions are not stored
        """Trust everybody, and begin to send heartbeats."""
        if self.env.peers:
            self._wait(self.env.random.random())

    def heard(self, host: str) -> None:
        """A message came from a host: it is there, and to have suspected it was a mistake."""
        self._silent_periods[host] = 0
        if host in self.suspected:
            del self.suspected[host]
            grown_ms = self._timeout_ms[host] + self._parameters.period_ms
            self._timeout_ms[host] = min(grown_ms, self._parameters.longest_timeout_ms)
            self.env.trace("trust", host=host)

    def on_message(self, sender: str, message: Heartbeat, expensive: bool) -> None:
        """A heartbeat says no more than any other message does: `heard` is told of them all."""

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """It is a host's turn: send it a heartbeat, and suspect it if it was silent for its time-out. Turns spread over the period."""
        host, self._turn = self.env.peers[self._turn], (self._turn + 1) % len(self.env.peers)
        self.env.send(host, self._heartbeat(), Purpose.CONTROL)
        # The period in which the last message came is not counted: the host may have been silent for a part of it only.
        silent_ms = self._silent_periods[host] * self._parameters.period_ms
        self._silent_periods[host] += 1
        if silent_ms >= self._timeout_ms[host] and host not in self.suspected:
            self.suspected[host] = None
            self.env.trace("suspect", host=host)
            self._on_suspect(host)
        self._wait(1.0)

    def _wait(self, turns: float) -> None:
        self.env.set_timer("heartbeat", turns * self._parameters.period_ms / len(self.env.peers) / 1000)
