"""A token that goes round a list of hosts, at one host: owning it, passing it on, resting, and what to do when it is lost.

Everybody hears the token, since its owner sends it to all members, or only those do who need to: the next owner, and the last one, which
listens for it (`RingParameters.is_for_all`). What the token carries is the protocol's.

Lost tokens. After a hop, the last owner listens for the next token. If it hears none in time, which follows the round trips it has seen, it
reissues the token to the next owner, with growing waits and random delays; after `tries` of them it asks for a new list without that host.
So does everybody who has heard nothing for much longer. Each token has a generation and a hop. A host that gets an older one than it knows
gives up that one, and tells its sender of the newer one.

Lists. Every change of the list is a reformation by a majority of all hosts (`reformation`), so no two lists ever diverge, and tokens of
older generations are refused: one token for each generation. A host that is not in the list as it wants to be calls the owner of the token,
which forms a new list; it calls again until it hears of a list that suits it.

Idle. When nothing is left to do, owners keep the token for so long that the ring sends `idle_packets_per_second`. Any message wakes the
owner that hears it; a host whose message does not go there calls the owner.
"""

from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.parts.round_trips import FIRST_WAIT_S, RoundTrips
from hostagent.parts.tokens.parameters import Carried, RingParameters
from hostagent.parts.tokens.pieces import Assembly, Piece, cut
from hostagent.parts.tokens.places import Number, following, places, preceding
from hostagent.parts.tokens.reformation import Known, Reform, Reformation, Refusal, Vote, to_everybody

# With each reformation that comes to nothing, a host waits twice as long before it asks for the next, up to this many times.
MOST_IN_VAIN: Final = 10
# Nobody listens for more than about this many of the longest waits.
LONGEST_SILENCE: Final = 4
# Waits for an owner grow with every second try only: the others stand still meanwhile, and a host that is left out by mistake comes back.
TRIES_PER_STEP: Final = 2
# A long hop counts for less with each token that is heard sooner: for half after 34 of them.
HOP_FADES: Final = 0.98
CYCLE: Final = ""
"""In place of a host: how long it takes until the token is back."""

State = TypeVar("State", bound=Carried)
Ballot = TypeVar("Ballot")


class Token(Piece, frozen=True):
    """The token, from its owner to the next one; all others listen."""


class Call(Message, frozen=True):
    """The owner of the token must not rest, as there is something to do; with `changes`, it must form a new list.

    The generation is that of the newest token that the sender knows.
    """

    generation: Number
    changes: bool


class Owner(Protocol[State, Ballot]):
    """What the ring asks of its protocol."""

    @property
    def is_waiting(self) -> bool:
        """Whether the token must go on because of this host's own messages."""

    @property
    def rides(self) -> bool:
        """Whether this host wants to be in the list."""

    @property
    def is_happy(self) -> bool:
        """Whether this host is in the list, and in its groups, as it wants to be."""

    def encode(self, state: State) -> bytes:
        """A token as it travels."""

    def decode(self, data: bytes) -> State | None:
        """A token that was received; None if no host of this run can have sent it."""

    def ballot(self) -> Ballot:
        """What this host has, for a new list."""

    def encode_ballot(self, ballot: Ballot) -> bytes:
        """A ballot as it travels."""

    def decode_ballot(self, data: bytes) -> Ballot | None:
        """A ballot that was received; None if no host of this run can have sent it."""

    def reformed(self, generation: int, votes: Mapping[int, Ballot]) -> State:
        """The first token of a new generation, whose list are the voters."""

    def begin_list(self) -> None:
        """There is a new list."""

    def take_in(self, state: State) -> None:
        """There is a newer token, and this host is in its list."""

    def begin_turn(self) -> None:
        """This host owns the token, or has something to do and goes on with the one that it owns."""

    def may_pass(self) -> bool:
        """Whether this host may pass the token on now. If not, it calls `end_turn` later."""

    def updated(self, state: State, *, alert: bool) -> State:
        """The token as its owner passes it on; `alert` says whether something has come up since the last token."""

    def has_told(self, place: int) -> bool:
        """Whether the last message that this host sent went to this host."""


