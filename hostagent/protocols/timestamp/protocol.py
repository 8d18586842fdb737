"""Time stamps: messages are delivered in the order of logical clocks, each when nothing earlier can be outstanding.

Source: Lamport, "Time, clocks, and the ordering of events in a distributed system" (1978); Schneider, "Synchronization in distributed
programs" (1982); the third paper, section 2.2.

How. A source stamps its message with its logical clock and its name and sends it to everybody; all its messages are one stream with
numbers, and what is missing is asked for. A host that gets a message sets its clock beyond that. A message is delivered when every host
has sent something with a later time stamp, and all that it had sent before has arrived. Any host may send to any group, so the possible
sources of a host's groups are all hosts of the run, and everybody is waited for; a host outside the group gets a message too and passes
it over.

Silent hosts. With `silent=answer`, a host answers each message with its clock, unless it has already said a later one. With
`silent=null`, it says its clock when somebody may wait for it, that is, when a message has come, and it has then said nothing for
`silence_ms`. Hosts that all have something to say within that time need no other packets.

Model. Datagrams are lost, duplicated and reordered; hosts crash and restart with their storage.

Guarantees. No creation, no duplication, no gaps, multiple-group order and causal order, strictly: time stamps are never changed, they are
later than those of all causes, and a host that delivers knows all earlier ones. A host that is down or cut off stops everybody, dead or
not, so nothing is promised before all hosts are connected (`quorum`). Then everything is delivered.

Messages. With `answer`: n - 1 packets with the message, and n - 1 answers of each of the n - 1 other hosts: n (n - 1), all data; n on a
network that multicasts; 2 L. With `null` and all hosts busy: n - 1, or 1; L and the longest silence. n is the number of all hosts,
whatever the group. Whoever waits in vain asks again (control) and is answered (repair).

What is kept. A source keeps a message, on stable storage, until everybody has said that it has it; everybody keeps what it has not
delivered. A source has at most `window` messages that not all have; others wait.

Decisions. The papers do not say what a silent host does, nor how losses are repaired; above is what was chosen. A clock that was said is
stored first, so that a host that restarts never sends anything earlier.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import Annotated, Any, Final, Literal

import msgspec

from hostagent.contract.core import Core, Milliseconds, Parameters
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Destination, Message, Purpose
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, Strength
from hostagent.parts.in_order import WINDOW, ranges
from hostagent.parts.questions import JITTER, patience_ms
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.timestamp.messages import MOST_HOSTS, Item, ItemId, Missing, Stamp, destinations, item

# A host that lacks earlier messages of a source keeps so many later ones.
MOST_EARLY: Final = 256


class TimestampParameters(Parameters, frozen=True, kw_only=True):
    """When silent hosts speak, how often a host that waits asks, and how many messages are under way."""

    silent: Literal["answer", "null"] = "answer"
    """A host with nothing to say answers every message with its clock, or says its clock after a time of silence."""
    silence_ms: Milliseconds = 100.0
    """With `null`: after this time a host says its clock, if somebody may wait for it."""
    first_retry_ms: Milliseconds = 500.0
    """Wait for a host whose round trip is not known: more than a queue of 100 packets on a 10 Mbit/s link takes."""
    longest_retry_ms: Milliseconds = 1000.0
    """The wait doubles with each repetition up to this value, or to twice the silence."""
    window: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64
    """Messages of one source that not all hosts have; later ones wait at the source, so that queues stay bounded."""

    @property
    def longest_ms(self) -> float:
        """The longest wait before a question is repeated."""
        return max(self.longest_retry_ms, 2 * self.silence_ms if self.silent == "null" else 0.0)


class Timestamp(Core):
    """A host as a source, and as one that everybody waits for."""

    name = "timestamp"
    number = 11
    summary = (
        "messages are delivered in the order of logical clocks, when all hosts have said a later one: one order for all groups"
    )
    assumes = "hosts that crash come back with their storage; everybody waits for them"
    beyond = frozenset({"restart-lost"})
    knows_groups = True
    messages = (Item, Stamp, Missing)
    Parameters = TimestampParameters
    parameters: TimestampParameters

    def __init__(self, env: Environment, parameters: TimestampParameters) -> None:
        super().__init__(env, parameters)
        self.clock = 0
        """Lamport's clock: above that of all messages that this host has sent or received."""
        self.told = 0
        """The clock that this host last told everybody."""
        self.last = dict.fromkeys(env.hosts, 0)
        """For each host, how many of its messages are here, without gaps."""
        self.heard = dict.fromkeys(env.hosts, 0)
        """For each host, a clock above which all of its messages that are not here will be."""
        self.announced: dict[str, Stamp] = {}
        """For each host that has said its clock, and of whose messages some are missing here: what it said."""
        self.early: dict[str, dict[int, Item]] = {}
        self.queue: list[tuple[tuple[int, str], int]] = []
        """Time stamp and number of the messages that are not delivered."""
        self.items: dict[ItemId, Item] = {}
        """The messages in the queue."""
        self.kept: dict[int, Item] = {}
        """This host's own messages that not everybody has."""
        self.have = dict.fromkeys(env.peers, 0)
        """For each other host, how many of this host's messages it has."""
        self.waiting: dict[int, Item] = {}
        """This host's own messages that wait for the window, by their sequence numbers."""
        self.trips = RoundTrips(parameters.longest_ms / 1000, (parameters.first_retry_ms + self._silence_ms) / 1000)
        self.timed: dict[str, int] = {}
        """For each host the number of this host's message whose answer shows how long a round trip takes."""
        self.asked: dict[str, int] = {}
        """For each host that was asked again: how often."""
        self.requested: dict[str, int] = {}
        """For each host the highest number of a message that it was asked for."""
        self.asks = False
        """Whether the timer to ask again is set."""
        self.speaks = False
        """Whether the timer to end a silence is set."""

    @property
    def _silence_ms(self) -> float:
        return self.parameters.silence_ms if self.parameters.silent == "null" else 0.0

    @classmethod
    def promise(cls, parameters: TimestampParameters, hosts: int) -> Promise:
        """One strict order for all groups that respects causes, and that all goes on when everybody is connected."""
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
            *(Guarantee.ACYCLIC_ORDER, Guarantee.NO_GAPS, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        scopes = (Scope.SINGLE_SOURCE, Scope.CAUSAL, Scope.MULTIPLE_GROUP)
        return Promise(
            guarantees=guarantees,
            orders=tuple(Order(scope, Strength.STRICT) for scope in scopes),
            patience_ms=patience_ms(parameters.longest_ms, 3),
            quorum=hosts,
            retained=10 * hosts,
        )

    @classmethod
    def check(cls, parameters: TimestampParameters, hosts: tuple[str, ...]) -> None:  # noqa: ARG003 - they fit any hosts
        """Refuse more hosts than a time stamp has room for."""
        if len(hosts) > MOST_HOSTS:
            raise ValueError(f"timestamp is for at most {MOST_HOSTS} hosts, as each answer has a number for every host")

    @classmethod
    def most_copies(cls, hosts: int) -> int:
        """The message, and the answers of everybody to everybody."""
        return hosts * (hosts - 1)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the streams. What others have said must be said again, so everybody is asked."""
        self.clock = self.told = stored.get("clock", 0)
        for key, value in stored.items():
            match key.split("/"):
                case ["passed", host]:
                    number, clock = value
                    self.last[host] = max(self.last[host], number)
                    self.clock = max(self.clock, clock)
                case ["item", host, number_text]:
                    kept = Item(*value)
                    self.items[host, int(number_text)] = kept
                    self.last[host] = max(self.last[host], kept.number)
                    self.clock = max(self.clock, kept.clock)
                    heappush(self.queue, (kept.stamp, kept.number))
                case ["sent", number_text]:
                    self.kept[int(number_text)] = Item(*value)
                case ["waiting", sequence]:
                    self.waiting[int(sequence)] = Item(*value)
        self.kept = dict(sorted(self.kept.items()))
        self.waiting = dict(sorted(self.waiting.items()))
        self.have = dict.fromkeys(self.env.peers, next(iter(self.kept), self.last[self.env.host] + 1) - 1)
        self._release()
        self._deliver()
        self._ask_later()

    # The source.

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Stamp a message and send it to everybody, or let it wait."""
        self.waiting[sequence] = item(to, (self.env.host, sequence), payload, self.env.hosts)
        if len(self.waiting) > 1 or len(self.kept) >= self.parameters.window:
            self.env.store(f"waiting/{sequence}", msgspec.structs.astuple(self.waiting[sequence]))
        self._release()

    def _release(self) -> None:
        """Send messages that wait, as many as the window allows."""
        while self.waiting and len(self.kept) < self.parameters.window:
            sequence, message = next(iter(self.waiting.items()))
            del self.waiting[sequence]
            self.env.store(f"waiting/{sequence}", None)
            self._send(message)

    def _send(self, message: Item) -> None:
        self._set_clock(self.clock + 1)
        number = self.last[self.env.host] + 1
        message = msgspec.structs.replace(message, number=number, clock=self.clock)
        if self.env.peers:
            self.kept[number] = message
            self.env.store(f"sent/{number}", msgspec.structs.astuple(message))
        self.env.multicast(EVERYBODY, message, Purpose.DATA)
        self._was_told()
        for peer in self.env.peers:
            if peer not in self.timed:
                self.timed[peer] = number
                self.trips.asked(peer, self.env.now())
        self._put(message)
        self._deliver()
        self._ask_later()

    def _forget(self, peer: str, number: int) -> None:
        """Another host has this many of this host's messages. Forget those that all have."""
        if number <= self.have[peer]:
            return
        if self.timed.get(peer, number + 1) <= number:
            del self.timed[peer]
            self.trips.answered(peer, self.env.now())
        self.have[peer] = number
        self.asked.pop(peer, None)
        everybody = min(self.have.values())
        for old in [old for old in self.kept if old <= everybody]:
            del self.kept[old]
            self.env.store(f"sent/{old}", None)
        self._release()

    # The clock.

    def _set_clock(self, clock: int) -> None:
        self.clock = clock
        self.env.store("clock", clock)

    def _was_told(self) -> None:
        """Everybody is sent this host's clock: nobody needs to be told after a silence."""
        self.told = self.clock
        if self.speaks:
            self.speaks = False
            self.env.cancel_timer("silence")

    def _tell_of(self, message: Item) -> None:
        """Others may wait for a time stamp of this host above that of a message: say it at once, or after a silence."""
        if self._is_beyond(self.told, self.env.host, message.stamp):
            return
        if self.parameters.silent == "answer":
            self._tell(message)
        elif not self.speaks:
            self.speaks = True
            self.env.set_timer("silence", self.parameters.silence_ms / 1000)

    def _tell(self, about: Item) -> None:
        self.env.multicast(EVERYBODY, self._stamp((about.group, *_id(about))), Purpose.DATA)
        self._was_told()

    def _stamp(self, about: tuple[int, str, int], *, asks: bool = False) -> Stamp:
        """This host's clock. Whoever hears it relies on it, so it is stored."""
        self.env.store("clock", self.clock)
        have = tuple(self.last[host] for host in self.env.hosts)
        return Stamp(*about, self.clock, self.last[self.env.host], have, asks)

    @staticmethod
    def _is_beyond(clock: int, host: str, stamp: tuple[int, str]) -> bool:
        """Whether a host that has said this clock sends nothing more with an earlier time stamp. A source's own come in their order."""
        return host == stamp[1] or (clock, host) > stamp

    # Whoever receives.

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A message, a clock, or a request."""
        match message:
            case Item(origin=origin) if origin == sender:
                self._take(message)
            case Stamp():
                self._hear(sender, message)
            case Missing(origin=self.env.host):
                self._send_again(sender, message)

    def _take(self, message: Item) -> None:
        """Put a message into its place in the stream of its source, and ask for what is missing before it."""
        source, number = message.origin, message.number
        if number <= self.last[source]:
            return
        early = self.early.setdefault(source, {})
        if number <= self.last[source] + MOST_EARLY:
            early[number] = message
        while (next_ := early.pop(self.last[source] + 1, None)) is not None:
            self._put(next_)
            self._tell_of(next_)
        if not early:
            del self.early[source]
        else:
            self._request(source, max(early), again=False)
        self._apply(source)
        self._deliver()
        self._ask_later()

    def _put(self, message: Item) -> None:
        """A message is the next in the stream of its source: it waits in the queue, and the clock goes beyond its time stamp."""
        source, number = message.origin, message.number
        self.last[source] = number
        self.clock = max(self.clock, message.clock) + (source != self.env.host)
        self.heard[source] = max(self.heard[source], message.clock)
        self.items[source, number] = message
        self.env.store(f"item/{source}/{number}", msgspec.structs.astuple(message))
        heappush(self.queue, (message.stamp, number))
        self.env.receive(*_id(message))

    def _hear(self, sender: str, stamp: Stamp) -> None:
        """A host has said its clock, and what it has."""
        self.clock = max(self.clock, stamp.clock)
        known = self.announced.get(sender)
        if known is None or stamp.clock >= known.clock:
            self.announced[sender] = stamp
        self._forget(sender, stamp.have[self.env.hosts.index(self.env.host)])
        self._apply(sender)
        if sender in self.announced:
            self._request(sender, stamp.last, again=False)
        if stamp.asks:
            self.env.send(sender, self._stamp((EVERYBODY, self.env.host, 0)), Purpose.REPAIR)
        self._deliver()
        self._ask_later()

    def _apply(self, host: str) -> None:
        """Believe what a host said of its clock, once all of its messages up to then are here."""
        stamp = self.announced.get(host)
        if stamp is not None and stamp.last <= self.last[host]:
            del self.announced[host]
            if stamp.clock > self.heard[host]:
                self.heard[host] = stamp.clock
                self.asked.pop(host, None)

    def _deliver(self) -> None:
        """Deliver the messages with the smallest time stamps, as long as no host can send one that is smaller."""
        while self.queue:
            (clock, source), number = self.queue[0]
            if not all(self._is_beyond(self._clock_of(host), host, (clock, source)) for host in self.env.hosts):
                return
            heappop(self.queue)
            message = self.items.pop((source, number))
            self.env.store(f"item/{source}/{number}", None)
            self.env.store(f"passed/{source}", (number, clock))
            if self.env.host in destinations(message, self.env.groups, self.env.hosts):
                self.env.deliver(source, message.sequence, message.payload)

    def _clock_of(self, host: str) -> int:
        return self.clock if host == self.env.host else self.heard[host]

    # Whoever waits asks.

    def _owing(self) -> list[str]:
        """The hosts that are waited for: for a clock, for messages, or for a sign that they have this host's messages."""
        first = self.queue[0][0] if self.queue else None
        last_kept = next(reversed(self.kept), 0)
        return [
            host
            for host in self.env.peers
            if (first and not self._is_beyond(self.heard[host], host, first))
            or self.have[host] < last_kept
            or host in self.announced
            or host in self.early
        ]

    def _ask_later(self) -> None:
        """Ask again if somebody is waited for, after the time that its answer should take; longer with each time."""
        if not self.asks and (owing := self._owing()):
            self.asks = True
            wait_s = max(self.trips.wait_s(host, min(self.asked.get(host, 0), 20)) for host in owing)
            self.env.set_timer("ask", wait_s * self.env.random.uniform(1.0, JITTER))

    def on_timer(self, name: str) -> None:
        """A silence has lasted long enough, or somebody has been waited for in vain."""
        match name:
            case "silence":
                self.speaks = False
                if self.queue:
                    self._tell(self.items[self.queue[0][0][1], self.queue[0][1]])
                else:
                    self.env.multicast(EVERYBODY, self._stamp((EVERYBODY, self.env.host, 0)), Purpose.DATA)
                    self._was_told()
                self._deliver()
            case "ask":
                self.asks = False
                for host in self._owing():
                    self.timed.pop(host, None)
                    self.trips.forget(host)
                    self.asked[host] = self.asked.get(host, 0) + 1
                    self.env.send(host, self._stamp((EVERYBODY, self.env.host, 0), asks=True), Purpose.CONTROL)
                    known = max([0, *self.early.get(host, ())])
                    if host in self.announced:
                        known = max(known, self.announced[host].last)
                    self._request(host, known, again=True)
                self._ask_later()
            case _:
                super().on_timer(name)

    def _request(self, source: str, number: int, *, again: bool) -> None:
        """Ask a source for its messages up to a number that are missing here; once, and again when the time is up."""
        early = self.early.get(source, {})
        missing = list(islice((n for n in range(self.last[source] + 1, number + 1) if n not in early), WINDOW))
        if missing and (again or self.requested.get(source, 0) < missing[-1]):
            self.requested[source] = missing[-1]
            self.env.send(source, Missing(EVERYBODY, source, 0, ranges(missing)), Purpose.CONTROL)

    def _send_again(self, to: str, request: Missing) -> None:
        numbers = (n for first, end in request.missing for n in range(first, min(end, self.last[self.env.host]) + 1))
        for number in islice(numbers, WINDOW):
            if number in self.kept:
                self.env.send(to, self.kept[number], Purpose.REPAIR)


def _id(message: Item) -> tuple[str, int]:
    return message.origin, message.sequence
