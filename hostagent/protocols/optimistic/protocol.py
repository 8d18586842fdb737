"""The optimistic protocol: messages are delivered as soon as the token names them, and taken back when a gap shows up.

Source: Chung, Liu and Lin, "Optimistic Token-Driven Reliable Sequenced Broadcast Protocols", ICPP 1990, volume 3, pages 303-310, as the
fourth paper (Chang and Hwang, sections 1, 4.3 and 5) describes and counts it. The original could not be read; what follows from the fourth
paper is under *How*, and what was reconstructed under *Decisions*.

How. Everybody broadcasts at most one message in a token period. The token goes round the list, everybody hears it, and its owner puts into
it the names of the messages that came up, in the order in which all deliver them, and acknowledges with it all that it has at once: one
batch acknowledgement for the messages of a period, in place of one for each message. What all members have acknowledged is committed, after
one round. A host that lacks a message which the token has named sends a rollback request; so may all but the source and the owner, n - 2
hosts. Then the ring rolls back: everybody takes back what is not committed, the last message first, the messages are broadcast again, and
delivered again in order.

The token. The ring (`hostagent.parts.tokens.ring`) passes the token on, looks after lost tokens, failed owners and duplicates, keeps the
token while there is nothing to do, and has a majority agree on each list. The list is the view of everybody's group: a host that fails is
out of it, and what is broadcast then is not for it. A host that is back takes back what it did not see committed, and gets the committed
messages that were for it (`catching_up`).

Model. Datagrams are lost, duplicated and reordered; the network is partitioned; hosts crash and restart with their storage. A majority of
all hosts must be connected for anything to be delivered.

Guarantees. Committed messages are safe (every member of the view has them) and in one order, strictly: the order of each source, the same
everywhere. Deliveries are in that order too at hosts that are up and, when they have recovered, at those that failed: rollback. Nothing
that is committed is taken back. Not promised: one global order and no gaps, which bind hosts that died with deliveries that the others
have taken back; and causal order, which holds while the list stays. A new list may lack the name of a message that a host outside it had
delivered, so that an answer which this host sent before it was left out is named before the message when both are back.

Messages. A broadcast is n - 1 packets (1 with multicast), and so is a token. When all hosts have a message in every period, each token
serves n messages: (n - 1)(1 + 1/n) packets for a message, 1 + 1/n with multicast. A lone message takes the token round twice, once to be
committed and once until all know that all know. A lost message costs up to n - 2 rollback requests and a broadcast of every message that
is not committed.

Decisions. The owner decides on the order, as a network in which everybody hears messages in one order is not what we have. The token names
all that is not committed, so that a host which misses a token misses nothing. Names keep their order in a rollback, and a message comes
into force again when the owner has heard it again; otherwise a rollback could turn round cause and effect. A message that is taken back is
kept, where the paper discards it, so that one that arrived is not missed again: with a loss of 30 %, one broadcast in 25 reaches all of
nine others. It is broadcast again all the same. After a rollback only the first half of what waits for a commit is broadcast, and after a
commit twice as much, since a full queue of a link loses messages too, and the same broadcasts all at once would find it full again. The
token says who asked for the rollback, and their copies leave last, as a full queue drops its oldest packet. A gap counts after `late_ms`,
as a message may only be late. The request goes to the owner of the token, which alone rolls back; the other hosts do when they hear of it
from the token, so no two hosts disagree about it. An owner that lacks a message rolls back itself. After a new list, names come into force
when the token has been round once, so that every member has taken back what is not in the order of the list. Messages of a host that failed
are broadcast again by a member that has them (`state`).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hostagent.contract.core import Core, Milliseconds
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Destination, Message, Purpose
from hostagent.contract.promises import Carrier, Guarantee, Order, Promise, Scope, Step, Strength
from hostagent.parts.tokens.parameters import RingParameters
from hostagent.parts.tokens.places import places, set_of
from hostagent.parts.tokens.reformation import Known, Reform, Refusal, Vote
from hostagent.parts.tokens.ring import Call, Ring, Token
from hostagent.protocols.optimistic.catching_up import CatchingUp
from hostagent.protocols.optimistic.journal import Journal
from hostagent.protocols.optimistic.messages import Ask, Data, RollBack, Supply
from hostagent.protocols.optimistic.speaking import Speaking
from hostagent.protocols.optimistic.state import Ballot, TokenState, decode_ballot, decode_token, encode, first_token, reformed

ROLLBACKS: Final = 12
"""In a row. With a loss of 30 % on the way to each of 59 others, all have a message after so many broadcasts, but for one in 30,000."""


class OptimisticParameters(RingParameters, frozen=True, kw_only=True):
    """The ring, and how long a message may be late."""

    late_ms: Milliseconds = 20.0
    """How long a host waits for a message that the token has named before it asks for a rollback."""


class Optimistic(Core):
    """Name, deliver, acknowledge, and roll back; the ring passes the token on."""

    name = "optimistic"
    number = 15
    summary = "delivered when the token names them, taken back after a loss: safe with rollback, (n - 1)(1 + 1/n) packets at best"
    assumes = "a majority of the hosts runs and is connected; hosts that crash come back with their storage"
    beyond = frozenset({"restart-lost"})
    messages = (Data, Token, Known, RollBack, Ask, Supply, Call, Reform, Vote, Refusal)
    waits = ("longest_wait_ms",)
    Parameters = OptimisticParameters
    parameters: OptimisticParameters

    def __init__(self, env: Environment, parameters: OptimisticParameters) -> None:
        super().__init__(env, parameters)
        self._me = env.hosts.index(env.host)
        longest_s = parameters.longest_wait_ms / 1000
        self._journal = self.add("journal", Journal)
        late_s = parameters.late_ms / 1000
        self._speaking = self.add("speaking", lambda own: Speaking(own, self._journal, lambda: self._ring.latest, late_s))
        first = first_token(len(env.hosts))
        self._ring: Ring[TokenState, Ballot] = self.add("ring", lambda own: Ring(own, parameters, self, first))
        latest, on_change = (lambda: self._ring.latest), self._deliver
        self._catching_up = self.add("catching-up", lambda own: CatchingUp(own, longest_s, self._journal, latest, on_change))
        self._newest = 0
        """The last message of this host that was broadcast in this life."""
        self._view = 0
        self._late = False
        """Whether a message has been missing for so long that it counts as lost."""
        self._waits = False
        """Whether the timer for that is set."""
        self._turn_over = False
        """Whether this host would have passed the token on if it did not lack a message."""
        self._lacking = 0
        """The hosts that have sent a rollback request to this host, which owns the token."""

    @classmethod
    def promise(cls, parameters: OptimisticParameters, hosts: int) -> Promise:
        """Safe at the commit; strict order of commits, and the same order of deliveries with rollback, while a majority is connected.

        A message takes two rounds, and so does each rollback. In the worst case every hop takes its longest wait, and several lists are
        formed meanwhile, each of which takes all tries of several hosts.
        """
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
            *(Guarantee.ROLLBACK_DISCIPLINE, Guarantee.SAFE, Guarantee.ONE_TOKEN),
            *(Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        scopes = (Scope.SINGLE_SOURCE, Scope.MULTIPLE_SOURCE)
        orders = (
            *(Order(scope, Strength.STRICT, Step.COMMIT) for scope in scopes),
            *(Order(scope, Strength.ROLLBACK) for scope in scopes),
        )
        hop_ms = parameters.token_owner_ms + parameters.late_ms + parameters.longest_wait_ms
        lists_ms = 10 * parameters.tries * parameters.longest_wait_ms
        return Promise(
            guarantees=guarantees,
            orders=orders,
            safe_at=Step.COMMIT,
            token_kind=cls.messages.index(Token),
            carrier=Carrier.ANYONE,
            patience_ms=ROLLBACKS * hosts * hop_ms + lists_ms + 4000 * parameters.idle_s(hosts),
            quorum=hosts // 2 + 1,
            # Without multicast a token is n - 1 datagrams at once, which is many for a short time of looking.
            background_per_second=2 * parameters.idle_packets_per_second + 3 * (hosts - 1),
            retained=30 * hosts + 100,
        )

    @classmethod
    def most_lost(cls, parameters: OptimisticParameters, hosts: int) -> int:  # noqa: ARG003 - whatever the parameters
        """A majority must be left."""
        return (hosts - 1) // 2

    @classmethod
    def check(cls, parameters: OptimisticParameters, hosts: tuple[str, ...]) -> None:
        """Refuse what makes no sense."""
        parameters.check_ring(cls.name, len(hosts))

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Go on from the token that this host knows. The first host makes the first token, if there was none."""
        if "view" in stored:
            self._view, members = stored["view"]
            self.env.install(EVERYBODY, places(members, self.env.hosts), self._view)
        self._ring.begin()
        self._speaking.speak(self._ring.latest)

    @property
    def unfinished(self) -> int:
        """The messages that are not committed."""
        return max(0, self._newest - self._ring.latest.lasts[self._me])

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Broadcast a message now, or in the next token period that has room for it."""
        self._newest = sequence
        self._journal.keep((self._me, sequence), set_of(to.hosts, self.env.hosts), payload)
        self._speaking.speak(self._ring.latest)
        self._ring.wake()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A message of the application, a rollback request, or one of the messages of the parts."""
        match message:
            case Data():
                self._take(message)
            case RollBack(generation=generation, rollbacks=rollbacks, number=number):
                latest = self._ring.latest
                if self._ring.holds and latest.stamp == (generation, rollbacks) and latest.base < number <= latest.top:
                    self._ring.wake()
                    self._lacking |= 1 << self.env.hosts.index(sender)
            case _:
                super().on_message(sender, message, expensive)

    def on_timer(self, name: str) -> None:
        """A message that the token has named is late."""
        if name != "late":
            super().on_timer(name)
            return
        self._waits = False
        if self._lacks:
            self._late = True
            self._ask_for_rollback()
            self._end_turn()

    def _take(self, data: Data) -> None:
        """Keep a message, unless it is committed, and note in which list and after how many rollbacks it was broadcast."""
        key = self.env.hosts.index(data.origin), data.sequence
        if data.sequence <= self._ring.latest.lasts[key[0]] or not data.sequence:
            return
        stamp = data.generation, data.rollbacks
        self._journal.stamps[key] = max(stamp, self._journal.stamps.get(key, stamp))
        if key[0] != self._me and self._journal.keep(key, int.from_bytes(data.to), data.payload):
            self.env.receive(data.origin, data.sequence)
            lacked = self._lacks
            self._deliver()
            self._ring.wake(found=lacked and not self._lacks)
        else:
            self._ring.wake()

    @property
    def _lacks(self) -> bool:
        """Whether the token has named a message that is not here."""
        latest = self._ring.latest
        return self._ring.is_member and latest.base <= self._journal.top < latest.top

    def _deliver(self) -> None:
        """Deliver what is in force and here; look whether something is missing."""
        latest = self._ring.latest
        if not self._ring.is_member or latest.stamp != self._journal.stamp:
            return
        self._journal.deliver(latest)
        self._journal.commit(latest.acknowledged)
        if not self._lacks:
            self._late = self._waits = False
            self.env.cancel_timer("late")
            self._end_turn()
        elif not self._waits and not self._late:
            self._waits = True
            self.env.set_timer("late", self.parameters.late_ms / 1000)

    def _ask_for_rollback(self) -> None:
        latest, number = self._ring.latest, self._journal.top + 1
        name = latest.names[number - 1 - latest.base]
        self.env.trace("rollback-request", (self.env.hosts[name.origin], name.sequence), number=number)
        if latest.next != self._me:
            request = RollBack(EVERYBODY, self.env.host, 0, *latest.stamp, number)
            self.env.send(self.env.hosts[latest.next], request, Purpose.CONTROL)

    def _end_turn(self) -> None:
        """Pass the token on if that only waited for a message, which has come or is lost."""
        if self._turn_over and self._ring.holds and self.may_pass():
            self._ring.end_turn()

    # --- what the ring asks for

    @property
    def is_waiting(self) -> bool:
        """Whether the token must go on because of this host."""
        return self._speaking.is_waiting(self._ring.latest) or self._lacks or self._catching_up.is_due

    @property
    def rides(self) -> bool:
        """Everybody wants to be in the list."""
        return True

    @property
    def is_happy(self) -> bool:
        """Whether this host is in the list."""
        return self._ring.is_member

    def encode(self, state: TokenState) -> bytes:
        """A token as it travels."""
        data: bytes = encode(state)
        return data

    def decode(self, data: bytes) -> TokenState | None:
        """A token that was received; None if no host of this run can have sent it."""
        try:
            state = decode_token(data)
        except msgspec.MsgspecError:
            return None
        return state if state.is_sound(len(self.env.hosts)) else None

    def ballot(self) -> Ballot:
        """What this host has, for a new list."""
        return self._journal.ballot()

    def encode_ballot(self, ballot: Ballot) -> bytes:
        """A ballot as it travels."""
        data: bytes = encode(ballot)
        return data

    def decode_ballot(self, data: bytes) -> Ballot | None:
        """A ballot that was received; None if no host of this run can have sent it."""
        try:
            ballot = decode_ballot(data)
        except msgspec.MsgspecError:
            return None
        return ballot if ballot.is_sound(len(self.env.hosts)) else None

    def reformed(self, generation: int, votes: Mapping[int, Ballot]) -> TokenState:
        """The first token of a new generation."""
        return reformed(self._ring.latest, generation, self._me, votes)

    def begin_list(self) -> None:
        """There is a new list: hosts that are not in it have failed, and if this host is one of them, or was, it knows now."""
        state = self._ring.latest
        if not self._ring.is_member or self._journal.stamp[0] != state.parent:
            self.env.trace("failed")
        if not self._ring.is_member:
            return
        self.env.trace("accepted", graph=state.generation)
        for host in places(~state.members & (1 << len(self.env.hosts)) - 1, self.env.hosts):
            self.env.trace("excluded", host=host, graph=state.generation)

    def take_in(self, state: TokenState) -> None:
        """Roll back if the token says so, then deliver, commit, forget, and broadcast the next message."""
        taken = self._journal.align(state)
        if taken:
            self.env.trace("rollback", generation=state.generation, rollbacks=state.rollbacks, taken=taken)
        if state.view != self._view:
            self._view = state.view
            self.env.store("view", (state.view, state.members))
            self.env.install(EVERYBODY, places(state.members, self.env.hosts), state.view)
        self._catching_up.look()
        self._deliver()
        if self._late:
            self._ask_for_rollback()
        self._journal.forget(state)
        self._speaking.begin_period(state)

    def begin_turn(self) -> None:
        """This host owns the token."""
        self._turn_over, self._lacking = False, 0

    def may_pass(self) -> bool:
        """An owner that lacks a message passes the token on when the message has come or counts as lost."""
        self._turn_over = True
        return self._late or not self._lacks

    def updated(self, state: TokenState, *, alert: bool) -> TokenState:
        """Name what has come up, and acknowledge all that is here; or roll back, because of a gap here or at another host."""
        me, journal = self._me, self._journal
        lacking = self._lacking | self._lacks << me
        if lacking:
            acknowledged = state.acknowledging(me, journal.top, journal.done).rolled_back(lacking)
        else:
            named = state.naming(journal.stamps)
            journal.deliver(named)
            acknowledged = named.acknowledging(me, journal.top, journal.done)
        self._lacking, self._late = 0, False
        return acknowledged.passed_on(me, changed=alert or acknowledged != state)

    def has_told(self, place: int) -> bool:  # noqa: ARG002 - a broadcast goes to everybody
        """Whether the owner has heard that there is something to do."""
        return self._speaking.has_spoken
