"""A failure detector: every host sends heartbeats to every other, and a host that is silent for too long is suspected.

Source: the second paper ("Reliable Broadcast") assumes a *perfect* failure detector. This is the part of it that is possible in practice.

Model. Hosts crash and restart; their messages are lost and delayed. A host that is up sends a heartbeat to every other host each period.
Any message from a host is a sign of life.

What it promises. A host that has crashed, or is cut off, is suspected by all others that run, at the latest two periods after its
time-out, and for as long as the host is silent. No host is suspected before it was silent for its time-out.

What it does not promise. The detector is not perfect: on a real network nobody can tell a dead host from one that is slow, paused or behind
a partition or a lossy link. So a suspicion may be wrong. The next sign of life ends a wrong suspicion, and the time-out of that host
grows by a period, up to a bound: mistakes get rare but stay possible. A protocol that uses the detector must stay safe when the detector
errs, and say what it then does not promise. `analysis.figures.detection` counts the mistakes of a run and measures how long detection took.

Silence is counted in periods of the host's own timer and not read from a clock, so a jump of the clock or a pause of the host itself causes
no suspicion. Suspicions are not stored: a host that restarts trusts all others again.

Messages. One heartbeat (control) to each other host each period: n - 1 datagrams a period from each host, also when the host is idle.
A heartbeat also says below which number every letter that its sender sent over perfect links has arrived.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hostagent.contract.core import Milliseconds, Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Message, Purpose, SequenceNumber
from hostagent.parts.links import LinkParameters


class Heartbeat(Message, frozen=True):
    """The sender is up, and all its letters with numbers below `floor` have arrived everywhere."""

    floor: SequenceNumber


class DetectorParameters(LinkParameters, frozen=True, kw_only=True):
    """The parameters of the detector and of the links: every core that has a detector has links too."""

    period_ms: Milliseconds = 1000.0
    """Time between two heartbeats to a host. With 12 hosts, the default makes 132 small packets a second in the whole network."""
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
        """The longest time until a silent host is suspected."""
        return self.longest_timeout_ms + 2 * self.period_ms

    def heartbeats_per_second(self, hosts: int) -> float:
        """The heartbeats that one host sends in a second."""
        return 1000 * (hosts - 1) / self.period_ms


class Detector(Part):
    """Whom one host suspects. `heartbeat` makes the message that is sent to the others; `on_suspect` is called for each new suspicion.

    Every message is a sign of life, so the core must call `heard` for every message.
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
        """A message came from a host: the host is up, and a suspicion of it was a mistake."""
        assert host != self.env.host, "no host hears itself"
        self._silent_periods[host] = 0
        if host in self.suspected:
            del self.suspected[host]
            grown_ms = self._timeout_ms[host] + self._parameters.period_ms
            self._timeout_ms[host] = min(grown_ms, self._parameters.longest_timeout_ms)
            self.env.trace("trust", host=host)

    def on_message(self, sender: str, message: Heartbeat, expensive: bool) -> None:
        """A heartbeat tells the detector no more than any other message does: the core calls `heard` for all messages."""

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """Send the next host a heartbeat, and suspect that host if it was silent for its time-out. Turns spread over the period."""
        host, self._turn = self.env.peers[self._turn], (self._turn + 1) % len(self.env.peers)
        self.env.send(host, self._heartbeat(), Purpose.CONTROL)
        # The period of the last message is not counted: the host may have been silent for only a part of it.
        assert self._timeout_ms[host] <= self._parameters.longest_timeout_ms, host
        silent_ms = self._silent_periods[host] * self._parameters.period_ms
        self._silent_periods[host] += 1
        if silent_ms >= self._timeout_ms[host] and host not in self.suspected:
            self.suspected[host] = None
            self.env.trace("suspect", host=host)
            self._on_suspect(host)
        self._wait(1.0)

    def _wait(self, turns: float) -> None:
        self.env.set_timer("heartbeat", turns * self._parameters.period_ms / len(self.env.peers) / 1000)
