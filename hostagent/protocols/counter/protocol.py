"""The counter protocol: a token counts for each message which hosts have it, so hosts that have all commit in one order.

Source: the fourth paper (Chang and Hwang), sections 2 and 3, with its extension to multicast (section 6).

How. Anyone broadcasts at any time. The token goes round the hosts of the token-passing list, and everybody hears it. It carries the system
state: for each host and cycle the numbers of the messages that the host sent, and who has them. The owner counts itself in where it has
everything, adds what it sent since its last turn, removes its own entries that are committed, and after `token_owner_ms` passes the token
on. Whoever hears the token asks for the messages that it lacks (`repairs`). A cycle is committed when every host that needs its messages
has counted itself in, and all earlier cycles are committed: a host sees that in the token, or by the absence of the cycle's entries.

Messages to few. If the destinations of a message are no majority, they count themselves in twice, and in the second round a majority does:
it then knows that all of them have the message. If the paper's one round were enough, the last of them to count itself in could deliver
the message and then be cut off with all others that have it. The rest would leave the message out of their list, and have it again later,
at another place in the order.

Delivery. The paper hands messages to the application when they are committed, and so does this: what is delivered is safe (every member of
the view that is a destination has it) and agreed, strictly. The last message of what is committed together is marked `commit`.

The token. Numbers of messages travel as a first one and counts, with the destinations of each run of messages (the IDs field), so that an
entry does not grow with the load. A token that is longer than a datagram is cut into several (`pieces.cut`), and is heard when all have
arrived. Where an entry would make the token too long for that, its owner waits with it for its next turn. Positions in the order are
numbers (`state`). The counter field is a set and not a count: a count cannot say which hosts of a list that has changed are still missing.

The ring (`hostagent.parts.tokens.ring`) passes the token on, looks after lost tokens, keeps the token while there is nothing to do, and
has a majority agree on each change of the list. `tries` is the paper's L; that a host gives up a token which is older than the one that it
knows is the paper's owner whose token is back before N periods. `membership` says how hosts join and leave, and what they miss meanwhile.

Model. Datagrams are lost, duplicated and reordered; the network is partitioned; hosts crash and restart with their storage. A majority of
all hosts must be connected for anything to be delivered.

Messages. A broadcast is n - 1 packets (1 with multicast), a token as many to each hop, or 2 with `heard_by=neighbours`. C, the control
packets for each broadcast, is what tokens and requests cost, divided by the broadcasts meanwhile; a lone message takes the token round
three times. With `sends=in turn` messages leave right before the token that names them, so that packed they share datagrams.

Decisions. In the paper's T(c, n, t, S) n is the next owner, not the last one. The timer code is cut off in the text: an owner attaches what
it sent before it got the token; what it sends while it has the token belongs to its next cycle. The paper commits cycles, the first host's
messages two cycles after they were added; `commit=entry` commits entries. `flow`, `repairs` and
the ring's `reformation` say what was decided there.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Message
from hostagent.contract.promises import Promise
from hostagent.parts.tokens.places import set_of
from hostagent.parts.tokens.reformation import Known, Reform, Refusal, Vote
from hostagent.parts.tokens.ring import Call, Ring, Token
from hostagent.protocols.counter.datalist import DataList
from hostagent.protocols.counter.flow import Flow
from hostagent.protocols.counter.membership import Membership
from hostagent.protocols.counter.messages import Msg, Req
from hostagent.protocols.counter.outbox import Outbox
from hostagent.protocols.counter.parameters import CounterParameters
from hostagent.protocols.counter.promised import promised
from hostagent.protocols.counter.repairs import Repairs
from hostagent.protocols.counter.state import (
    MOST_ENTRIES_BYTES,
    Ballot,
    Entry,
    TokenState,
    decode_ballot,
    decode_token,
    encode_state,
    reformed,
)


class Counter(Core):
    """Count, and commit; the ring passes the token on."""

    name = "counter"
    number = 14
    summary = "a token counts which hosts have each message: one safe order, n - 1 packets and a share of the tokens"
    assumes = "a majority of the hosts runs and is connected; hosts that crash come back with their storage"
    beyond = frozenset({"restart-lost"})
    knows_groups = True
    knows_membership = True
    messages = (Msg, Token, Known, Req, Call, Reform, Vote, Refusal)
    waits = ("longest_wait_ms",)
    Parameters = CounterParameters
    parameters: CounterParameters

    def __init__(self, env: Environment, parameters: CounterParameters) -> None:
        super().__init__(env, parameters)
        hosts = len(env.hosts)
        self._me = env.hosts.index(env.host)
        self._rules = parameters.rules(hosts)
        longest_s = parameters.longest_wait_ms / 1000
        self._data = self.add("data", DataList)
        self._repairs = self.add("repairs", lambda own: Repairs(own, longest_s, holders=self._whom_to_ask, find=self._data.find))
        self._data.want, self._data.found = self._repairs.want, self._repairs.arrived
        self._flow = Flow(parameters)
        in_turn = parameters.sends == "in turn"
        self._outbox = self.add("outbox", lambda own: Outbox(own, self._flow, self._data, in_turn=in_turn))
        self._membership = self.add("membership", lambda own: Membership(own, lambda: self._ring.latest))
        groups = tuple((group, set_of(members, env.hosts), 0) for group, members in sorted(env.groups.items()))
        first = TokenState(0, 0, 1, 0, (1 << hosts) - 1, 0, (0,) * hosts, groups, (), 0, hosts, ())
        self._ring: Ring[TokenState, Ballot] = self.add("ring", lambda own: Ring(own, parameters, self, first))

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
        state = self._ring.latest
        if state.hop:
            self._membership.install_views()
            entries = tuple(entry for entry in state.entries if entry.position > self._data.done)
            self._data.learn(msgspec.structs.replace(state, entries=entries))
        self._outbox.go_on_from(max(stored.get("attached", 0), self._data.own_done))
        self._ring.begin()
        self._outbox.send()

    @property
    def unfinished(self) -> int:
        """The messages that wait for flow control. Without it nobody is held back, as in the paper."""
        return self._outbox.unsent if self.parameters.flow_control else 0

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Send a message now, or when flow control allows it."""
        self._outbox.take(to, sequence, payload)
        self._ring.wake()

    def on_join(self, group: int, *, wants: bool = True) -> None:
        """Have the owner of the token form a new list, in which this host is in the group, or is not."""
        self._membership.wish(group, wants=wants)
        self._ring.wish()

    def on_leave(self, group: int) -> None:
        """As `on_join`."""
        self.on_join(group, wants=False)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A message of the application, or one of the messages of the parts."""
        match message:
            case Msg(origin=origin, sequence=sequence, payload=payload):
                self._take(origin, sequence, payload)
            case _:
                super().on_message(sender, message, expensive)

    def _take(self, origin: str, number: int, payload: bytes) -> None:
        """Keep a message, unless this host has it or needs it no more."""
        lacked = self._data.is_lacking
        if origin == self.env.host or not self._data.keep(origin, number, payload):
            return
        self.env.receive(origin, number)
        self._repairs.arrived(origin, number)
        self._ring.wake(found=lacked and not self._data.is_lacking)

    # --- what the ring asks for

    @property
    def is_waiting(self) -> bool:
        """Whether this host has messages that are not in the token yet."""
        return self._outbox.is_waiting

    @property
    def rides(self) -> bool:
        """Whether this host wants to be in the list."""
        return self._membership.rides

    @property
    def is_happy(self) -> bool:
        """Whether this host is in the list, and in its groups, as it wants to be."""
        return self._membership.is_happy

    def encode(self, state: TokenState) -> bytes:
        """A token as it travels."""
        return encode_state(state)

    def decode(self, data: bytes) -> TokenState | None:
        """A token that was received; None if no host of this run can have sent it."""
        try:
            state = decode_token(data)
        except msgspec.MsgspecError:
            return None
        return state if state.is_sound(len(self.env.hosts)) else None

    def ballot(self) -> Ballot:
        """What this host has, for a new list."""
        wants = self._membership
        state = self._ring.latest
        return Ballot(state.generation, self._data.done, wants.groups, wants.rides, *self._data.ballot(state))

    def encode_ballot(self, ballot: Ballot) -> bytes:
        """A ballot as it travels."""
        return encode_state(ballot)

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
        """There is a new list. Messages of this host that were in an older token and are not in this one must be added again."""
        self._data.begin()
        self._repairs.forget()
        self._flow.restart()
        if self._ring.is_member:
            self._membership.install_views()
            entries = self._ring.latest.entries
            last = max((entry.last for entry in entries if entry.origin == self._me), default=0)
            self._outbox.go_on_from(max(self._data.own_done, last))

    def take_in(self, state: TokenState) -> None:
        """Compare the token with what this host has: commit, ask for what is missing, and forget what all have."""
        self._data.learn(state)
        self._commit(self._rules.frontier(state))
        self._data.forget(state)
        self._repairs.ask()
        self._flow.hear(state)
        self._outbox.send()

    def begin_turn(self) -> None:
        """What this host sends from now on belongs to its next cycle."""
        self._outbox.begin_turn()

    def may_pass(self) -> bool:
        """The token-owner time is all that an owner waits for."""
        return True

    def updated(self, state: TokenState, *, alert: bool) -> TokenState:
        """Update the system state: count, commit, remove and add."""
        seen = (self._rules.counted_again(self._data.counted(entry), state.members, self._me) for entry in state.entries)
        counted = msgspec.structs.replace(state, entries=tuple(seen))
        frontier = self._rules.frontier(counted)
        self._commit(frontier)
        entries = [entry for entry in counted.entries if entry.position > frontier or not self._removes(entry)]
        room = MOST_ENTRIES_BYTES - sum(entry.most_bytes for entry in entries)
        entries += self._outbox.attach(self._rules.position(state.cycle, self._me), room)
        self.env.store("attached", self._outbox.attached)
        local, overload = self._flow.fields(counted, self._me, self._data.undone - self._outbox.unsent)
        self._flow.turn()
        changed = alert or counted.entries != state.entries
        return counted.passed_on(self._me, self._data.done, entries, local=local, overload=overload, changed=changed)

    def has_told(self, place: int) -> bool:
        """Whether the last message that this host sent went to this host."""
        return self._outbox.has_told(place)

    def _commit(self, frontier: int) -> None:
        before = self._data.own_done
        self._data.commit(frontier)
        self._outbox.forget(before, self._data.own_done)

    def _removes(self, entry: Entry) -> bool:
        """Whether it is for this host to remove an entry that is committed: its own, and those of hosts that are not in the list."""
        return entry.origin == self._me or not self._ring.latest.members >> entry.origin & 1

    def _whom_to_ask(self, origin: str, number: int) -> list[str]:
        return self._data.holders(origin, number, self._ring.latest.members)
