"""Election by majority: of several hosts that want to take over from another, at most one is elected in each epoch.

Source: ballots and promises as in Paxos (Lamport, "The Part-Time Parliament", 1998) and viewstamped replication (Oki and Liskov, 1988);
the trial before a ballot as in Raft (Ongaro, thesis, 2014, section 9.6).

Model. Datagrams are lost, duplicated, reordered and delayed at will; hosts crash and restart with their storage. Whoever calls for an
election may err: several hosts may stand at once, also while the host that they want to replace is alive.

How. Epochs are numbered 1, 2, 3, ...; epoch 0 needs no election. A host that stands asks the electors for their votes (`Call`). An elector
gives one vote in each epoch, stores it before it answers, and never again votes in that epoch or a lower one. A vote carries a state of
the voter, which is opaque here. The candidate that has votes of more than half of the electors is elected, and gets their states.

Trial. A host that was cut off must not disturb the others when it is back. So a candidate first asks who would vote for it, which binds
nobody; a host that is content with things as they are answers no. Only with a majority of such votes is an epoch used up. A host that has
voted in an epoch that the others do not know needs an election to take part again: such a trial is granted by everybody.

Repetition. A call that is not answered in time is repeated in the same epoch, and after a refusal with a new trial for a higher epoch.
Waits follow the round trips that were seen, double with each try, and are lengthened at random, so that one of several candidates is first.
An elector that has voted stands itself if it does not hear who was elected in time: the candidate may have died. All of this ends when the
owner says who was elected (`settled`).

Guarantees. At most one host is elected in an epoch. A voter has promised, so whatever comes from a host that was elected in an epoch below
`epoch(subject)` must be refused by the owner. Then what a majority has accepted from former epochs is in the states of the voters: two
majorities have a host in common. If a majority is connected for long enough and somebody stands, somebody is elected and told.

Messages (all control). `Call` to each other elector, once as a trial and once in earnest; `Vote` or `Refusal` in return: 4(n - 1) packets
for an election among n hosts, on a network that multicasts 2(n - 1) + 2 if the electors are everybody.

A subject says what an election is about: the one role that a protocol has (`Election.role`), or the origin and number of a message. What
is stored for a subject is kept until `forget`.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose, SequenceNumber
from hostagent.parts.round_trips import RoundTrips

LONGEST_STATE: Final = 1400
State = Annotated[bytes, msgspec.Meta(max_length=LONGEST_STATE)]
"""What a voter tells the elected, in the form that its owner chooses; it must fit into a datagram."""
Subject = tuple[str, int]
"""A host and a number: what an election is about."""


class Call(Message, frozen=True):
    """The sender stands for `epoch` and asks for a vote; a trial binds nobody. Origin and sequence are the subject."""

    epoch: SequenceNumber
    trial: bool
    state: State


class Vote(Message, frozen=True):
    """The sender votes for the receiver, or would in a trial; the state is the sender's."""

    epoch: SequenceNumber
    trial: bool
    state: State


class Refusal(Message, frozen=True):
    """The sender does not vote for the receiver in `epoch`; it has voted in `voted`."""

    epoch: SequenceNumber
    voted: SequenceNumber


class _Ballot:
    """One host's part in the elections about one subject."""

    def __init__(self) -> None:
        self.epoch, self.voted_for = 0, ""
        """The last vote of this host, on stable storage."""
        self.is_open = False
        """Whether this host stands, or has voted and does not know yet who was elected."""
        self.standing = 0
        """The epoch that this host stands for; 0 if it does not."""
        self.trial = True
        self.states: dict[str, bytes] = {}
        """The votes for this host, with the states of the voters."""
        self.refused = False
        """Whether somebody has refused this host a vote since it stands for this epoch."""
        self.highest = 0
        """The highest epoch in which somebody who refused had voted."""
        self.tries = 0
        """How often in a row this host has called in vain."""


