"""Perfect point-to-point links for any core: what is sent arrives, once, at every host that comes back, and nothing else does.

Source: the second paper ("Reliable Broadcast"), the abstraction *perfect point-to-point link* on which its algorithms stand.

Model. Datagrams are lost, duplicated, reordered and delayed at will; hosts crash and restart with their storage.

A host that loses its storage begins its numbers again, and those who heard them before take its letters for old ones: that is not survived.

Guarantees. A letter that a host sends is received by each host it is for, if the two are connected for long enough; it is received once,
also across restarts of either; nothing is received that was not sent. Letters may overtake each other.

Messages. `Letter` to each host it is for (data at first, repair when repeated), `Acknowledgement` in return (control).

How. A host numbers its letters 1, 2, 3, ... whoever they are for, and stores each once before it leaves, for all its receivers together. It
forgets a letter that all of them have acknowledged. Who has acknowledged is not stored: a host that restarts asks again. A receiver
remembers one set of numbers for each sender. Each letter says below which number everything is acknowledged (`floor`), so numbers that
were not for a host leave no gaps behind in its set, and everybody can be told what has arrived everywhere.

Repetition. Each link has one timer. When it expires, the oldest letters are repeated, at most `WINDOW` of them, and the wait doubles, so
that a host that is down costs a trickle however much waits for it. When it is back, each acknowledgement lets one more go, and the wait is
short again.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from hostagent.contract.core import Milliseconds, Parameters, Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Message, Payload, Purpose, SequenceNumber
from hostagent.parts.delivery import StoredSets

# Letters that are repeated to a host before it acknowledges any of them: with short messages that is one full datagram or two.
WINDOW: Final = 16
# Twenty round trips in a row fail one time in a million where half of them do.
REPETITIONS: Final = 20
# Waits are up to a tenth longer than they are said to be, so that hosts do not repeat together for ever.
JITTER: Final = 1.1


class Letter(Message, frozen=True):
    """A broadcast message on its way over a link; `number` is the sender's own, and all below `floor` is acknowledged."""

    number: SequenceNumber
    floor: SequenceNumber
    payload: Payload


class Acknowledgement(Message, frozen=True):
    """The receiver has the letter of this number on stable storage."""

    number: SequenceNumber


class LinkParameters(Parameters, frozen=True, kw_only=True):
    """How often an unacknowledged letter is repeated."""

    retry_ms: Milliseconds = 500.0
    """Wait before the first repetition: well above a round trip through a queue of 100 packets on a 10 Mbit/s link (120 ms)."""
    longest_retry_ms: Milliseconds = 1000.0
    """The wait doubles with each repetition up to this. `WINDOW` bounds what a repetition costs, so the end of an outage may be noticed
    soon."""

    def patience_ms(self, hops: int = 1) -> float:
        """How long it takes a letter to arrive for sure, or a letter and then the next one that it leads to, over so many links.

        The first wait may be twice as long, as a timer that already runs is not moved. The repetitions that it takes are spread over all
        links on the way, so each further link adds a few and not as many again.
        """
        return (REPETITIONS + 1 + 5 * (hops - 1)) * JITTER * max(self.retry_ms, self.longest_retry_ms)


