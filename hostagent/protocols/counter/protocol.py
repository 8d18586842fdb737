"""The counter protocol: a token counts for each message which hosts have it, so hosts that have all commit in one order.

Source: the fourth paper (Chang and Hwang), sections 2 and 3, with its extension to multicast (section 6).

How. Anyone broadcasts at any time. The token goes round the hosts of the token-passing list, and everybody hears it. It carries the system
state: for each host and cycle the numbers of the messages that the host sent, and who has them. The owner counts itself in where it has
everything, adds what it sent since its last turn, removes its own entries that are committed, and after `token_owner_ms` passes the token
on. Whoever hears the token asks for the messages that it lacks (`repairs`). A cycle is committed when every host that needs its messages
has counted itself in, and all earlier cycles are committed: a host sees that in the token, or by the absence of the cycle's entries.

Delivery. The paper hands messages to the application when they are committed, and so does this: what is delivered is safe (every member of
the view that is a destination has it) and agreed, strictly. The last message of what is committed together is marked `commit`.

The token. Numbers of messages travel as a first one and counts, with the destinations of each run of messages (the IDs field), so that an
entry does not grow with the load. A token that is longer than a datagram is cut into several (`messages.cut`), and is heard when all have
arrived. Positions in the order are numbers (`state`). The counter field is a set and not a count: a count cannot say which hosts of a list
that has changed are still missing.

Lost tokens. After a hop, the last owner listens for the next token. If it hears none in time, which follows the round trips it has seen, it
reissues the token to the next owner, with growing waits and random delays; after `tries` (L) of them it asks for a new list without that
host. So does everybody who has heard nothing for much longer. Each token has a generation and a hop. A host that gets an older one than it
knows gives up that one, as the paper's owner does whose token is back before N periods, and tells its sender of the newer one.

Lists. Every change of the list is a reformation by a majority of all hosts (`reformation`), so no two lists ever diverge, and tokens of
older generations are refused: one token for each generation. `membership` says how hosts join and leave, and what they miss meanwhile.

Idle. When nothing is left to do, owners keep the token for so long that the ring sends `idle_packets_per_second`. Any message wakes the
owner that hears it; a source whose message does not go there calls the owner.

Model. Datagrams are lost, duplicated and reordered; the network is partitioned; hosts crash and restart with their storage. A majority of
all hosts must be connected for anything to be delivered.

Messages. A broadcast is n - 1 packets (1 with multicast), a token as many to each hop. C, the control packets for each broadcast, is what
tokens and requests cost, divided by the broadcasts meanwhile; a lone message takes the token round three times.

Decisions. In the paper's T(c, n, t, S) n is the next owner, not the last one. The timer code is cut off in the text: an owner attaches what
it sent before it got the token; what it sends while it has the token belongs to its next cycle. The paper commits cycles, the first host's
messages two cycles after they were added; `commit=entry` commits entries. `flow`, `repairs` and `reformation` say what was decided there.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Message, Purpose
from hostagent.contract.promises import Promise
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.counter.datalist import DataList
from hostagent.protocols.counter.flow import Flow
from hostagent.protocols.counter.membership import Membership
from hostagent.protocols.counter.messages import (
    FIRST_WAIT_S,
    Assembly,
    Call,
    Known,
    Msg,
    Piece,
    Reform,
    Refusal,
    Req,
    Token,
    Vote,
    cut,
)
from hostagent.protocols.counter.outbox import Outbox
from hostagent.protocols.counter.parameters import CounterParameters
from hostagent.protocols.counter.promised import promised
from hostagent.protocols.counter.reformation import Reformation, to_everybody
from hostagent.protocols.counter.repairs import Repairs
from hostagent.protocols.counter.state import Ballot, Entry, TokenState, encode_state, following, heard, places, set_of

# With each reformation that comes to nothing, a host waits twice as long before it asks for the next, up to this many times.
MOST_IN_VAIN: Final = 3
# Nobody listens for more than about this many of the longest waits.
LONGEST_SILENCE: Final = 4


class Counter(Core):
    """Pass the token on, count, and commit."""

    name = "counter"
    number = 14
    summary = "a token counts which hosts have each message: one safe order, n - 1 packets and a share of the tokens"
    assumes = "a majority of the hosts runs and is connected; hosts that crash come back with their storage"
    beyond = frozenset({"restart-lost"})
    knows_groups = True
    knows_membership = True
    messages = (Msg, Token, Known, Req, Call, Reform, Vote, Refusal)
    Parameters = CounterParameters
    parameters: CounterParameters

    def __init__(self, env: Environment, parameters: CounterParameters) -> None:
        super().__init__(env, parameters)
        hosts = len(env.hosts)
        self._me = env.hosts.index(env.host)
        self._rules = parameters.rules(hosts)
        longest_s = parameters.longest_wait_ms / 1000
        self._trips = RoundTrips(longest_s, first_s=min(FIRST_WAIT_S, longest_s))
        self._data = self.add("data", DataList)
        self._repairs = self.add("repairs", lambda own: Repairs(own, longest_s, holders=self._whom_to_ask, find=self._data.find))
        self._data.want, self._data.found = self._repairs.want, self._repairs.arrived
        self._reformation = self.add("reformation", self._make_reformation)
        self._flow = Flow(parameters)
        self._outbox = self.add("outbox", lambda own: Outbox(own, self._flow, self._data))
        self._membership = self.add("membership", lambda own: Membership(own, self._trips, lambda: self._latest))
        self._assembly = Assembly()
        groups = tuple((group, set_of(members, env.hosts), 0) for group, members in sorted(env.groups.items()))
        self._latest = TokenState(0, 0, 1, 0, (1 << hosts) - 1, 0, (0,) * hosts, groups, (), 0, hosts, ())
        """The newest token that this host knows. The first one is with the first host from the start."""
        self._holds = self._rests = False
        """Whether this host owns the token, and keeps it for long as there is nothing to do."""
        self._passed = False
        """Whether this host passed on the newest token that it knows, and listens for the next one."""
        self._tries = 0
        self._in_vain = 0
        """How many reformations this host has asked or voted for since the last token."""
        self._called = 0
        """The hosts that want a new list."""
        self._alert = False
        """Whether something to do has come up since the last token."""

    def _make_reformation(self, own: Environment) -> Reformation:
        return Reformation(
            own,
            self._rules,
            self.parameters.longest_wait_ms / 1000,
            self.parameters.tries,
            latest=lambda: self._latest,
            ballot=self._ballot,
            on_promise=self._give_time,
            on_formed=self._accept,
            on_failed=self._go_on,
        )

    @classmethod
    def promise(cls, parameters: CounterParameters, hosts: int) -> Promise:
        """Safe, and one strict order for all groups: see `promised`."""
        return promised(parameters, hosts, cls.messages.index(Token))

    @classmethod
    def most_lost(cls, parameters: CounterParameters, hosts: int) -> int:  # noqa: ARG003 - whatever the parameters
        """A majority must be left."""
        return (hosts - 1) // 2

    @classmethod
    def check(cls, parameters: CounterParameters, hosts: tuple[str, ...]) -> None:
        """Refuse what makes no sense."""
        parameters.check(len(hosts))

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Go on from the token that this host passed on last. The first host makes the first token, if there was none."""
        attached = 0
        if "token" in stored:
            token, attached = stored["token"]
            self._latest = msgspec.convert(token, TokenState)
            self._membership.install_views()
            entries = tuple(entry for entry in self._latest.entries if entry.position > self._data.done)
            self._data.learn(msgspec.structs.replace(self._latest, entries=entries))
            self._passed = self._membership.is_member
        self._outbox.go_on_from(max(attached, self._data.own_done))
        if self._latest.next == self._me and self._reformation.promised <= self._latest.generation:
            self._begin_turn()
        elif self._passed:
            self._wait_for_next()
        self._outbox.send()
        self._listen_again()
        self._call_if_unhappy()
        if "started" in stored and self.env.peers and not self._holds:
            # Whoever knows a newer token than this host tells it.
            self._membership.call(self.env.random.choice(self.env.peers), changes=False)
        self.env.store("started", True)

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Send a message now, or when flow control allows it."""
        self._outbox.take(to, sequence, payload)
        self._wake()

    def on_join(self, group: int, *, wants: bool = True) -> None:
        """Have the owner of the token form a new list, in which this host is in the group, or is not."""
        self._membership.wish(group, wants=wants)
        self._call_if_unhappy()

    def on_leave(self, group: int) -> None:
        """As `on_join`."""
        self.on_join(group, wants=False)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A message of the application, the token, or one of the messages of the parts."""
        match message:
            case Msg(origin=origin, sequence=sequence, payload=payload):
                self._take(origin, sequence, payload)
            case Token() | Known():
                self._assemble(sender, message)
            case Call(generation=generation, changes=changes):
                if generation < self._latest.generation:
                    self._reformation.tell(sender)
                elif changes:
                    self._called |= 1 << self.env.hosts.index(sender)
                self._wake()
            case _:
                super().on_message(sender, message, expensive)

    def on_timer(self, name: str) -> None:
        """The token-owner timer, or one that looks after lost tokens."""
        match name:
            case "hold" if self._holds:
                self._end_turn()
            case "retry" if self._passed:
                self._reissue()
            case "silence":
                self._in_vain += 1
                self._listen_again()
                if not self._holds and not self._reformation.is_open and (self._membership.rides or self._membership.is_member):
                    self._reformation.start()
            case "hold" | "retry":
                pass  # What the timer was for has ended.
            case _:
                super().on_timer(name)

    def _take(self, origin: str, number: int, payload: bytes) -> None:
        """Keep a message, unless this host has it or needs it no more."""
        lacked = self._data.is_lacking
        if origin == self.env.host or not self._data.keep(origin, number, payload):
            return
        self.env.receive(origin, number)
        self._repairs.arrived(origin, number)
        self._wake(found=lacked and not self._data.is_lacking)

    def _wake(self, *, found: bool = False) -> None:
        """There is something to do: an owner that rests goes on, and whoever waits for the next token waits less long.

        An owner that has not heard of it is called: because of this host's own messages, or as it has `found` all that it lacked.
        """
        if self._alert:
            return
        self._alert = True
        needed = found or self._has_work
        if self._holds and self._rests:
            self._begin_hold()
        elif self._passed and not self._tries:
            self._wait_for_next()
        if not self._holds and self._latest.stalls and needed and not self._outbox.has_told(self._latest.next):
            self._membership.call(self.env.hosts[self._latest.next], changes=False)
        self._listen_again()

    def _assemble(self, sender: str, piece: Piece) -> None:
        data = self._assembly.take(sender, piece)
        if data is None:
            return
        state = heard(data, (piece.generation, piece.hop), len(self.env.hosts))
        if state is None:
            return
        is_mine = isinstance(piece, Token) and state.next == self._me
        if state.version <= self._latest.version:
            self._hear_again(sender, state, is_mine=is_mine)
        elif state.generation >= self._reformation.promised or not state.members >> self._me & 1:
            # News of a token that was lost on its way to this host, too, make this host its owner. What this host has promised is that it
            # does not count itself in; it may know of tokens in whose list it is not.
            self._accept(state)
        elif is_mine:
            self._reformation.refuse(sender)

    def _hear_again(self, sender: str, state: TokenState, *, is_mine: bool) -> None:
        """A token that is not newer: give it up, and tell whoever waits for this host what has become of it."""
        if is_mine:
            self._reformation.tell(sender)
        elif self._passed and state.version == self._latest.version and sender == self.env.hosts[state.next]:
            # The next owner has it, and rests.
            self._tries = 0
            self._wait_for_next()

    def _accept(self, state: TokenState) -> None:
        """Take in a token that is newer than all that this host knows."""
        before = self._latest
        if self._passed and state.hop == before.hop + 1:
            self._trips.answered(self.env.hosts[before.next], self.env.now())
        self._let_go()
        self._reformation.abandon()
        self._reformation.promise(state.generation)
        self._latest, self._alert, self._in_vain = state, False, 0
        if state.generation != before.generation:
            self._begin_generation()
        if self._membership.is_member:
            self._take_in(state)
        if state.next == self._me:
            self._begin_turn()
        self._listen_again()
        self._call_if_unhappy()

    def _begin_generation(self) -> None:
        """There is a new list. Messages of this host that were in an older token and are not in this one must be added again."""
        state = self._latest
        self._called = 0
        self._data.begin()
        self._repairs.forget()
        self._flow.restart()
        self._membership.begin()
        if self._membership.is_member:
            self._membership.install_views()
            last = max((entry.last for entry in state.entries if entry.origin == self._me), default=0)
            self._outbox.go_on_from(max(self._data.own_done, last))

    def _take_in(self, state: TokenState) -> None:
        """Compare the token with what this host has: commit, ask for what is missing, and forget what all have."""
        self._data.learn(state)
        self._commit(self._rules.frontier(state))
        self._data.forget(state)
        self._repairs.ask()
        self._flow.hear(state)
        self._outbox.send()

    def _commit(self, frontier: int) -> None:
        before = self._data.own_done
        self._data.commit(frontier)
        self._outbox.forget(before, self._data.own_done)

    def _begin_turn(self) -> None:
        self._holds = True
        self.env.trace("token", generation=self._latest.generation, held=True)
        self._begin_hold()

    def _begin_hold(self) -> None:
        """Keep the token for the token-owner time, or for long if there is nothing to do."""
        self._outbox.begin_turn()
        self._rests = self._latest.stalls > 0 and not self._alert and not self._has_work
        self.env.set_timer("hold", self.parameters.hold_s(self._latest, rests=self._rests))

    def _end_turn(self) -> None:
        """The token-owner timer has expired: form a new list if somebody wants one, else pass the token on."""
        if self._called and not self._reformation.is_open:
            self._reformation.start(wanted=self._called)
        if not self._reformation.is_open:
            self._pass_on()

    def _pass_on(self) -> None:
        """Update the system state, and pass the token on."""
        state = self._latest
        state = msgspec.structs.replace(state, entries=tuple(self._data.counted(entry) for entry in state.entries))
        frontier = self._rules.frontier(state)
        self._commit(frontier)
        entries = [entry for entry in state.entries if entry.position > frontier or not self._removes(entry)]
        entries += self._outbox.attach(self._rules.position(state.cycle, self._me))
        local, overload = self._flow.fields(state, self._me, self._data.undone - self._outbox.unsent)
        changed = self._alert or self._has_work or state.entries != self._latest.entries
        passed = state.passed_on(self._me, self._data.done, entries, local=local, overload=overload, changed=changed)
        next_owner = passed.next
        self._let_go()
        self.env.store("token", (passed, self._outbox.attached))
        self._latest, self._alert, self._tries = passed, False, 0
        self._flow.turn()
        if next_owner == self._me:
            self._take_in(passed)
            self._begin_turn()
            return
        self._send_token()
        self._passed = True
        self._take_in(passed)
        if not passed.stalls:
            self._trips.asked(self.env.hosts[next_owner], self.env.now())
        self._wait_for_next()
        self._listen_again()

    def _removes(self, entry: Entry) -> bool:
        """Whether it is for this host to remove an entry that is committed: its own, and those of hosts that are not in the list."""
        return entry.origin == self._me or not self._latest.members >> entry.origin & 1

    def _let_go(self) -> None:
        """This host is not the owner any more, and need not listen for the next one."""
        if self._holds:
            self._holds = False
            self.env.trace("token", generation=self._latest.generation, held=False)
            self.env.cancel_timer("hold")
        if self._passed:
            self._passed = False
            self._trips.forget(self.env.hosts[self._latest.next])
            self.env.cancel_timer("retry")

    def _send_token(self, to: str = "") -> None:
        """Send the token to all members, or reissue it to one."""
        state = self._latest
        for piece in cut(Token, self.env.host, state.version, encode_state(state)):
            if to:
                self.env.send(to, piece, Purpose.CONTROL)
            else:
                to_everybody(self.env, piece, places(state.members, self.env.hosts), state.hop)

    def _wait_for_next(self) -> None:
        """Listen for the token of the next owner, for longer if that one may rest."""
        wait_s = self._trips.wait_s(self.env.hosts[self._latest.next], self._tries) * self.env.random.uniform(1.0, 1.2)
        self.env.set_timer("retry", wait_s + self.parameters.hold_s(self._latest, rests=not self._alert))

    def _reissue(self) -> None:
        """The next owner was not heard in time: reissue the token, or ask for a list without that host."""
        self._trips.forget(self.env.hosts[self._latest.next])
        self._alert = True
        self._tries += 1
        if self._tries <= self.parameters.tries:
            self._send_token(self.env.hosts[self._latest.next])
            self._wait_for_next()
        else:
            self._tries = 0
            if not self._reformation.is_open:
                self._reformation.start(suspected=1 << self._latest.next)
            self._wait_for_next()

    def _listen_again(self) -> None:
        """Set the timer for a silence that is longer than all tries of another host take."""
        # What it hears from the host after it tells this host how long a hop takes.
        after = self.env.hosts[following(self._latest.members, self._me, len(self.env.hosts))]
        wait_s = sum(self._trips.wait_s(after, tries) for tries in range(self.parameters.tries + 1))
        wait_s = min(wait_s * 2 ** min(self._in_vain, MOST_IN_VAIN), LONGEST_SILENCE * self.parameters.longest_wait_ms / 1000)
        if not self._membership.is_member or not (self._alert or self._has_work):
            wait_s += 3 * self.parameters.hold_s(self._latest, rests=True)
        self.env.set_timer("silence", wait_s * self.env.random.uniform(1.5, 3.0))

    def _give_time(self) -> None:
        """This host has voted for a new list, and gives its vote time to have a consequence."""
        self._let_go()
        self._in_vain += 1
        self._listen_again()

    def _go_on(self) -> None:
        """No majority answers: go on with the list as it is."""
        if self._holds:
            self._begin_hold()
        self._listen_again()

    @property
    def _has_work(self) -> bool:
        """Whether the token must go on because of this host."""
        return bool(self._called) or self._outbox.is_waiting

    def _call_if_unhappy(self) -> None:
        """Have a new list formed if this host is not in the list or in the groups as it wants to be."""
        if self._holds and not self._membership.is_happy:
            self._called |= 1 << self._me
            self._wake()
        else:
            self._membership.call_if_unhappy()

    def _ballot(self) -> Ballot:
        wants = self._membership
        return Ballot(self._latest.generation, self._data.done, wants.groups, wants.rides, *self._data.ballot())

    def _whom_to_ask(self, origin: str, number: int) -> list[str]:
        return self._data.holders(origin, number, self._latest.members)
