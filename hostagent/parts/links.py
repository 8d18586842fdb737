"""Perfect point-to-point links for any core: each letter arrives exactly once at every receiver that is up or comes back.

Source: the second paper ("Reliable Broadcast"), the abstraction *perfect point-to-point link* that its algorithms use.

Model. Datagrams are lost, duplicated, reordered and delayed at will; hosts crash and restart with their storage.

Loss of storage is not survived: the host starts its numbers again from 1, and receivers that know these numbers take its letters for old.

Guarantees. Each receiver of a letter gets it if sender and receiver are connected for long enough, and gets it only once, also across
restarts of either host. Nothing is received that was not sent. Letters may overtake each other.

Messages. `Letter` to each receiver (data at first, repair when repeated), `Acknowledgement` in return (control). A letter has one number
for all its receivers, so on a network that multicasts a letter to a group is one datagram; repairs go to one host each.

How. A host has one series of numbers 1, 2, 3, ... for its letters to all hosts. It stores each letter once, for all receivers together,
before it sends the letter, and forgets a letter that all receivers have acknowledged. Who has acknowledged is not stored: a host that
restarts asks again. A receiver remembers one set of numbers for each sender. Each letter says below which number everything is acknowledged
(`floor`). So letters to other hosts leave no gaps in a receiver's set, and every host learns what has arrived everywhere.

Repetition. Each link has one timer. When it expires, the oldest letters are repeated, at most `WINDOW` of them, and the wait doubles, so
that a host that is down costs few packets, however many letters wait for it. When the host is back, each acknowledgement releases one more
letter, and the wait is short again.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from hostagent.contract.core import Milliseconds, Parameters, Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import (
    LISTED,
    Destination,
    HostSetOrNone,
    Message,
    Payload,
    Purpose,
    SequenceNumber,
    host_set,
    hosts_in,
    slots,
)
from hostagent.parts.delivery import StoredSets

# Letters that are repeated to a host before it acknowledges any of them: with short messages that is one full datagram or two.
WINDOW: Final = 16
# Twenty round trips in a row fail one time in a million where half of them do.
REPETITIONS: Final = 20
# Waits are lengthened by up to a tenth at random, so that hosts do not stay synchronised.
JITTER: Final = 1.1


class Letter(Message, frozen=True):
    """A broadcast message on its way over a link, with the sender's `number`; all letters below `floor` are acknowledged."""

    number: SequenceNumber
    floor: SequenceNumber
    payload: Payload
    nth: SequenceNumber = 0
    """As in `Destination`."""
    listed: HostSetOrNone = b""
    """The hosts that the message is for, if it is for no group."""


class Acknowledgement(Message, frozen=True):
    """The receiver has the letter of this number on stable storage."""

    number: SequenceNumber


class LinkParameters(Parameters, frozen=True, kw_only=True):
    """How often an unacknowledged letter is repeated."""

    retry_ms: Milliseconds = 500.0
    """Wait before the first repetition: well above a round trip through a queue of 100 packets on a 10 Mbit/s link (120 ms)."""
    longest_retry_ms: Milliseconds = 1000.0
    """The wait doubles with each repetition up to this value. It can be short, to notice the end of an outage soon, because `WINDOW`
    bounds the cost of a repetition."""

    def patience_ms(self, hops: int = 1) -> float:
        """The time within which a letter has arrived for sure, or a chain of letters that each cause the next, over `hops` links.

        The first wait may be twice as long, as a timer that already runs is not moved. The repetitions are spread over all links on the
        way, so each further link adds only a few.
        """
        return (REPETITIONS + 1 + 5 * (hops - 1)) * JITTER * max(self.retry_ms, self.longest_retry_ms)


