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

Guarantees. No creation, no duplication, no gaps, multiple-group order and causal order, strictly: time stamps of what was delivered are
never changed, they are later than those of all causes, and a host that delivers knows all earlier ones. With `detector=none`, a host that
is down or cut off stops everybody, dead or not, so nothing is promised before all hosts are connected (`quorum`). Then everything is
delivered.

With `detector=suspect`, a majority of all hosts goes on without those that seem dead, and takes them in again when they are back:
`views.py` says how. The same guarantees hold, as strictly, whomever the detector suspects wrongly: a host that is taken out cannot go on
by itself, loses nothing, and stamps anew what had not reached the others. Progress needs a majority that is connected. The price: a
message is delivered only when all members of the view have it, which each must say, so the others answer every message also when they are
busy; heartbeats; and everybody keeps every message until all hosts have delivered it, also those that are dead.

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
from typing import Any, Final

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Destination, Message, Purpose, hosts_in
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, Strength
from hostagent.parts.questions import patience_ms
from hostagent.protocols.timestamp.asking import Asking
from hostagent.protocols.timestamp.messages import MOST_HOSTS, Have, Install, Item, ItemId, Missing, Stamp, destinations, item
from hostagent.protocols.timestamp.parameters import TimestampParameters
from hostagent.protocols.timestamp.standing import Standing
from hostagent.protocols.timestamp.views import Views

# A host that lacks earlier messages of a source keeps so many later ones.
MOST_EARLY: Final = 256