class Ring(Part, Generic[State, Ballot]):
    """The token, as one host knows it."""

    messages = (Token, Known, Call, Reform, Vote, Refusal)

    def __init__(self, env: Environment, parameters: RingParameters, core: Owner[State, Ballot], first: State) -> None:
        super().__init__(env)
        self._parameters = parameters
        self._core = core
        self._me = env.hosts.index(env.host)
        longest_s = parameters.longest_wait_ms / 1000
        self._trips = RoundTrips(longest_s, first_s=min(FIRST_WAIT_S, longest_s))
        self.latest: State = first
        """The newest token that this host knows. The first one is with the first host from the start."""
        self.reformation = self.add("reformation", self._make_reformation)
        self._assembly = Assembly()
        self.holds = self._rests = False
        """Whether this host owns the token, and keeps it for long as there is nothing to do."""
        self._passed = False
        """Whether this host passed on the newest token that it knows, and listens for the next one."""
        self._tries = 0
        self._reissued_s: dict[str, float] = {}
        """When a token was first reissued to a host, until that says that it knew of the token, or gets the next one."""
        self._in_vain = 0
        """How many reformations this host has asked or voted for since the last token."""
        self._called = 0
        """The hosts that want a new list."""
        self._alert = False
        """Whether something to do has come up since the last token."""
        self._calls, self._waits = 0, False
        """How often this host has called for a new list in vain, and whether it waits for what comes of a call."""
        self._heard_s, self._longest_hop_s = 0.0, 0.0
        """When this host heard of the newest token, and about the longest time that one token was heard after another."""
        self._is_new = True

    def _make_reformation(self, own: Environment) -> Reformation[Ballot]:
        core = self._core

        def ballot() -> tuple[Ballot, bytes]:
            made = core.ballot()
            return made, core.encode_ballot(made)

        return Reformation(
            own,
            self._parameters.longest_wait_ms / 1000,
            self._parameters.tries,
            latest=lambda: self.latest,
            encoded=lambda: core.encode(self.latest),
            ballot=ballot,
            read_ballot=core.decode_ballot,
            on_promise=self._give_time,
            on_votes=lambda generation, votes: self._accept(core.reformed(generation, votes)),
            on_failed=self._go_on,
        )

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the token that this host passed on last, or the first one of a later list that it has heard of."""
        for key in ("heard", "token"):
            state = self._core.decode(stored[key]) if key in stored else None
            if state is not None and state.version > self.latest.version:
                self.latest = state
                self._passed = key == "token" and self.is_member
        self._is_new = "started" not in stored

    def begin(self) -> None:
        """Go on from the token that was restored, when the protocol has restored what it needs."""
        if self.latest.next == self._me and self.reformation.promised <= self.latest.generation:
            self._passed = False
            self._begin_turn()
        elif self._passed:
            self._wait_for_next()
        self._listen_again()
        self.call_if_unhappy()
        if not self._is_new and self.env.peers and not self.holds:
            # Whoever knows a newer token than this host tells it.
            self._call(self.env.random.choice(self.env.peers), changes=False)
        self.env.store("started", True)

    @property
    def is_member(self) -> bool:
        """Whether this host is in the list."""
        return bool(self.latest.members >> self._me & 1)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A token, or what somebody wants of its owner; the rest is about new lists."""
        match message:
            case Token() | Known():
                self._assemble(sender, message)
            case Call(generation=generation, changes=changes):
                if generation < self.latest.generation:
                    self.reformation.tell(sender)
                elif changes:
                    self._called |= 1 << self.env.hosts.index(sender)
                self.wake()
            case _:
                super().on_message(sender, message, expensive)

    def on_timer(self, name: str) -> None:
        """The token-owner timer, or one that looks after lost tokens."""
        match name:
            case "hold" if self.holds:
                self.end_turn()
            case "retry" if self._passed:
                self._reissue()
            case "silence":
                self._in_vain += 1
                self._listen_again()
                if not self.holds and not self.reformation.is_open and (self._core.rides or self.is_member):
                    # The next owner is the one that was not heard; its vote counts if it comes in time.
                    self.reformation.start(suspected=1 << self.latest.next & ~(1 << self._me))
            case "call":
                self._waits = False
                self.call_if_unhappy()
            case "hold" | "retry":
                pass  # What the timer was for has ended.
            case _:
                super().on_timer(name)

    def wake(self, *, found: bool = False) -> None:
        """There is something to do: an owner that rests goes on, and whoever waits for the next token waits less long.

        An owner that has not heard of it is called: because of this host's own messages, or as it has `found` all that it lacked.
        """
        if self._alert:
            return
        self._alert = True
        needed = found or self._has_work
        if self.holds and self._rests:
            self._begin_hold()
        elif self._passed and not self._tries:
            self._wait_for_next()
        if not self.holds and self.latest.stalls and needed and not self._core.has_told(self.latest.next):
            self._call(self.env.hosts[self.latest.next], changes=False)
        self._listen_again()

    def call_if_unhappy(self) -> None:
        """Have a new list formed if this host is not in the list or in the groups as it wants to be."""
        if self._core.is_happy:
            self._calls, self._waits = 0, False
            self.env.cancel_timer("call")
        elif self.holds:
            self._called |= 1 << self._me
            self.wake()
        elif not self._waits:
            members = places(self.latest.members & ~(1 << self._me), self.env.hosts)
            # The owner or, every other time, any member.
            owner = self.env.random.choice(members) if self._calls % 2 and members else self.env.hosts[self.latest.next]
            self._call(owner, changes=True)
            wait_s = self._trips.wait_s(owner, min(self._calls, 10))
            self._calls, self._waits = self._calls + 1, True
            self.env.set_timer("call", wait_s * self.env.random.uniform(1.0, 2.0))

    def wish(self) -> None:
        """This host wants something else than before: what comes of former calls is not waited for."""
        self._calls, self._waits = 0, False
        self.call_if_unhappy()

    def _call(self, owner: str, *, changes: bool) -> None:
        if owner != self.env.host:
            self.env.send(owner, Call(EVERYBODY, self.env.host, 0, self.latest.generation, changes), Purpose.CONTROL)

    def _assemble(self, sender: str, piece: Piece) -> None:
        data = self._assembly.take(sender, piece)
        state = self._core.decode(data) if data is not None else None
        if state is None or state.version != (piece.generation, piece.hop):
            return
        is_mine = isinstance(piece, Token) and state.next == self._me
        if isinstance(piece, Known) and sender in self._reissued_s:
            # The token had been reissued in vain, as this host had not waited for long enough.
            self._trips.asked(sender, self._reissued_s.pop(sender))
            self._trips.answered(sender, self.env.now())
        if state.version <= self.latest.version:
            self._hear_again(sender, state, is_mine=is_mine)
        elif state.generation >= self.reformation.promised or not state.members >> self._me & 1:
            # News of a token that was lost on its way to this host, too, make this host its owner. What this host has promised is that it
            # does not count itself in; it may know of tokens in whose list it is not.
            self._accept(state)
        elif is_mine:
            self.reformation.refuse(sender)

    def _hear_again(self, sender: str, state: State, *, is_mine: bool) -> None:
        """A token that is not newer: give it up, and tell whoever waits for this host what has become of it."""
        if is_mine:
            self.reformation.tell(sender)
        elif self._passed and state.version == self.latest.version and sender == self.env.hosts[state.next]:
            # The next owner has it, and rests.
            self._tries = 0
            self._wait_for_next()

    def _accept(self, state: State) -> None:
        """Take in a token that is newer than all that this host knows."""
        before = self.latest
        self._time_hop(before)
        if self._passed:
            # A later token than that of the next owner will do: where the latter is dropped each time, the wait would never shrink.
            self._trips.answered(self.env.hosts[before.next], self.env.now())
        self._let_go()
        self.reformation.abandon()
        self.reformation.promise(state.generation)
        self.latest, self._alert, self._in_vain = state, False, 0
        if state.generation != before.generation:
            self._called, self._calls, self._waits = 0, 0, False
            # What a host does in a generation must not be done before it knows of the generation for good.
            self.env.store("heard", self._core.encode(state))
            self._core.begin_list()
        if self.is_member:
            self._core.take_in(state)
        if state.next == self._me:
            self._begin_turn()
        self._listen_again()
        self.call_if_unhappy()

    def _time_hop(self, before: State) -> None:
        """A token follows on one that did not rest: hops elsewhere may take longer than those of this host."""
        now_s = self.env.now()
        if not before.stalls:
            took_s = min(now_s - self._heard_s, self._parameters.longest_wait_ms / 1000)
            self._longest_hop_s = max(took_s, HOP_FADES * self._longest_hop_s)
        self._heard_s = now_s

    def _begin_turn(self) -> None:
        self.holds = True
        self._trips.answered(CYCLE, self.env.now())
        self.env.trace("token", generation=self.latest.generation, held=True)
        self._begin_hold()

    def _begin_hold(self) -> None:
        """Keep the token for the token-owner time, or for long if there is nothing to do."""
        self._core.begin_turn()
        self._rests = self.latest.stalls > 0 and not self._alert and not self._has_work
        self.env.set_timer("hold", self._hold_s(rests=self._rests))

    def _hold_s(self, *, rests: bool) -> float:
        return self._parameters.hold_s(self.latest, len(self.env.hosts), rests=rests)

    def end_turn(self) -> None:
        """The token-owner timer has expired: form a new list if somebody wants one, else pass the token on."""
        if self._called and not self.reformation.is_open:
            self.reformation.start(wanted=self._called)
        if not self.reformation.is_open and self._core.may_pass():
            self._pass_on()

    def _pass_on(self) -> None:
        """Have the protocol update the token, and pass it on."""
        passed = self._core.updated(self.latest, alert=self._alert or self._has_work)
        self._let_go()
        self.env.store("token", self._core.encode(passed))
        self.latest, self._alert, self._tries = passed, False, 0
        if passed.next == self._me:
            self._core.take_in(passed)
            self._begin_turn()
            return
        self._send_token()
        self._passed = True
        self._core.take_in(passed)
        if not passed.stalls:
            for what in (self.env.hosts[passed.next], CYCLE):
                self._trips.asked(what, self.env.now())
        self._reissued_s.pop(self.env.hosts[passed.next], None)
        self._wait_for_next()
        self._listen_again()

    def _let_go(self) -> None:
        """This host is not the owner any more, and need not listen for the next one."""
        if self.holds:
            self.holds = False
            self.env.trace("token", generation=self.latest.generation, held=False)
            self.env.cancel_timer("hold")
        if self._passed:
            self._passed = False
            self._trips.forget(self.env.hosts[self.latest.next])
            self.env.cancel_timer("retry")

    def _send_token(self, to: str = "") -> None:
        """Send the token to all members, or reissue it to one."""
        state = self.latest
        for piece in cut(Token, self.env.host, state.version, self._core.encode(state)):
            if to:
                self.env.send(to, piece, Purpose.CONTROL)
            elif self.env.multicasts:
                to_everybody(self.env, piece, places(state.members, self.env.hosts), state.hop)
            else:
                for host in self._hearers():
                    self.env.send(host, piece, Purpose.CONTROL)

    def _hearers(self) -> list[str]:
        """Whom this host sends its token to: the last owner, which listens for it, and the next one come at the end.

        A full queue drops its oldest packet. So of a burst that is longer than a queue, the end gets through.
        """
        state = self.latest
        needed = list(dict.fromkeys((self._before, self.env.hosts[state.next])))
        if not self._is_for_all:
            return needed
        everybody = dict.fromkeys((*self.env.groups[EVERYBODY], *places(state.members, self.env.hosts)))
        others = [host for host in everybody if host not in {self.env.host, *needed}]
        return self.env.shuffled(others) + needed

    @property
    def _is_for_all(self) -> bool:
        """Whether this host sends its token to all members: if that is one packet, or the parameters say so."""
        return self.env.multicasts or self._parameters.is_for_all(self.latest)

    @property
    def _before(self) -> str:
        """The member that this host gets the token from."""
        return self.env.hosts[preceding(self.latest.members, self._me, len(self.env.hosts))]

    def _wait_for_next(self) -> None:
        """Listen for the token of the next owner, for longer if that one may rest."""
        wait_s = self._trips.wait_s(self.env.hosts[self.latest.next], self._tries // TRIES_PER_STEP) * self.env.random.uniform(
            1.0, 1.2
        )
        self.env.set_timer("retry", wait_s + self._hold_s(rests=not self._alert))

    def _reissue(self) -> None:
        """The next owner was not heard in time: reissue the token, or ask for a list without that host."""
        after = self.env.hosts[self.latest.next]
        self._trips.forget(after)
        self._reissued_s.setdefault(after, self.env.now())
        self._alert = True
        self._tries += 1
        if self._tries <= self._parameters.tries:
            self._send_token(self.env.hosts[self.latest.next])
            self._wait_for_next()
        else:
            self._tries = 0
            if not self.reformation.is_open:
                self.reformation.start(suspected=1 << self.latest.next)
            self._wait_for_next()

    def _listen_again(self) -> None:
        """Set the timer for a silence that is longer than all tries of another host take."""
        # What it hears from the host after it tells this host how long a hop takes.
        after = self.env.hosts[following(self.latest.members, self._me, len(self.env.hosts))]
        hop_s = self._trips.wait_s(after)
        if self._is_for_all:
            hop_s = max(hop_s, self._longest_hop_s)
        wait_s = sum(hop_s * 2 ** (tries // TRIES_PER_STEP) for tries in range(self._parameters.tries + 1))
        if not self._is_for_all:
            # A token that others pass to each other is not heard here.
            wait_s += self._trips.wait_s(CYCLE)
        wait_s = min(wait_s * 2 ** min(self._in_vain, MOST_IN_VAIN), LONGEST_SILENCE * self._parameters.longest_wait_ms / 1000)
        if not self.is_member or not (self._alert or self._has_work):
            wait_s += 3 * self._hold_s(rests=True)
        self.env.set_timer("silence", wait_s * self.env.random.uniform(1.5, 3.0))

    def _give_time(self) -> None:
        """This host has voted for a new list, and gives its vote time to have a consequence."""
        self._let_go()
        self._in_vain += 1
        self._listen_again()

    def _go_on(self) -> None:
        """No majority answers: go on with the list as it is."""
        if self.holds:
            self._begin_hold()
        self._listen_again()

    @property
    def _has_work(self) -> bool:
        """Whether the token must go on because of this host."""
        return bool(self._called) or self._core.is_waiting
