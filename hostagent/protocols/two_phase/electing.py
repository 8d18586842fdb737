"""The two phases with a third one, in which a majority of all hosts stores the final priority: any host can then finish a message.

Why a third phase. Say the source has the proposals of all destinations, delivers the message, and fails before anybody else knows the
final priority. The others cannot find it out: without the source's own proposal they may choose another one, and with it another order
(third paper, section 7.3). So nobody may deliver before enough hosts have stored the decision. The thesis names a third phase as the way
out (section 7.1.3). With an imperfect failure detector, that is consensus on the final priority of each message: ballots, as in Paxos.

Why all hosts vote. A destination that was left out, as it seemed dead, may live and have delivered messages with higher priorities, so it
would deliver this one too late. Only a host that both decisions had to pass can prevent that, and with groups that overlap, and messages
to listed hosts, the destinations of two messages need not have one in common. (Guerraoui and Schiper showed that no protocol can do it
with the destinations alone.) So here every host gets every message and votes on it, and any two majorities have a host in common.

How. Each host takes the messages of a source in their order, and proposes for each a counter above all that it has proposed or accepted.
The final counter is the highest of those that a majority proposes. A host that accepts it says which messages it has `seen`, that is,
given a priority to. When a majority has accepted, the counter is decided, and everybody learns it together with what that majority had
seen. If one that had seen more than the others disappears, `looks.py` finds out what may still come before.

A message may be delivered when all messages that the majority had seen are decided too, in the order of final counters. Why nothing comes
too late: a message with a final counter that is not higher was proposed by a majority with counters that are not higher. One host of this
majority also accepted the counter of the other message; it proposed before that, as it proposes only higher counters afterwards; so it
had seen the message when it accepted. The highest counters of two messages of one source may be in the wrong order, as different hosts
may have voted on them. So the place of a message is the highest final counter among it and all earlier messages of its source. If that is
the one of an earlier message, what may come before has been waited for when that message was delivered.

Taking over. A message that is not decided in twice the time that is usual for its source is taken over, by one host after another, each
with a ballot of its own. It asks all for their votes again; a host that votes in a ballot takes part in no lower one. If any of the
majority has accepted a counter, the one of the highest ballot must be chosen, as it may have been decided. So a counter that is decided
is the only one for ever, also when the source comes back or two hosts take over at once. A message that is decided, but not known to be
so everywhere, is passed on by the first host after its source that has it: the others ask that host whether it still lives.

What is kept. Every host keeps a message, on stable storage, until everybody has the decision. Its source says so (`floor` in its next
message, or `Done`), or whoever took over.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, LISTED, Destination, Message, Purpose, host_set
from hostagent.parts.questions import JITTER, WINDOW
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.two_phase.looks import Looks
from hostagent.protocols.two_phase.messages import (
    Accept,
    Accepted,
    Decided,
    Done,
    Have,
    Look,
    Looked,
    MessageId,
    Promised,
    Refused,
    Seen,
    Vote,
)
from hostagent.protocols.two_phase.parameters import LAST_TURN, TwoPhaseParameters
from hostagent.protocols.two_phase.places import Places
from hostagent.protocols.two_phase.records import Held
from hostagent.protocols.two_phase.rounds import Rounds

# A message takes five datagrams in a row: what is not decided after this many times as long as usual is taken over.
OVERDUE: Final = 2.0
# A host that lacks earlier messages of a source keeps so many later ones; others will be repeated when their turn has come.
MOST_EARLY: Final = 256


class Electing(Part):
    """A host as a source, a voter and a destination."""

    messages = (Vote, Promised, Accept, Accepted, Refused, Decided, Have, Done, Look, Looked)

    def __init__(self, env: Environment, parameters: TwoPhaseParameters) -> None:
        super().__init__(env)
        self.parameters = parameters
        self.rounds = self.add("rounds", lambda own: Rounds(own, parameters, self))
        self.looks = self.add("looks", lambda own: Looks(own, parameters, self))
        self.counter = 0
        """The highest counter that this host has proposed or accepted."""
        self.held: dict[MessageId, Held] = {}
        self.seen = dict.fromkeys(env.hosts, 0)
        """The last message of each host that this host has proposed a priority for: without gaps."""
        self.done = dict.fromkeys(env.hosts, 0)
        """For each host, the last of its messages that everybody can deliver, as far as this host knows."""
        self.places = Places(env.hosts, self.held)
        self.early: dict[str, dict[int, tuple[str, Vote]]] = {}
        """Messages that came before an earlier one of the same source, and from whom."""
        self.waiting: dict[int, Vote] = {}
        """This host's own messages that wait until fewer are undecided."""
        self.undecided = 0
        """How many of this host's own messages are not decided."""
        self.due: dict[str, int] = {}
        """For each host with a timer: the last of its messages when that was set."""
        self.attempts: dict[str, int] = {}
        self.trips = RoundTrips(parameters.takeover_ms / 1000)
        self.timed: dict[str, int] = {}
        """For each host the message whose decision shows how long one takes."""
        self.vouched: dict[str, dict[str, int]] = {}
        """For each source, the hosts that have told this one of a decision since the timer was set, and the last message of these."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore what not everybody can deliver, and finish what is this host's own."""
        self.counter = stored.get("counter", 0)
        for key, value in stored.items():
            match key.split("/"):
                case ["passed", origin]:
                    self.places.restore(origin, *value)
                case ["held", origin, sequence]:
                    fields, own = value
                    self.held[origin, int(sequence)] = self._restored(Held(Vote(*fields), own), stored)
                case ["waiting", sequence]:
                    self.waiting[int(sequence)] = Vote(*value)
        self.waiting = dict(sorted(self.waiting.items()))
        for origin in self.env.hosts:
            numbers = [sequence for host, sequence in self.held if host == origin]
            passed = self.places.passed[origin][0]
            self.seen[origin] = max([passed, *numbers])
            self.done[origin] = min(numbers) - 1 if numbers else passed
            self.places.settle(origin)
            self.watch(origin)
        self._deliver()
        own = sorted(message for message in self.held if message[0] == self.env.host)
        mine = [self.held[message] for message in own]
        self.undecided = sum(not held.decided for held in mine)
        for held in mine:
            self._take_over(held)
        self._release()

    def _restored(self, held: Held, stored: Mapping[str, Any]) -> Held:
        where = f"{held.vote.origin}/{held.vote.sequence}"
        if vote := stored.get(f"vote/{where}"):
            held.promised, accepted = vote
            held.accepted = tuple(accepted) if accepted else None
        if decided := stored.get(f"decided/{where}"):
            held.decided, seen = decided
            held.seen = tuple(seen)
        return held

    # The source.

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Begin phase 1, or wait if too many messages are undecided."""
        listed = host_set(to.hosts, self.env.hosts) if to.group == LISTED else b""
        vote = Vote(to.group, self.env.host, sequence, payload, 0, 0, to.nth, listed)
        self.waiting[sequence] = vote
        if len(self.waiting) > 1 or self.undecided >= self.parameters.window:
            self.env.store(f"waiting/{sequence}", msgspec.structs.astuple(vote))
        self._release()

    def _release(self) -> None:
        """Begin with messages that wait, as many as the window allows."""
        while self.waiting and self.undecided < self.parameters.window:
            vote = self.waiting.pop(next(iter(self.waiting)))
            self.env.store(f"waiting/{vote.sequence}", None)
            if vote.sequence <= self.seen[self.env.host]:
                # This host has lost its storage, and others have told it of a message with this number.
                continue
            held = self._hold(vote)
            self.undecided += 1
            self.rounds.begin(held, ballot=0, purpose=Purpose.DATA)

    # A host that waits for a message to be finished.

    def watch(self, origin: str) -> None:
        """Take messages of a host over if they are not finished in time; hosts take turns."""
        if self.seen[origin] > self.done[origin] and (origin, self.done[origin] + 1) in self.held:
            turn = min(len(self._before_this_host(origin)), LAST_TURN)
            oldest = self.held[origin, self.done[origin] + 1]
            usual_s = self.parameters.takeover_ms / 1000 if oldest.decided else OVERDUE * self.trips.wait_s(origin)
            wait_s = usual_s * (1 + turn / 2) * 2.0 ** self.attempts.get(origin, 0)
            wait_s = min(wait_s, self.parameters.longest_takeover_ms / 1000)
            self.due[origin] = self.seen[origin]
            self.env.set_timer(origin, wait_s * self.env.random.uniform(1.0, JITTER))

    def on_timer(self, name: str) -> None:
        """Messages of a host were not finished in time."""
        if name not in self.due:
            super().on_timer(name)
        due, vouched = self.due.pop(name), self.vouched.pop(name, {})
        numbers = range(self.done[name] + 1, due + 1)
        overdue = [held for n in numbers if (held := self.held.get((name, n))) and held.vote.id not in self.rounds.open]
        others = self._before_this_host(name)
        if any(vouched.get(host, 0) >= due for host in others):
            overdue = [held for held in overdue if not held.decided]
        for held in [held for held in overdue if not held.everywhere][:WINDOW]:
            self._take_over(held)
            self.attempts[name] = min(self.attempts.get(name, 0) + 1, 10)
        newest = self.held.get((name, due))
        if newest is not None and newest.decided:
            for host in others:
                self.env.send(host, newest.vote, Purpose.REPAIR)
        self.watch(name)

    def _before_this_host(self, origin: str) -> tuple[str, ...]:
        """The hosts whose turn it is to finish the messages of a host before this one: the source itself, and those that follow it."""
        hosts, start = self.env.hosts, self.env.hosts.index(origin)
        turns = hosts[start:] + hosts[:start]
        return turns[: turns.index(self.env.host)]

    def _take_over(self, held: Held) -> None:
        """Try to finish a message with a ballot above all that this host knows of."""
        if held.decided:
            self.rounds.begin(held, 0, Purpose.REPAIR)
            return
        hosts = self.env.hosts
        ballot = (max(held.promised, held.heard) // len(hosts) + 1) * len(hosts) + hosts.index(self.env.host)
        self.env.trace("takeover", held.vote.id, ballot=ballot)
        self.rounds.begin(held, ballot, Purpose.REPAIR)

    # A voter.

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A step of a round, or an answer."""
        match message:
            case Vote():
                self._take_vote(sender, message)
            case Accept():
                self._take_accept(sender, message)
            case Decided():
                self._take_decision(sender, message)
            case Done(origin=origin, sequence=sequence):
                self._forget_up_to(origin, sequence)
            case Look() | Looked():
                self.looks.on_message(sender, message, expensive)
            case _:
                self.rounds.on_message(sender, message, expensive)

    def _take_vote(self, sender: str, vote: Vote) -> None:
        """Propose a priority for a new message, in the order of its source; then vote."""
        origin, sequence = vote.id
        self._forget_up_to(origin, vote.floor)
        is_new = vote.id not in self.held
        if is_new and sequence <= self.seen[origin]:
            self.env.send(sender, Done(EVERYBODY, origin, sequence), Purpose.CONTROL)
            return
        if sequence > self.seen[origin] + 1:
            if sequence <= self.seen[origin] + MOST_EARLY:
                self.early.setdefault(origin, {})[sequence] = sender, vote
            return
        held = self._hold(vote) if is_new else self.held[vote.id]
        self._vote(sender, held, vote.ballot, Purpose.DATA if is_new and not vote.ballot else Purpose.REPAIR)
        next_ = self.early.get(origin, {}).pop(sequence + 1, None)
        if next_ is not None:
            self._take_vote(*next_)
        elif origin in self.early and not self.early[origin]:
            del self.early[origin]

    def _hold(self, vote: Vote) -> Held:
        """Keep a new message, with a priority above all that this host has proposed or accepted."""
        self.counter += 1
        self.early.get(vote.origin, {}).pop(vote.sequence, None)
        held = self.held[vote.id] = Held(msgspec.structs.replace(vote, ballot=0, floor=0), self.counter)
        self.seen[vote.origin] = vote.sequence
        self.env.store("counter", self.counter)
        self.env.store(f"held/{vote.origin}/{vote.sequence}", (msgspec.structs.astuple(held.vote), self.counter))
        self.env.receive(*vote.id)
        if vote.origin not in self.timed:
            self.timed[vote.origin] = vote.sequence
            self.trips.asked(vote.origin, self.env.now())
        if vote.origin not in self.due:
            self.watch(vote.origin)
        return held

    def _vote(self, sender: str, held: Held, ballot: int, purpose: Purpose) -> None:
        if held.decided:
            self.env.send(sender, held.decision, Purpose.REPAIR)
        elif ballot < held.promised:
            self.env.send(sender, Refused(*held.header, held.promised), Purpose.CONTROL)
        else:
            if ballot > held.promised:
                held.promised = ballot
                self.store_vote(held)
                self._step_back(held, ballot)
            self.env.send(sender, held.promise, purpose)

    def _step_back(self, held: Held, ballot: int) -> None:
        """Leave a message to the host with a higher ballot, for now."""
        held.heard = max(held.heard, ballot)
        round_ = self.rounds.open.get(held.vote.id)
        if round_ is not None and round_.ballot < ballot:
            self.rounds.drop(held)
        self.watch(held.vote.origin)

    def _take_accept(self, sender: str, message: Accept) -> None:
        """Accept a final counter, unless this host has promised not to."""
        held = self.held.get((message.origin, message.sequence))
        if held is None:
            return
        if held.decided:
            self.env.send(sender, held.decision, Purpose.REPAIR)
        elif message.ballot < held.promised:
            self.env.send(sender, Refused(*held.header, held.promised), Purpose.CONTROL)
        else:
            is_new = held.accepted != (message.ballot, message.counter)
            self.accept(held, message.ballot, message.counter)
            purpose = Purpose.DATA if is_new and not message.ballot else Purpose.REPAIR
            self.env.send(sender, Accepted(*held.header, message.ballot, self.all_seen()), purpose)

    def accept(self, held: Held, ballot: int, counter: int) -> None:
        """From now on this host proposes higher counters only."""
        held.promised, held.accepted = ballot, (ballot, counter)
        self.store_vote(held)
        self.counter = max(self.counter, counter)
        self.env.store("counter", self.counter)

    def store_vote(self, held: Held) -> None:
        """Keep what this host has promised and accepted."""
        self.env.store(f"vote/{held.vote.origin}/{held.vote.sequence}", (held.promised, held.accepted))

    def all_seen(self) -> Seen:
        """The messages that this host has proposed priorities for."""
        return tuple(self.seen[host] for host in self.env.hosts)

    # A destination.

    def _take_decision(self, sender: str, message: Decided) -> None:
        """The place of a message is known. The sender may have asked, or answer what this host asked."""
        origin, sequence = message.origin, message.sequence
        held = self.held.get((origin, sequence))
        if origin in self.due:
            vouched = self.vouched.setdefault(origin, {})
            vouched[sender] = max(sequence, vouched.get(sender, 0))
        if held is None:
            if sequence <= self.seen[origin]:
                self.env.send(sender, Have(EVERYBODY, origin, sequence), Purpose.CONTROL)
            return
        asked = self.rounds.questions.awaits(sender, held.vote.id)
        if not held.decided:
            self.decide(held, message.counter, message.seen)
        if asked:
            self.rounds.has_decision(sender, held)
        else:
            self.env.send(sender, Have(*held.header), Purpose.CONTROL)

    def decide(self, held: Held, counter: int, seen: Seen) -> None:
        """Note the decision, tell everybody if this host asked for it, and deliver what can be."""
        origin, sequence = held.vote.id
        held.decided, held.seen = counter, seen
        self.env.store(f"decided/{origin}/{sequence}", (counter, seen))
        self.env.store(f"vote/{origin}/{sequence}", None)
        self.counter = max(self.counter, counter)
        self.env.store("counter", self.counter)
        self.attempts.pop(origin, None)
        if self.timed.get(origin, sequence + 1) <= sequence:
            del self.timed[origin]
            self.trips.answered(origin, self.env.now())
        self.rounds.tell(held)
        if origin == self.env.host:
            self.undecided -= 1
            self._release()
        self.places.settle(origin)
        self._deliver()

    def _deliver(self) -> None:
        """Deliver what nothing can come before, or pass it over if it is for others."""
        while held := self.places.pop():
            origin, sequence = held.vote.id
            self.env.store(f"passed/{origin}", self.places.passed[origin])
            if self.env.host in held.vote.destination(self.env.groups, self.env.hosts).hosts:
                self.env.deliver(origin, sequence, held.vote.payload)
            if sequence <= self.done[origin]:
                self._forget(held)
        self.looks.wait(blocked=self.places.waits())

    def promise_above(self, counter: int) -> Seen:
        """Propose only higher counters from now on, and say what was proposed before."""
        if counter > self.counter:
            self.counter = counter
            self.env.store("counter", counter)
        return self.all_seen()

    def limit(self, counter: int, seen: Seen) -> None:
        """Nothing but what was seen can come before the messages with final counters up to this one."""
        for held in self.places.waiting():
            if held.decided <= counter:
                held.seen = tuple(map(min, held.seen, seen))
                self.env.store(f"decided/{held.vote.origin}/{held.vote.sequence}", (held.decided, held.seen))
        self._deliver()

    def finished(self, held: Held) -> None:
        """Everybody has the decision, so nobody needs this host's copy any more. Say so when there is nothing else to say it with."""
        origin, _ = held.vote.id
        held.everywhere = True
        before = up_to = self.done[origin]
        while (next_ := self.held.get((origin, up_to + 1))) is not None and next_.everywhere:
            up_to += 1
        self._forget_up_to(origin, up_to)
        if up_to > before and not self.rounds.of(origin):
            self.env.multicast(EVERYBODY, Done(EVERYBODY, origin, up_to), Purpose.CONTROL)

    def _forget_up_to(self, origin: str, sequence: int) -> None:
        """Everybody can deliver these messages: nobody will ask for them."""
        for number in range(self.done[origin] + 1, min(sequence, self.seen[origin]) + 1):
            held = self.held.get((origin, number))
            if held is not None and not held.decided:
                return
            self.done[origin] = number
            if held is not None and number <= self.places.passed[origin][0]:
                self._forget(held)
        if self.done[origin] >= self.seen[origin] and self.due.pop(origin, None) is not None:
            self.env.cancel_timer(origin)
            self.vouched.pop(origin, None)

    def _forget(self, held: Held) -> None:
        origin, sequence = held.vote.id
        del self.held[held.vote.id]
        self.rounds.drop(held)
        for key in ("held", "vote", "decided"):
            self.env.store(f"{key}/{origin}/{sequence}", None)