class Timestamp(Core):
    """A host as a source, and as one that everybody waits for."""

    name = "timestamp"
    number = 11
    summary = (
        "messages are delivered in the order of logical clocks, when all hosts have said a later one: one order for all groups"
    )
    assumes = "hosts that crash come back with their storage, or with detector=suspect a majority does"
    beyond = frozenset({"restart-lost"})
    knows_groups = True
    messages = (Item, Stamp, Missing, *Views.messages)
    waits = ("longest_retry_ms", "timeout_ms", "longest_timeout_ms")
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
        """The messages in the queue, and those that somebody else may still lack."""
        self.passed = dict.fromkeys(env.hosts, 0)
        """For each host, how many of its messages were delivered or passed over here."""
        nothing = (0,) * len(env.hosts)
        self.has: dict[str, Have] = dict.fromkeys(env.peers, nothing)
        """What each other host has, as it has said in this view."""
        self.done: dict[str, Have] = dict.fromkeys(env.peers, nothing)
        """What each other host has delivered or passed over, as it has said."""
        self.view, self.members = 0, env.hosts
        self.cut: dict[str, int] = {}
        """For each host, how many of its messages of earlier views there are."""
        self.waiting: dict[int, Item] = {}
        """This host's own messages that wait for the window, by their sequence numbers."""
        self.views = self.add("views", lambda own: Views(own, parameters, self)) if parameters.detector == "suspect" else None
        self.standing = self.add("standing", lambda own: Standing(own, self))
        self.asking = self.add("asking", lambda own: Asking(own, parameters, self))
        self.known: dict[str, int] = {}
        """For each host, how many messages of it there are, as a view said."""
        self.speaks = False
        """Whether the timer to end a silence is set."""

    @classmethod
    def promise(cls, parameters: TimestampParameters, hosts: int) -> Promise:
        """One strict order for all groups that respects causes, and that all goes on when everybody is connected."""
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
            *(Guarantee.ACYCLIC_ORDER, Guarantee.NO_GAPS, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        scopes = (Scope.SINGLE_SOURCE, Scope.CAUSAL, Scope.MULTIPLE_GROUP)
        suspects = parameters.detector == "suspect"
        return Promise(
            guarantees=guarantees,
            orders=tuple(Order(scope, Strength.STRICT) for scope in scopes),
            patience_ms=patience_ms(parameters.longest_ms, 3) + (5 * parameters.detection_ms if suspects else 0.0),
            quorum=hosts // 2 + 1 if suspects else hosts,
            background_per_second=parameters.heartbeats_per_second(hosts) if suspects else 0.0,
            retained=20 * hosts + 2 * hosts * hosts,
        )

    @classmethod
    def check(cls, parameters: TimestampParameters, hosts: tuple[str, ...]) -> None:
        """Refuse time-outs that make no sense, and more hosts than a time stamp has room for."""
        if len(hosts) > MOST_HOSTS:
            raise ValueError(f"timestamp is for at most {MOST_HOSTS} hosts, as each answer has a number for every host")
        if parameters.detector == "suspect":
            parameters.check_detector()

    @classmethod
    def most_lost(cls, parameters: TimestampParameters, hosts: int) -> int:
        """With a detector any minority. Otherwise nothing is due while somebody is lost, but the order must hold."""
        return (hosts - 1) // 2 if parameters.detector == "suspect" else hosts

    @classmethod
    def most_copies(cls, hosts: int) -> int:
        """The message, and the answers of everybody to everybody."""
        return hosts * (hosts - 1)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the streams. What others have said must be said again, so everybody is asked."""
        self.clock = stored.get("clock", 0)
        for key, value in stored.items():
            match key.split("/"):
                case ["passed", host]:
                    self.passed[host], clock = value
                    self.clock = max(self.clock, clock)
                case ["item", host, number]:
                    self.items[host, int(number)] = Item(*value)
                case ["waiting", sequence]:
                    self.waiting[int(sequence)] = Item(*value)
        self.items = dict(sorted(self.items.items()))
        self.waiting = dict(sorted(self.waiting.items()))
        for host in self.env.hosts:
            self.last[host] = max([self.passed[host], *(number for source, number in self.items if source == host)])
        for kept in self.items.values():
            self.clock = max(self.clock, kept.clock)
            if kept.number > self.passed[kept.origin]:
                heappush(self.queue, (kept.stamp, kept.number))
        self._release()
        self._deliver()
        self.asking.later()

    # The source.

    @property
    def unfinished(self) -> int:
        """The messages that wait for room in the window."""
        return len(self.waiting)

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Stamp a message and send it to everybody, or let it wait."""
        self.waiting[sequence] = item(to, (self.env.host, sequence), payload, self.env.hosts)
        if len(self.waiting) > 1 or not self._may_send():
            self.env.store(f"waiting/{sequence}", msgspec.structs.astuple(self.waiting[sequence]))
        self._release()

    def _may_send(self) -> bool:
        """Whether the window has room, and this host is waited for, and has its own messages of earlier views that others have."""
        own = self.env.host
        under_way = self.last[own] - (self.passed[own] if self.views else min(self._everybody_has(own), self.passed[own]))
        return under_way < self.parameters.window and self._counts() and self.last[own] >= self.cut.get(own, 0)

    def _counts(self) -> bool:
        """Whether this host is a member, and may say its clock."""
        return self.views is None or (self.env.host in self.members and not self.views.is_frozen)

    def _release(self) -> None:
        """Send messages that wait, as many as the window allows."""
        while self.waiting and self._may_send():
            sequence, message = next(iter(self.waiting.items()))
            del self.waiting[sequence]
            self.env.store(f"waiting/{sequence}", None)
            self._send(message)

    def _send(self, message: Item) -> None:
        self._set_clock(self.clock + 1)
        number = self.last[self.env.host] + 1
        message = msgspec.structs.replace(message, number=number, clock=self.clock, view=self.view)
        self.env.multicast(EVERYBODY, message, Purpose.DATA)
        self._was_told()
        self.asking.sent(number)
        self._put(message)
        self._deliver()
        self.asking.later()

    def _everybody_has(self, source: str) -> int:
        """How many messages of a source nobody will ask this host for any more."""
        place = self.env.hosts.index(source)
        if self.views:
            return min([self.passed[source], *(done[place] for done in self.done.values())])
        if source != self.env.host:
            return self.passed[source]
        return min((has[place] for has in self.has.values()), default=self.last[source])

    def _forget(self, source: str) -> None:
        """Forget the messages of a source that were delivered here and that nobody will ask for."""
        up_to = min(self._everybody_has(source), self.passed[source])
        for old in [old for host, old in self.items if host == source and old <= up_to]:
            del self.items[source, old]
            self.env.store(f"item/{source}/{old}", None)

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
        if not self._counts() or (self._is_beyond(self.told, self.env.host, message.stamp) and self.views is None):
            return
        if self.parameters.silent == "answer":
            self._tell((message.group, *_id(message)))
        elif not self.speaks:
            self.speaks = True
            self.env.set_timer("silence", self.parameters.silence_ms / 1000)

    def _tell(self, about: tuple[int, str, int]) -> None:
        self.env.multicast(EVERYBODY, self.stamp(about), Purpose.DATA)
        self._was_told()

    def stamp(self, about: tuple[int, str, int] | None = None, *, asks: bool = False) -> Stamp:
        """This host's clock. Whoever hears it relies on it, so it is stored. A host that has voted for another view says nothing of it."""
        about = about or (EVERYBODY, self.env.host, 0)
        passed = tuple(self.passed[host] for host in self.env.hosts) if self.views else ()
        if not self._counts():
            return Stamp(*about, 0, 0, (0,) * len(self.env.hosts), asks, self.view, passed)
        self.env.store("clock", self.clock)
        return Stamp(*about, self.clock, self.last[self.env.host], self.all_here(), asks, self.view, passed)

    def all_here(self) -> Have:
        """How many messages of each host are here, without gaps."""
        return tuple(self.last[host] for host in self.env.hosts)

    @staticmethod
    def _is_beyond(clock: int, host: str, stamp: tuple[int, str]) -> bool:
        """Whether a host that has said this clock sends nothing more with an earlier time stamp. A source's own come in their order."""
        return host == stamp[1] or (clock, host) > stamp

    # Whoever receives.

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A message, a clock, or a request; with a detector, also what changes the view."""
        if self.views is not None:
            if isinstance(message, Views.messages):
                self.views.on_message(sender, message, expensive)
            self.views.detector.heard(sender)
        match message:
            case Item() | Stamp() | Missing() if message.view != self.view:
                self._compare_views(sender, message)
            case Item(origin=origin) if origin == sender or self.views:
                self._take(message)
            case Stamp():
                self._hear(sender, message)
            case Missing(origin=origin) if origin == self.env.host or self.views:
                self.asking.send_again(sender, message)

    def _compare_views(self, sender: str, message: Item | Stamp | Missing) -> None:
        """Another host has another view: it is told this one, or asked for its own."""
        if self.views is not None and message.view < self.view:
            self.views.tell(sender)
        elif self.views is not None and not (isinstance(message, Stamp) and message.asks and message.clock == 0):
            self.env.send(sender, self.stamp(asks=True), Purpose.CONTROL)

    def restore_view(self, view: Install) -> None:
        """After a restart, and when a view is new: this view is the last."""
        self.view, self.members = view.view, hosts_in(view.members, self.env.hosts)
        self.cut = dict(zip(self.env.hosts, view.cut, strict=True))
        self.known = dict(self.cut)

    def enter(self, view: Install) -> None:
        """Install a view: drop what is void, and say everything anew."""
        self.restore_view(view)
        self.standing.enter(view.base)
        self.waiting = dict(sorted(self.waiting.items()))
        self.queue = sorted((kept.stamp, kept.number) for kept in self.items.values() if kept.number > self.passed[kept.origin])
        nothing = (0,) * len(self.env.hosts)
        self.has = dict.fromkeys(self.env.peers, nothing)
        self.heard = dict.fromkeys(self.env.hosts, 0)
        self.announced.clear()
        self.early.clear()
        self.asking.clear()
        self._set_clock(max(self.clock, view.clock))
        self.env.trace("view-of-sources", view=view.view, members=self.members)
        if self._counts() and self.env.peers:
            self.env.multicast(EVERYBODY, self.stamp(), Purpose.CONTROL)
            self._was_told()
        for host in self.env.hosts:
            self.asking.request(host, self.known[host], again=False)
        self._release()
        self._deliver()
        self.asking.later()

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
            self.asking.request(source, max(early), again=False)
        self._apply(source)
        self._deliver()
        self.asking.later()

    def _put(self, message: Item) -> None:
        """A message is the next in the stream of its source: it waits in the queue, and the clock goes beyond its time stamp."""
        source = message.origin
        self.clock = max(self.clock, message.clock) + (source != self.env.host)
        self.heard[source] = max(self.heard[source], message.clock)
        message = msgspec.structs.replace(message, view=0)
        self.standing.keep(message)
        heappush(self.queue, (message.stamp, message.number))
        self.env.receive(*_id(message))

    def _hear(self, sender: str, stamp: Stamp) -> None:
        """A host has said its clock, and what it has."""
        self.clock = max(self.clock, stamp.clock)
        known = self.announced.get(sender)
        if known is None or stamp.clock >= known.clock:
            self.announced[sender] = stamp
        self._note(sender, stamp)
        self._apply(sender)
        if sender in self.announced:
            self.asking.request(sender, stamp.last, again=False)
        if stamp.asks:
            self.env.send(sender, self.stamp(), Purpose.REPAIR)
        self._deliver()
        self.asking.later()

    def _note(self, host: str, stamp: Stamp) -> None:
        """A host has said what it has. Forget what nobody needs, and send what waited for room."""
        self.asking.arrived(host, stamp.have[self.env.hosts.index(self.env.host)])
        has = tuple(map(max, self.has[host], stamp.have))
        done = tuple(map(max, self.done[host], stamp.passed)) if stamp.passed else self.done[host]
        if (has, done) != (self.has[host], self.done[host]):
            self.has[host], self.done[host] = has, done
            self.asking.answered(host)
            for source in self.env.hosts if self.views else (self.env.host,):
                self._forget(source)
            for source, number in zip(self.env.hosts, has, strict=True) if self.views else ():
                self.known[source] = max(number, self.known.get(source, 0))
                self.asking.request(source, number, again=False)
            self._release()

    def _apply(self, host: str) -> None:
        """Believe what a host said of its clock, once all of its messages up to then are here."""
        stamp = self.announced.get(host)
        if stamp is not None and stamp.last <= self.last[host]:
            del self.announced[host]
            if stamp.clock > self.heard[host]:
                self.heard[host] = stamp.clock
                self.asking.answered(host)

    def _deliver(self) -> None:
        """Deliver the messages with the smallest time stamps, as long as no host can send one that is smaller."""
        if any(self.last[host] < number for host, number in self.cut.items()):
            # A source that is no member any more may have sent earlier messages, which somebody else has.
            return
        if self.views:
            self.standing.complete()
        while self.queue:
            (clock, source), number = self.queue[0]
            if any(self.waits_for(host, (clock, source), number) for host in self.members):
                return
            heappop(self.queue)
            message = self.items.get((source, number))
            if message is None:
                # Its source has lost its storage, and with it its clock, so a later message came first.
                continue
            self.passed[source] = number
            self.env.store(f"passed/{source}", (number, clock))
            if self.env.host in destinations(message, self.env.groups, self.env.hosts):
                self.env.deliver(source, message.sequence, message.payload)
            self._forget(source)
            self._release()

    def waits_for(self, host: str, stamp: tuple[int, str], number: int) -> bool:
        """Whether a host may send something earlier than a message or, with a detector, may not have that message."""
        if not self._is_beyond(self._clock_of(host), host, stamp):
            return True
        if self.views is None or host == self.env.host:
            return False
        # A host that lacks messages of earlier views does not vote as one that has those of this view.
        lacks_some = any(number < last for number, last in zip(self.has[host], self.cut.values(), strict=False))
        return lacks_some or (host != stamp[1] and self.has[host][self.env.hosts.index(stamp[1])] < number)

    def known_of(self, source: str) -> int:
        """How many messages of a source there are, as far as this host knows."""
        told = self.announced.get(source)
        return max(self.known.get(source, 0), told.last if told else 0, max(self.early.get(source, {}), default=0))

    def _clock_of(self, host: str) -> int:
        return self.clock if host == self.env.host else self.heard[host]

    def on_timer(self, name: str) -> None:
        """A silence has lasted long enough."""
        if name != "silence":
            super().on_timer(name)
        self.speaks = False
        about = self.items[self.queue[0][0][1], self.queue[0][1]] if self.queue else None
        self._tell((about.group, *_id(about)) if about else (EVERYBODY, self.env.host, 0))
        self._deliver()


def _id(message: Item) -> tuple[str, int]:
    return message.origin, message.sequence