class Links(Part):
    """The links from one host to all others. `on_letter` is told of each letter that is received for the first time, and its sender."""

    messages = (Letter, Acknowledgement)

    def __init__(self, env: Environment, parameters: LinkParameters, on_letter: Callable[[str, Letter], None]) -> None:
        super().__init__(env)
        self._parameters = parameters
        self._on_letter = on_letter
        self._sent = 0
        self._letters: dict[int, Letter] = {}
        self._owed_to: dict[int, int] = {}
        self._links = {peer: _Link(parameters.retry_ms) for peer in env.peers}
        self._received = self.add("received", StoredSets)

    @property
    def floor(self) -> int:
        """Everything that was sent under a lower number has been acknowledged by all it was for."""
        return next(iter(self._letters), self._sent + 1)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Go on sending what was not acknowledged by all before a restart."""
        self._sent = stored.get("sent", 0)
        kept = {int(key.removeprefix("letter/")): value for key, value in stored.items() if key.startswith("letter/")}
        for number, (origin, sequence, payload, to) in sorted(kept.items()):
            self._keep(Letter(0, origin, sequence, number, min(kept), payload), to or self.env.peers)
        for peer, link in self._links.items():
            if link.unacknowledged:
                link.due = self._sent
                self._fill_window(peer)
                self._wait(peer)

    def send(
        self, origin: str, sequence: int, payload: bytes, *, to: tuple[str, ...] = (), purpose: Purpose = Purpose.DATA
    ) -> None:
        """Send a message to some hosts, or to all others, until they acknowledge it. Data leaves at once, repair in windows."""
        receivers = to or self.env.peers
        if not receivers:
            return
        self._sent += 1
        letter = Letter(0, origin, sequence, self._sent, next(iter(self._letters), self._sent), payload)
        self.env.store("sent", self._sent)
        self.env.store(f"letter/{letter.number}", (origin, sequence, payload, to))
        self._keep(letter, receivers)
        for peer in receivers:
            link = self._links[peer]
            first = len(link.unacknowledged) == 1
            if first or purpose is Purpose.REPAIR:
                link.due = letter.number
            if purpose is Purpose.REPAIR:
                self._fill_window(peer)
            else:
                self.env.send(peer, letter, purpose)
            if first:
                self._wait(peer)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """Acknowledge every letter, and take it the first time."""
        match message:
            case Letter() if self.receive(sender, message):
                self._on_letter(sender, message)
            case Acknowledgement():
                self.acknowledged(sender, message)

    def receive(self, sender: str, letter: Letter) -> bool:
        """Acknowledge a letter; whether it is received for the first time."""
        self.env.send(sender, Acknowledgement(0, letter.origin, letter.sequence, letter.number), Purpose.CONTROL)
        self._received.add_up_to(sender, letter.floor - 1)
        return self._received.add_number(sender, letter.number)

    def acknowledged(self, peer: str, message: Acknowledgement) -> None:
        """A host has a letter: forget that it is owed there. A link that carries something can carry more, and need not wait for long."""
        letter, link = self._letters.get(message.number), self._links[peer]
        if letter is None or message.number not in link.unacknowledged:
            return
        if (letter.origin, letter.sequence) != (message.origin, message.sequence):
            return
        del link.unacknowledged[letter.number]
        self._forget_if_acknowledged(letter.number)
        if letter.number in link.window:
            del link.window[letter.number]
            self._fill_window(peer)
        if not link.unacknowledged:
            self.env.cancel_timer(peer)
            link.wait_ms = self._parameters.retry_ms
        elif link.wait_ms != self._parameters.retry_ms:
            link.wait_ms = self._parameters.retry_ms
            self._wait(peer)

    def on_timer(self, name: str) -> None:
        """Repeat the oldest letters that were on their way to a host when its timer was set."""
        peer, link = name, self._links[name]
        link.window.clear()
        self._fill_window(peer)
        if link.window:
            link.wait_ms = min(2 * link.wait_ms, self._parameters.longest_retry_ms)
        link.due = next(reversed(link.unacknowledged))
        self._wait(peer)

    def _keep(self, letter: Letter, receivers: Sequence[str]) -> None:
        """Remember a letter until all have acknowledged it."""
        self._letters[letter.number] = letter
        self._owed_to[letter.number] = len(receivers)
        for peer in receivers:
            self._links[peer].unacknowledged[letter.number] = None

    def _forget_if_acknowledged(self, number: int) -> None:
        self._owed_to[number] -= 1
        if not self._owed_to[number]:
            self.env.store(f"letter/{number}", None)
            del self._letters[number], self._owed_to[number]

    def _fill_window(self, peer: str) -> None:
        """Repeat the oldest letters that are due, as far as the window goes."""
        link = self._links[peer]
        # What is in the window is always among the oldest.
        for number in islice(link.unacknowledged, WINDOW):
            if number <= link.due and number not in link.window:
                link.window[number] = None
                self.env.send(peer, self._letters[number], Purpose.REPAIR)

    def _wait(self, peer: str) -> None:
        self.env.set_timer(peer, self._links[peer].wait_ms * self.env.random.uniform(1, JITTER) / 1000)


class _Link:
    """What one host has not acknowledged, by number in the order of sending, and how it is repeated."""

    def __init__(self, wait_ms: float) -> None:
        self.unacknowledged: dict[int, None] = {}
        self.window: dict[int, None] = {}
        """What was repeated since the timer last expired."""
        self.due = 0
        """The last letter that may be repeated: what was sent after the timer was set may still be on its way."""
        self.wait_ms = wait_ms
