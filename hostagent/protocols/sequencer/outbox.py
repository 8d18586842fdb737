"""The messages of a host on their way to the sequencer."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Purpose, Ranges
from hostagent.protocols.sequencer.messages import AT_ONCE, SequencerParameters, Submission, listed

Send = Callable[[Submission, Purpose], None]
SEQUENCER: Final = "sequencer"
"""Whoever it is: round trips are to the one that orders."""


class Outbox(Part):
    """Messages that are not known to be ordered, on stable storage. At most `window` of them are under way, the others wait here.

    If nothing is heard of them in time, `on_silence` is called with the sequence number of the last one that was sent.
    """

    def __init__(self, env: Environment, parameters: SequencerParameters, send: Send, on_silence: Callable[[int], None]) -> None:
        super().__init__(env)
        self._window = parameters.window
        self._gather_s = parameters.gather_ms / 1000
        """How long the sequencer may let messages wait for each other."""
        self._send = send
        self._on_silence = on_silence
        self._waiting: dict[int, Submission] = {}
        self._done = 0
        """The messages up to this one are ordered."""
        self._sent = 0
        self._tries = 0
        self._timed = 0
        """The message whose round trip is measured; 0 for none."""
        self._trips = parameters.round_trips()

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore what is not known to be ordered."""
        for sequence in sorted(map(int, stored)):
            group, payload, some = stored[str(sequence)]
            self._waiting[sequence] = Submission(group, self.env.host, sequence, 0, payload, some)
        self._done = self._sent = next(iter(self._waiting), 1) - 1

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def sent(self) -> int:
        """The last message that was sent."""
        return self._sent

    def put(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Send a message, or keep it until earlier ones are ordered."""
        some = listed(to, self.env.hosts)
        if not self._waiting:
            self._done = self._sent = sequence - 1
        self._waiting[sequence] = Submission(to.group, self.env.host, sequence, 0, payload, some)
        self.env.store(str(sequence), (to.group, payload, some))
        self._fill(Purpose.DATA)

    def done(self, sequence: int) -> None:
        """The messages up to this one are ordered: forget them, and send those that waited for them."""
        if sequence <= self._done or not self._waiting:
            return
        while self._waiting and (oldest := next(iter(self._waiting))) <= sequence:
            del self._waiting[oldest]
            self.env.store(str(oldest), None)
        self._done, self._tries = sequence, 0
        if self._timed and sequence >= self._timed:
            self._trips.answered(SEQUENCER, self.env.now())
            self._timed = 0
        self._sent = max(self._sent, sequence)
        self._fill(Purpose.DATA)
        if self._waiting:
            self._wait()
        else:
            self.env.cancel_timer("ordered")

    def send_again(self, missing: Ranges) -> None:
        """Send those that the sequencer lacks."""
        for first, last in missing:
            if first <= self._timed <= last:
                self._stop_the_watch()
            for sequence in range(max(first, self._done + 1), min(last, self._sent, first + AT_ONCE - 1) + 1):
                self._send(self._waiting[sequence], Purpose.REPAIR)

    def start_again(self) -> None:
        """After a restart, or with another sequencer: send what may not have arrived."""
        self._sent, self._timed, self._tries = self._done, 0, 0
        self._fill(Purpose.REPAIR)

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """None of the messages that are under way was ordered in time."""
        self._tries += 1
        if self._tries > 1:
            self._stop_the_watch()
        self._on_silence(self._sent)
        self._wait()

    def _stop_the_watch(self) -> None:
        """Whatever comes now, it tells nothing about a round trip."""
        self._timed = 0
        self._trips.forget(SEQUENCER)

    def _fill(self, purpose: Purpose) -> None:
        while self._sent < self._done + self._window and self._sent + 1 in self._waiting:
            self._sent += 1
            if not self._timed and purpose is Purpose.DATA:
                self._timed = self._sent
                self._trips.asked(SEQUENCER, self.env.now())
            if self._sent == self._done + 1:
                self._wait()
            self._send(self._waiting[self._sent], purpose)

    def _wait(self) -> None:
        self.env.set_timer("ordered", self._gather_s + self._trips.wait_s(SEQUENCER, self._tries))