class Links(Part):
    """The links from one host to all others. `on_letter` is called with the sender of each letter and the letter, once per letter."""

    messages = (Letter, Acknowledgement)

    def __init__(self, env: Environment, parameters: LinkParameters, on_letter: Callable[[str, Letter], None]) -> None:
        super().__init__(env)
        self._parameters = parameters
        self._on_letter = on_letter
        self._sent = 0
        self._letters: dict[int, Letter] = {}
        self._slots = 0
        """What they take up together."""
        self._owed_to: dict[int, int] = {}
        self._links = {peer: _Link(parameters.retry_ms) for peer in env.peers}
        self._received = self.add("received", StoredSets)

    @property
    def floor(self) -> int:
        """All receivers have acknowledged all letters with lower numbers."""
        return next(iter(self._letters), self._sent + 1)

    @property
    def unfinished(self) -> int:
        """The most letters that wait for the acknowledgement of one host, of those that answer; in slots, by their average length."""
        first_ms = self._parameters.retry_ms
        most = max((len(link.unacknowledged) for link in self._links.values() if link.wait_ms == first_ms), default=0)
        return most * self._slots // max(1, len(self._letters))

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """After a restart, go on sending the letters that not all receivers have acknowledged."""
        self._sent = stored.get("sent", 0)
        kept = {int(key.removeprefix("letter/")): value for key, value in stored.items() if key.startswith("letter/")}
        for number, (origin, sequence, payload, group, hosts, nth) in sorted(kept.items()):
            to = Destination(group, hosts_in(hosts, self.env.hosts), nth)
            self._keep(self._letter((origin, sequence), payload, to, number, min(kept)), to.others(self.env.host))
        for peer, link in self._links.items():
            if link.unacknowledged:
                link.due = self._sent
                self._fill_window(peer)
                self._wait(peer)

    def send(self, origin: str, sequence: int, payload: bytes, *, to: Destination, purpose: Purpose = Purpose.DATA) -> None:
        """Send a message to its other destinations until they acknowledge it. Data leaves at once, repair in windows."""
        receivers = to.others(self.env.host)
        if not receivers:
            return
        self._sent += 1
        letter = self._letter((origin, sequence), payload, to, self._sent, next(iter(self._letters), self._sent))
        self.env.store("sent", self._sent)
        hosts = host_set(to.hosts, self.env.hosts)
        self.env.store(f"letter/{letter.number}", (origin, sequence, payload, to.group, hosts, to.nth))
        self._keep(letter, receivers)
        if purpose is Purpose.DATA:
            self.env.multicast_to(to, letter, purpose)
        for peer in receivers:
            link = self._links[peer]
            first = len(link.unacknowledged) == 1
            if first or purpose is Purpose.REPAIR:
                link.due = letter.number
            if purpose is Purpose.REPAIR:
                self._fill_window(peer)
            if first:
                self._wait(peer)

    def destination(self, letter: Letter) -> Destination:
        """Whom the message of a letter is for."""
        if letter.group == LISTED:
            return Destination(LISTED, hosts_in(letter.listed, self.env.hosts), letter.nth)
        # No host of this run sends to a group that does not exist, but a forged datagram may name one.
        return Destination(letter.group, self.env.groups.get(letter.group, ()), letter.nth)

    def _letter(self, message: tuple[str, int], payload: bytes, to: Destination, number: int, floor: int) -> Letter:
        listed = host_set(to.hosts, self.env.hosts) if to.group == LISTED else b""
        return Letter(to.group, *message, number, floor, payload, to.nth, listed)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """Acknowledge every letter, and hand it on the first time."""
        match message:
            case Letter() if self.receive(sender, message):
                self._on_letter(sender, message)
            case Acknowledgement():
                self.acknowledged(sender, message)

    def receive(self, sender: str, letter: Letter) -> bool:
        """Acknowledge a letter, and say whether it is received for the first time."""
        self.env.send(sender, Acknowledgement(0, letter.origin, letter.sequence, letter.number), Purpose.CONTROL)
        self._received.add_up_to(sender, letter.floor - 1)
        return self._received.add_number(sender, letter.number)

    def acknowledged(self, peer: str, message: Acknowledgement) -> None:
        """A host has a letter: stop repeating it to that host. The link works, so refill its window and shorten its wait."""
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
        """Repeat the oldest of the letters that were unacknowledged when the timer of this link was set."""
        peer, link = name, self._links[name]
        link.window.clear()
        self._fill_window(peer)
        if link.window:
            link.wait_ms = min(2 * link.wait_ms, self._parameters.longest_retry_ms)
        link.due = next(reversed(link.unacknowledged))
        self._wait(peer)

    def _keep(self, letter: Letter, receivers: Sequence[str]) -> None:
        """Remember a letter until all receivers have acknowledged it."""
        assert receivers, letter
        self._letters[letter.number] = letter
        self._slots += slots(letter.payload)
        self._owed_to[letter.number] = len(receivers)
        for peer in receivers:
            self._links[peer].unacknowledged[letter.number] = None

    def _forget_if_acknowledged(self, number: int) -> None:
        assert self._owed_to[number] > 0, number
        self._owed_to[number] -= 1
        if not self._owed_to[number]:
            self.env.store(f"letter/{number}", None)
            self._slots -= slots(self._letters.pop(number).payload)
            del self._owed_to[number]

    def _fill_window(self, peer: str) -> None:
        """Repeat the oldest letters that are due, up to the size of the window."""
        link = self._links[peer]
        # The letters in the window are always among the oldest.
        for number in islice(link.unacknowledged, WINDOW):
            if number <= link.due and number not in link.window:
                assert len(link.window) < WINDOW, peer
                link.window[number] = None
                self.env.send(peer, self._letters[number], Purpose.REPAIR)

    def _wait(self, peer: str) -> None:
        self.env.set_timer(peer, self._links[peer].wait_ms * self.env.random.uniform(1, JITTER) / 1000)


class _Link:
    """The letters that one host has not acknowledged, by number in the order of sending, and the state of their repetition."""

    def __init__(self, wait_ms: float) -> None:
        self.unacknowledged: dict[int, None] = {}
        self.window: dict[int, None] = {}
        """The letters that were repeated since the timer last expired."""
        self.due = 0
        """The highest number that may be repeated: a letter sent after the timer was set may still be on its way."""
        self.wait_ms = wait_ms
