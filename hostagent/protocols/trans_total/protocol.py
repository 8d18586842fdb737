"""Trans and Total: messages acknowledge each other, which gives a partial order, and votes in it give a total order.

Source: Melliar-Smith, Moser and Agrawala, "Broadcast Protocols for Distributed Systems", IEEE TPDS 1 (1), 1990, as the third paper
(Spauster) sketches it in section 2.6 with Figure 2.2. The text itself was not at hand. What is generally known of Total: it makes a total
order of the causal one without further messages, by votes on candidate sets in several stages, while fewer than a third of the processes
have failed, and ends with probability 1 because the causal order is random. The rules here are a reconstruction within that frame.

Model. Datagrams are lost, duplicated and reordered; hosts crash, for good or to restart with their storage. There is no failure detector,
no leader and no token.

Trans (`graph.py`). Each message, of the application or a null message, acknowledges what its host has received and what nobody whom it
acknowledges has acknowledged, and negatively what its host misses. So each acknowledgement is sent once, others follow from it, and
everybody learns who has what. That is the partial order: a message follows what its host had when it was sent. Whoever has a message sends
it again if asked (`hostagent.parts.misses`): with `repair=asked`, one host that acknowledged it, then its source, then others, to the asker
alone; with `repair=anyone`, as in the original, whoever has it, to everybody, after a random time in which nobody else has.

Total (`total.py`). The total order is extended by sets of candidates, on which all later messages vote by what they follow. It is a
function of the partial order that never takes anything back when the partial order grows; the proof is in `total.py`. So two hosts, however
different the parts of the partial order that they know, deliver in one order, and so does a host that fails: each delivers a beginning of
what the union of both graphs gives. All orders are strict for that reason, and causal order follows too: what a host has
delivered when it sends a message is the beginning of everybody's order, and the new message is not in it.

Silent hosts. A host that has nothing to say sends a null message, after a random time of up to `acknowledge_ms`, if it has not acknowledged
a message of the application that is in its graph, or if one is not in the total order and a null message would vote in a new stage. From
stage 2 on it waits longer for votes that have not come, as hosts that always hear the same others first would never agree (`total.py`).
Null messages are not ordered, and nobody has to acknowledge them: so there is rest when all messages of the application are acknowledged
and ordered, and while there are too few hosts to decide, no host speaks again and again.

Who knows nothing of a message cannot ask for it. So a host that has not acknowledged a message of the application in time is sent a
`Status`, at first by the source and later by others too, repeated ever less often; it asks for what it lacks, and answers with a `Status`.
A host that waits for votes in vain, or restarts, sends its own to everybody.

Guarantees. No creation, no duplication; single-source, causal, multiple-source and multiple-group order, strict; one global order; no gaps.
Progress and convergence while n - k hosts are up and connected, k < n / 3 (`resilience`): with fewer, nothing is delivered until they are
back. Among two or three hosts, none may be missing.

Groups. Everybody gets every message, since everybody votes; only its destinations deliver it. So it is not genuine, and costs what a
message to everybody costs.

Messages. With silent hosts, n - 1 packets with a message (data) and n - 1 from each other host for its null message (control): n (n - 1) in
all, and n on a network that multicasts; the last host delivers after 2 L and `acknowledge_ms`. Null messages acknowledge all that came in
their time, so there are fewer when messages come faster, and more when messages cross and a vote takes another stage. If all hosts are
busy, n - 1 packets, or 1 on a network that multicasts, and nothing else. `Ask` and `Status` only if something was lost or is late.

Memory. A message is forgotten when it is ordered here and messages of all hosts follow it. `window` bounds what a host has sent and what
is not ordered; more waits at its source. A host that is dead acknowledges nothing, so everything since its death is kept for it, and that
is not bounded. With `history` it is: a host waits when so many of its own messages are kept, so that then one dead host stops all.

Decisions. (1) A negative acknowledgement does not stop what follows: in the original as in Figure 2.2, a message may acknowledge another
although it misses one that the other follows. Such an acknowledgement counts for the partial order only when somebody who has everything
repeats it or acknowledges the message with it; otherwise a message that is lost with all its holders would block everybody (`graph.py`).
(2) A message that another misses is acknowledged once more, by name, by the next message of whoever has it: the c in Fce of Figure 2.2.
(3) A vote is for a set as a whole, not for or against each set by itself; one in stage 1 may be for all candidates that are named. (4) The
third paper's sketch says nothing of hosts that are silent, dead or late: null messages, `Status` and all bounds are ours.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from hostagent.contract.core import Core, Milliseconds, Parameters
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, LISTED, Destination, Message, Purpose, host_set, hosts_in
from hostagent.contract.promises import Carrier, Guarantee, Order, Promise, Scope, Strength
from hostagent.parts.misses import Ask, Misses
from hostagent.protocols.trans_total.graph import Graph
from hostagent.protocols.trans_total.messages import (
    MOST_ACKS,
    MOST_ACKS_OF_NULL,
    MOST_HEARD,
    MOST_HOSTS,
    MOST_MISSES,
    Mark,
    Said,
    Status,
)
from hostagent.protocols.trans_total.reminders import Reminders
from hostagent.protocols.trans_total.total import Total

MOST_DOUBLINGS: Final = 20
"""By then the wait for votes is the longest for sure."""


class TransTotalParameters(Parameters, frozen=True, kw_only=True):
    """How soon a silent host acknowledges, how soon it asks again, and how many hosts may fail."""

    acknowledge_ms: Milliseconds = 10.0
    """A host with nothing to say acknowledges a message of the application after a random time between half of this and all of it."""
    retry_ms: Milliseconds = 200.0
    """How long an answer is awaited from a host whose round trips are not known yet."""
    longest_retry_ms: Milliseconds = 1000.0
    """The wait doubles with each repetition up to this value, also where a host is down."""
    window: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 128
    """Messages of a host that are sent and not in the total order. Further ones wait at their source."""
    history: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """Messages of a host that are sent and that not everybody has acknowledged. Further ones wait at their source; 0 for no bound."""
    repair: Literal["asked", "anyone"] = "asked"
    """Who sends again what a host misses: the one that it asks, to it alone, or anyone who has it, to everybody."""
    resilience: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = None
    """How many hosts may be dead while the others go on: fewer than a third, and as many as that allows if nothing is said."""

    def most_dead(self, hosts: int) -> int:
        """The resilience among so many hosts."""
        return (hosts - 1) // 3 if self.resilience is None else self.resilience


class TransTotal(Core):
    """One host: it acknowledges, votes by that, and delivers in the total order."""

    name = "trans-total"
    number = 13
    summary = (
        "Trans and Total: acknowledgements on each message make a partial order, votes in it one total order; no leader, no token"
    )
    assumes = (
        "hosts keep their storage; fewer than a third of them are dead or cut off, else nothing is delivered until they are back"
    )
    beyond = frozenset({"restart-lost"})
    all_relay = True
    knows_groups = True
    messages = (Said, Status, Ask)
    waits = ("longest_retry_ms",)
    Parameters = TransTotalParameters
    parameters: TransTotalParameters

    def __init__(self, env: Environment, parameters: TransTotalParameters) -> None:
        super().__init__(env, parameters)
        hosts, resilience = env.hosts, parameters.most_dead(len(env.hosts))
        self._silence_s, first_s = parameters.acknowledge_ms / 1000, parameters.retry_ms / 1000
        self._longest_s = longest_s = max(parameters.retry_ms, parameters.longest_retry_ms) / 1000
        self._place = hosts.index(env.host)
        self._places = {host: place for place, host in enumerate(hosts)}
        self.graph = Graph(len(hosts))
        self.total = Total(self.graph, resilience)
        waits_s, to_all = (self._silence_s, first_s, longest_s), parameters.repair == "anyone"
        self.misses = self.add("misses", lambda own: Misses(own, waits_s, self._send_again, to_all=to_all))
        self.last = [0] * len(hosts)
        """For each host the number of its last message of the application in the graph."""
        self.reminders = self.add("reminders", lambda own: Reminders(own, self, waits_s))
        self._queue: dict[int, tuple[Destination, bytes]] = {}
        """The messages of the application that wait to be sent, by their sequence numbers."""
        self._outstanding = 0
        """The messages of the application at this host that are sent and not in the total order."""
        self._mine: deque[int] = deque()
        """The numbers of the messages of the application at this host that are sent and not forgotten."""
        self._again: dict[Mark, None] = {}
        """Messages that others miss and this host has, to be acknowledged again."""
        self._speaks_soon = self._speaks_later = False
        """Whether a null message is to follow, and whether it waits for more votes."""

    @classmethod
    def promise(cls, parameters: TransTotalParameters, hosts: int) -> Promise:
        """Thirty repetitions in a row fail one time in a million where six of ten do; several null messages may have to follow each other.

        For each host there are vectors of what it has, sets, votes, and null messages that nobody has acknowledged.
        """
        orders = (Scope.SINGLE_SOURCE, Scope.CAUSAL, Scope.MULTIPLE_SOURCE, Scope.MULTIPLE_GROUP)
        return Promise(
            guarantees=(
                *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
                *(Guarantee.ACYCLIC_ORDER, Guarantee.NO_GAPS, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
            ),
            orders=tuple(Order(scope, Strength.STRICT) for scope in orders),
            carrier=Carrier.ANYONE,
            patience_ms=30 * max(parameters.retry_ms, parameters.longest_retry_ms) + 60 * parameters.acknowledge_ms,
            quorum=hosts - cls.most_lost(parameters, hosts),
            retained=4 * hosts * hosts + 40 * hosts + 40,
        )

    @classmethod
    def most_lost(cls, parameters: TransTotalParameters, hosts: int) -> int:
        """As many as the resilience says; with a bounded history, none."""
        return 0 if parameters.history else parameters.most_dead(hosts)

    @classmethod
    def check(cls, parameters: TransTotalParameters, hosts: tuple[str, ...]) -> None:
        """Refuse a resilience of a third of the hosts or more: then the votes of those that live might never decide; and too many hosts."""
        if len(hosts) > MOST_HOSTS:
            raise ValueError(
                f"trans-total takes {MOST_HOSTS} hosts at most, not {len(hosts)}: a datagram holds no more acknowledgements"
            )
        if 3 * parameters.most_dead(len(hosts)) >= len(hosts):
            raise ValueError(
                f"resilience={parameters.resilience}: trans-total goes on only while fewer than a third of the hosts are dead, "
                f"so among {len(hosts)} hosts it is {(len(hosts) - 1) // 3} at most"
            )

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the graph and the order, and ask the others what there is."""
        if not stored:
            return
        hosts = self.env.hosts
        self.graph.restore(tuple(stored.get("floor", self.graph.floor)))
        for place, count in enumerate(self.graph.floor):
            self.misses.restore(hosts[place], count)
        for key, value in stored.items():
            match key.split("/"):
                case ["said", host, number]:
                    self._restore(_restored(host, int(number), value))
                case ["queue", sequence]:
                    group, listed, nth, payload = value
                    self._queue[int(sequence)] = Destination(group, hosts_in(listed, hosts), nth), payload
        self._queue = dict(sorted(self._queue.items()))
        self._deliver(self.total.restore([*stored.get("ordered", self.total.ordered)]))
        own = range(self.graph.floor[self._place] + 1, self.graph.counts[self._place] + 1)
        self._mine.extend(number for number in own if self._of((self._place, number)).sequence)
        self._outstanding = sum(number > self.total.ordered[self._place] for number in self._mine)
        self.reminders.ask_all()
        self.reminders.watch()
        self._go_on()

    @property
    def unfinished(self) -> int:
        """The messages that wait for room."""
        return len(self._queue)

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Send the message to everybody, whoever it is for, or let it wait while too many are not in the total order yet."""
        if self._queue or not self._has_room():
            self._queue[sequence] = to, payload
            self.env.store(f"queue/{sequence}", (to.group, host_set(to.hosts, self.env.hosts), to.nth, payload))
        else:
            self._say(sequence, to, payload)
            self._go_on()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A message for the graph, or what the parts take: what another host has, and what it asks for."""
        if isinstance(message, Said):
            self._take(sender, message)
        else:
            super().on_message(sender, message, expensive)
        self._go_on()

    def on_timer(self, name: str) -> None:
        """Acknowledge and vote without a message of the application, if there was none in time."""
        if name != "speak":
            super().on_timer(name)
        self._speaks_soon = self._speaks_later = False
        if self._has_to_speak():
            self._say()
        self._go_on()

    # Trans: acknowledgements

    def _say(self, sequence: int = 0, to: Destination | None = None, payload: bytes = b"") -> None:
        """Send a message that acknowledges what is not acknowledged yet; a null message if it has no sequence number."""
        misses = tuple((self._places[host], number) for host, number in self.misses.lacking(MOST_MISSES))
        acks, most = self.graph.acknowledgements(self._place, lacks=bool(misses)), MOST_ACKS if sequence else MOST_ACKS_OF_NULL
        while sequence and len(acks) > most:
            self._say()
            acks = self.graph.acknowledgements(self._place, lacks=bool(misses))
        again = [mark for mark in self._again if mark not in acks and self.graph.holds(mark)]
        self._again.clear()
        said = Said(
            to.group if to else EVERYBODY,
            self.env.host,
            sequence,
            self.graph.counts[self._place] + 1,
            (*acks, *again)[:most],
            payload,
            host_set(to.hosts, self.env.hosts) if to and to.group == LISTED else b"",
            tuple(self.graph.heard(MOST_HEARD)) if misses else (),
            misses,
            self.misses.ride(MOST_MISSES),
        )
        self.env.multicast(EVERYBODY, said, Purpose.DATA if sequence else Purpose.CONTROL)
        self.misses.take(self.env.host, said.number)
        if sequence:
            self._outstanding += 1
            self._mine.append(said.number)
            self.reminders.sent(said.number)
        self._keep(said)

    def _take(self, sender: str, said: Said) -> None:
        """A message has arrived: note what it tells, and put it into the graph when all that it follows is there."""
        if said.origin == self.env.host or not self.misses.take(said.origin, said.number):
            return
        self._note(said)
        lacked = [mark for mark in said.misses if mark[0] != self._places[said.origin] and self.graph.said(mark)]
        for mark in lacked:
            self._again[mark] = None
            if sender == said.origin and (said.asked == self.env.host or self.parameters.repair == "anyone"):
                self.misses.asked(sender, self.env.hosts[mark[0]], mark[1])
        self._keep(said)

    def _note(self, said: Said) -> None:
        """A message tells of others: those that it acknowledges, which its host has, and those that its host misses, too."""
        for place, number in (*said.acks, *said.heard):
            self.misses.hear(self.env.hosts[place], number, said.origin)
        for place, number in said.misses:
            self.misses.hear(self.env.hosts[place], number)

    def _keep(self, said: Said) -> None:
        """Store a message, put it into the graph, and deliver what is in the total order now."""
        value = (said.group, said.sequence, said.acks, said.payload, said.listed, said.heard, said.misses)
        self.env.store(f"said/{said.origin}/{said.number}", value)
        entered = self.graph.add(self._places[said.origin], said)
        news = self._enter(entered)
        self._deliver(self.total.extend(entered, news))
        if news:
            self.reminders.watch()

    def _enter(self, marks: list[Mark]) -> list[Mark]:
        """Messages are in the graph now. Returns those of the application."""
        for place, _ in marks:
            self.reminders.acknowledged(self.env.hosts[place], self.graph.latest[place][self._place])
        news = [mark for mark in marks if self._of(mark).sequence]
        for place, number in news:
            self.last[place] = number
        return news

    def _restore(self, said: Said) -> None:
        self.misses.take(said.origin, said.number)
        if said.origin != self.env.host:
            self._note(said)
        self._enter(self.graph.add(self._places[said.origin], said))

    def _send_again(self, to: str, host: str, number: int) -> None:
        """Send a message that was not forgotten to a host, or to everybody if there is none."""
        said = self.graph.said((self._places[host], number))
        if said is None:
            return
        purpose = Purpose.REPAIR if said.sequence else Purpose.CONTROL
        if to:
            self.env.send(to, said, purpose)
        else:
            self.env.multicast(EVERYBODY, said, purpose)

    # Total: delivery

    def _deliver(self, ordered: Iterator[Mark]) -> None:
        """Hand to the application what is for this host, in the total order."""
        any_ordered = False
        for place, number in ordered:
            any_ordered = True
            said = self._of((place, number))
            self._outstanding -= place == self._place
            if self.env.host in self._destination(said):
                self.env.deliver(said.origin, said.sequence, said.payload)
        if any_ordered:
            self.env.store("ordered", self.total.ordered)

    def _of(self, mark: Mark) -> Said:
        said = self.graph.said(mark)
        assert said is not None, mark
        return said

    def _destination(self, said: Said) -> tuple[str, ...]:
        if said.group == LISTED:
            return hosts_in(said.listed, self.env.hosts)
        # No host of this run sends to a group that does not exist, but a forged datagram may name one.
        return self.env.groups.get(said.group, ())

    def _go_on(self) -> None:
        """After each event: forget what everybody has, send what waited, and see whether this host has to speak."""
        if forgotten := [*self.graph.forget(self.total.is_open)]:
            self.env.store("floor", self.graph.floor)
        for place, number in forgotten:
            self.env.store(f"said/{self.env.hosts[place]}/{number}", None)
        while self._mine and self._mine[0] <= self.graph.floor[self._place]:
            self._mine.popleft()
        while self._queue and self._has_room():
            sequence = next(iter(self._queue))
            to, payload = self._queue.pop(sequence)
            self.env.store(f"queue/{sequence}", None)
            self._say(sequence, to, payload)
        if not self._speaks_soon and self._has_to_speak():
            self._speak_in_time()
        if self.is_pending():
            self.reminders.wait_for_votes()

    def _speak_in_time(self) -> None:
        """Let a null message follow: soon, or later if hosts disagree and the votes of some have not come yet."""
        late = 0 if self._has_to_acknowledge() else self.total.lateness(self._place)
        if late and self._speaks_later:
            return
        self._speaks_soon, self._speaks_later = not late, bool(late)
        wait_s = min(self._silence_s * 2.0 ** min(late, MOST_DOUBLINGS), max(self._silence_s, self._longest_s))
        self.env.set_timer("speak", wait_s * self.env.random.uniform(0.5, 1.0))

    def _has_room(self) -> bool:
        """Whether this host may send a message of the application now."""
        history = self.parameters.history
        return self._can_speak() and self._outstanding < self.parameters.window and (not history or len(self._mine) < history)

    def is_pending(self) -> bool:
        """Whether a message of the application is in the graph and not in the total order."""
        return any(last > ordered for last, ordered in zip(self.last, self.total.ordered, strict=True))

    def _has_to_speak(self) -> bool:
        """Whether this host has to acknowledge a message of the application, or to vote on one."""
        votes = self.is_pending() and self.total.can_vote(self._place)
        return self._can_speak() and (votes or self._has_to_acknowledge())

    def _has_to_acknowledge(self) -> bool:
        """Whether no message of this host follows some message of the application that is in the graph."""
        return any(last > count for last, count in zip(self.last, self.graph.latest[self._place], strict=True))

    def _can_speak(self) -> bool:
        """Whether this host has all messages that it is known to have sent: one that has lost its storage must not use numbers again."""
        return self.misses.known(self.env.host) <= self.graph.counts[self._place]


def _restored(host: str, number: int, value: Any) -> Said:
    """A message as it was stored."""
    group, sequence, acks, payload, listed, heard, misses = value
    marks = (tuple((place, count) for place, count in some) for some in (acks, heard, misses))
    acks, heard, misses = marks
    return Said(group, host, sequence, number, acks, payload, listed, heard, misses)