class Election(Part):
    """Elections in which this host votes and may stand.

    The owner says: the `state` of this host; `on_elected`, called at the elected host with the subject, the epoch and the states of a
    majority, its own included; who the `electors` are, everybody if it does not say; `accepts`, whether this host may vote for a candidate
    with that state at all; and `is_content`, whether this host sees no reason for an election, to which only trials are subject.
    """

    messages = (Call, Vote, Refusal)

    def __init__(
        self,
        env: Environment,
        trips: RoundTrips,
        *,
        state: Callable[[Subject], bytes],
        on_elected: Callable[[Subject, int, dict[str, bytes]], None],
        electors: Callable[[Subject], tuple[str, ...]] | None = None,
        accepts: Callable[[Subject, str, bytes], bool] = lambda *_: True,
        is_content: Callable[[Subject], bool] = lambda _: False,
    ) -> None:
        super().__init__(env)
        self.role: Subject = env.hosts[0], 0
        """The subject for a protocol that elects for one role only."""
        self._trips = trips
        self._state = state
        self._on_elected = on_elected
        self._electors = electors or (lambda _: env.hosts)
        self._accepts = accepts
        self._is_content = is_content
        self._ballots: dict[Subject, _Ballot] = {}

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the votes. Who stood before the restart does not stand any more: votes for it come too late."""
        for key, (epoch, voted_for) in stored.items():
            origin, _, sequence = key.partition("/")
            ballot = self._ballot((origin, int(sequence)))
            ballot.epoch, ballot.voted_for = epoch, voted_for

    def epoch(self, subject: Subject) -> int:
        """The epoch of this host's last vote: nobody who was elected in a lower one may be obeyed here any more."""
        return self._ballots[subject].epoch if subject in self._ballots else 0

    def is_open(self, subject: Subject) -> bool:
        """Whether this host stands, or has voted and does not know yet who was elected."""
        return subject in self._ballots and self._ballots[subject].is_open

    def stand(self, subject: Subject) -> None:
        """Begin a trial, unless this host has part in an election already."""
        assert self.env.host in self._electors(subject), subject
        if not self.is_open(subject):
            self._try(subject, self._ballot(subject))

    def settled(self, subject: Subject, epoch: int, elected: str) -> None:
        """Somebody was elected in an epoch: that ends the election here, unless this host has voted in a higher epoch since."""
        ballot = self._ballot(subject)
        if epoch > ballot.epoch:
            self._store_vote(subject, ballot, epoch, elected)
        if epoch == ballot.epoch:
            ballot.is_open, ballot.standing, ballot.tries = False, 0, 0
            ballot.states = {}
            self.env.cancel_timer(_name(subject))

    def forget(self, subject: Subject) -> None:
        """There will be no more elections about a subject. From now on `electors` must name nobody for it, or a late call begins anew."""
        if self._ballots.pop(subject, None):
            self.env.store(_name(subject), None)
            self.env.cancel_timer(_name(subject))

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A call, or an answer to one. Nobody but electors has a say."""
        subject = message.origin, message.sequence
        electors = self._electors(subject)
        if sender not in electors or self.env.host not in electors:
            return
        match message:
            case Call():
                self._answer(subject, sender, message)
            case Vote():
                self._count(subject, sender, message)
            case Refusal(epoch=epoch, voted=voted) if (ballot := self._ballots.get(subject)) and ballot.standing == epoch:
                ballot.refused, ballot.highest = True, max(ballot.highest, voted)

    def on_timer(self, name: str) -> None:
        """Nobody was elected in time, as far as this host knows."""
        origin, _, sequence = name.partition("/")
        subject = origin, int(sequence)
        ballot = self._ballot(subject)
        assert ballot.is_open, name
        ballot.tries += 1
        self._try(subject, ballot)

    def _try(self, subject: Subject, ballot: _Ballot) -> None:
        """Ask those who have not answered again; after a refusal, and at first, begin with a trial for the next epoch."""
        if ballot.standing and not ballot.refused:
            silent = [elector for elector in self._others(subject) if elector not in ballot.states]
            for elector in silent:
                self._trips.forget(elector)
            self._call(subject, ballot, self.env.shuffled(silent))
            return
        ballot.standing, ballot.trial = max(ballot.epoch, ballot.highest) + 1, True
        self._begin(subject, ballot)

    def _begin(self, subject: Subject, ballot: _Ballot) -> None:
        """Ask everybody for a vote, and count this host's own."""
        ballot.is_open, ballot.refused, ballot.states = True, False, {}
        others = self._others(subject)
        for elector in others:
            self._trips.asked(elector, self.env.now())
        self._call(subject, ballot, others)
        self._count(subject, self.env.host, Vote(EVERYBODY, *subject, ballot.standing, ballot.trial, self._state(subject)))

    def _call(self, subject: Subject, ballot: _Ballot, to: tuple[str, ...] | list[str]) -> None:
        call = Call(EVERYBODY, *subject, ballot.standing, ballot.trial, self._state(subject))
        if len(to) == len(self.env.peers):
            self.env.multicast(EVERYBODY, call, Purpose.CONTROL)
        else:
            for elector in to:
                self.env.send(elector, call, Purpose.CONTROL)
        self._wait(subject, ballot)

    def _answer(self, subject: Subject, candidate: str, call: Call) -> None:
        """Give a vote, or refuse it."""
        ballot = self._ballot(subject)
        if call.trial:
            # A candidate that is two epochs ahead has voted where this host has not: it needs an election, whoever is content.
            may = call.epoch > ballot.epoch and not (call.epoch == ballot.epoch + 1 and self._is_content(subject))
        else:
            may = call.epoch > ballot.epoch or (call.epoch == ballot.epoch and candidate == ballot.voted_for)
        if not may or not self._accepts(subject, candidate, call.state):
            self.env.send(candidate, Refusal(EVERYBODY, *subject, call.epoch, ballot.epoch), Purpose.CONTROL)
            return
        if not call.trial and call.epoch > ballot.epoch:
            self._store_vote(subject, ballot, call.epoch, candidate)
            ballot.is_open, ballot.standing, ballot.states = True, 0, {}
            self._wait(subject, ballot)
        self.env.send(candidate, Vote(EVERYBODY, *subject, call.epoch, call.trial, self._state(subject)), Purpose.CONTROL)

    def _count(self, subject: Subject, voter: str, vote: Vote) -> None:
        """Note a vote for this host. With a majority, a trial becomes earnest, and an earnest candidate is elected."""
        ballot = self._ballots.get(subject)
        if ballot is None or (ballot.standing, ballot.trial) != (vote.epoch, vote.trial):
            return
        self._trips.answered(voter, self.env.now())
        ballot.states[voter] = vote.state
        if 2 * len(ballot.states) <= len(self._electors(subject)):
            return
        if ballot.trial:
            ballot.trial = False
            self._store_vote(subject, ballot, ballot.standing, self.env.host)
            self._begin(subject, ballot)
        else:
            states = ballot.states
            self.settled(subject, vote.epoch, self.env.host)
            self._on_elected(subject, vote.epoch, states)

    def _store_vote(self, subject: Subject, ballot: _Ballot, epoch: int, candidate: str) -> None:
        assert epoch > ballot.epoch, (subject, epoch)
        ballot.epoch, ballot.voted_for = epoch, candidate
        self.env.store(_name(subject), (epoch, candidate))

    def _wait(self, subject: Subject, ballot: _Ballot) -> None:
        """Wait for as many answers as make a majority; longer with each try, and a random time longer, so that candidates differ."""
        waits_s = sorted(self._trips.wait_s(elector, ballot.tries) for elector in self._others(subject))
        needed = len(self._electors(subject)) // 2
        wait_s = waits_s[needed - 1] if needed else 0.0
        self.env.set_timer(_name(subject), wait_s * self.env.random.uniform(1, 2))

    def _others(self, subject: Subject) -> tuple[str, ...]:
        return tuple(elector for elector in self._electors(subject) if elector != self.env.host)

    def _ballot(self, subject: Subject) -> _Ballot:
        return self._ballots.setdefault(subject, _Ballot())


def _name(subject: Subject) -> str:
    """The key and the timer of a subject."""
    origin, sequence = subject
    return f"{origin}/{sequence}"
