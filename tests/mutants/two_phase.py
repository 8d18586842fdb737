"""The two-phase protocol with one thing broken: two phases with all destinations, or three with a majority of all hosts."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from heapq import heappush

from hostagent.contract.messages import Purpose
from hostagent.parts.questions import Questions
from hostagent.protocols.two_phase.blocking import Blocking
from hostagent.protocols.two_phase.electing import Electing
from hostagent.protocols.two_phase.messages import Proposal
from hostagent.protocols.two_phase.places import Places
from hostagent.protocols.two_phase.protocol import TwoPhase
from hostagent.protocols.two_phase.queue import Queue
from hostagent.protocols.two_phase.rounds import Rounds
from tests.mutants.mutant import Mutant


def with_agreement(broken, part=""):
    """The protocol with another class for the agreement, or for one of its parts."""

    class Broken(TwoPhase):
        def __init__(self, env, parameters):
            super().__init__(env, parameters)
            (getattr(self.agreement, part) if part else self.agreement).__class__ = broken

    Broken.__name__ = broken.__name__
    return Broken


# Two phases


class DeliversByProposedPriority(Queue):
    def finalise(self, message, priority):
        self._entries[message].final = self._entries[message].proposed


class TakesTheLowestPriority(Blocking):
    def _decide(self, round_):
        if len(round_.proposals) == len(round_.to.hosts):
            lowest = min((counter, host) for host, counter in round_.proposals.items())
            round_.proposals = dict.fromkeys(round_.to.hosts, 0) | {lowest[1]: lowest[0]}
        super()._decide(round_)

    def _finalise(self, message, priority):
        self.queue.get(message).proposed = min(priority, self.queue.get(message).proposed)
        super()._finalise(message, priority)

    def _take_final(self, sender, message):
        entry = self.queue.get((message.origin, message.sequence))
        if entry is not None:
            entry.proposed = min(entry.proposed, (message.counter, message.by))
        super()._take_final(sender, message)


class DecidesWithoutTheLastDestination(Blocking):
    def _decide(self, round_):
        if round_.final is None and len(round_.proposals) >= len(round_.to.hosts) - 1:
            round_.proposals |= dict.fromkeys(set(round_.to.hosts) - set(round_.proposals), 0)
            super()._decide(round_)

    def _take_final(self, sender, message):
        entry = self.queue.get((message.origin, message.sequence))
        if entry is not None:
            entry.proposed = min(entry.proposed, (message.counter, message.by))
        super()._take_final(sender, message)


class NeverRaisesItsCounter(Blocking):
    def _finalise(self, message, priority):
        before = self.counter
        super()._finalise(message, priority)
        self.counter = before
        self.env.store("counter", before)


class ForgetsItsCounterAtRestart(Blocking):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if key != "counter"})


class ForgetsItsQueueAtRestart(Blocking):
    """A destination that proposed a priority does not know the message any more."""

    def on_start(self, stored):
        own = f"queued/{self.env.host}/"
        super().on_start({key: value for key, value in stored.items() if not key.startswith("queued/") or key.startswith(own)})


class ForgetsFinalPrioritiesAtRestart(Blocking):
    """Sources go on with phase 1, and are answered with priorities that were not in the highest one."""

    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("decided/")})


class ForgetsItsMessagesAtRestart(Blocking):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("sent/")})


class ProposesAnewWhenAskedAgain(Blocking):
    def _answer(self, entry, purpose):
        if purpose is Purpose.REPAIR:
            self.counter += 1
            message = entry.first
            self.env.send(message.origin, Proposal(message.group, *message.id, self.counter), purpose)
            return
        super()._answer(entry, purpose)


class LetsMessagesOvertake(Blocking):
    def _has_predecessor(self, message):
        return True


class DeliversItsOwnAtOnce(Blocking):
    def _begin(self, to, message):
        if self.env.host in to.hosts:
            self.delivery.deliver(*message.id, message.payload, message.group, message.nth)
        super()._begin(to, message)


class NeverFinishes(Blocking):
    def _take_have(self, sender, have):
        pass


class RepeatsNothing(Questions):
    def on_timer(self, name):
        pass


# Three phases


class DecidesByOneVote(Rounds):
    def begin(self, held, ballot, purpose):
        self.majority = 1
        super().begin(held, ballot, purpose)


class DecidesBeforeAMajorityHasStoredIt(Rounds):
    def _go_on(self, held, round_):
        if round_.chosen:
            round_.accepted |= dict.fromkeys(self.env.hosts, self._core.all_seen())
        super()._go_on(held, round_)


class CountsDestinationsOnly(Rounds):
    """Of two messages to groups that do not overlap in a host, no host has voted on both."""

    def _go_on(self, held, round_):
        to = held.vote.destination(self.env.groups, self.env.hosts).hosts
        self.majority = len(to) // 2 + 1
        super()._go_on(held, round_)


class IgnoresWhatWasAccepted(Electing):
    def accept(self, held, ballot, counter):
        super().accept(held, ballot, counter)
        held.accepted = None


class AcceptsInAnyBallot(Electing):
    def _take_accept(self, sender, message):
        held = self.held.get((message.origin, message.sequence))
        if held is not None and not held.decided:
            held.promised = 0
        super()._take_accept(sender, message)


class ForgetsItsVotesAtRestart(Electing):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("vote/")})


class DeliversWithoutLookingAtWhatWasSeen(Places):
    def pop(self):
        if self._ready:
            self._held[self._ready[0][1:]].seen = (0,) * len(self._hosts)
        return super().pop()


class LetsSourcesOvertakeThemselves(Places):
    """The place of a message is its own final counter."""

    def settle(self, origin):
        sequence, _ = self._settled[origin]
        while (held := self._held.get((origin, sequence + 1))) is not None and held.decided:
            sequence += 1
            heappush(self._ready, (held.decided, origin, sequence))
        self._settled[origin] = sequence, 0


class NeverTakesOver(Electing):
    def _take_over(self, held):
        if held.vote.origin == self.env.host:
            super()._take_over(held)


class PassesNoDecisionOn(Electing):
    def _take_over(self, held):
        if not held.decided or held.vote.origin == self.env.host:
            super()._take_over(held)


class TakesOneForEverybody(Rounds):
    def has_decision(self, host, held):
        for peer in self.env.peers:
            super().has_decision(peer, held)


class NeverSaysDone(Electing):
    def finished(self, held):
        held.everywhere = True


class ForgetsItsCounterWhenElecting(Electing):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if key != "counter"})


ELECT = {"failover": "elect"}
# Hosts take over what their source is still about to finish, so that messages have several ballots.
HASTY = {**ELECT, "takeover_ms": 250.0}


def _elects(broken, part, wrong, harmless="", parameters=ELECT):
    return Mutant(with_agreement(broken, part), wrong, harmless, parameters)


MUTANTS = (
    Mutant(with_agreement(DeliversByProposedPriority, "queue"), "A destination delivers in the order of its own proposals."),
    Mutant(with_agreement(TakesTheLowestPriority), "The lowest priority is the final one."),
    Mutant(with_agreement(DecidesWithoutTheLastDestination), "A source does not wait for the proposal of the last destination."),
    Mutant(with_agreement(NeverRaisesItsCounter), "A host does not raise its counter to final priorities."),
    Mutant(with_agreement(ForgetsItsQueueAtRestart), "A host that restarts forgets what it has not delivered."),
    Mutant(with_agreement(ForgetsFinalPrioritiesAtRestart), "A source that restarts begins phase 1 again after phase 2."),
    Mutant(with_agreement(ForgetsItsMessagesAtRestart), "A source that restarts forgets its messages."),
    Mutant(
        with_agreement(ProposesAnewWhenAskedAgain), "A host that is asked again proposes a higher priority and keeps its place."
    ),
    Mutant(with_agreement(LetsMessagesOvertake), "A destination does not wait for the message before from the same source."),
    Mutant(with_agreement(DeliversItsOwnAtOnce), "A source delivers its own messages before it sends them."),
    Mutant(with_agreement(NeverFinishes), "A source repeats final priorities for ever."),
    Mutant(with_agreement(RepeatsNothing, "questions"), "Nobody repeats anything."),
    _elects(DecidesByOneVote, "rounds", "The vote of one host is enough."),
    _elects(DeliversWithoutLookingAtWhatWasSeen, "places", "Nobody waits for what may come before a message."),
    _elects(LetsSourcesOvertakeThemselves, "places", "The place of a message does not depend on earlier ones of its source."),
    _elects(NeverTakesOver, "", "Nobody finishes messages of others."),
    _elects(PassesNoDecisionOn, "", "Nobody passes on messages of others that are decided."),
    _elects(TakesOneForEverybody, "rounds", "When one host has the decision, all are taken to have it."),
    _elects(NeverSaysDone, "", "What everybody has is kept."),
    _elects(
        DecidesBeforeAMajorityHasStoredIt, "rounds", "A counter is taken for decided as soon as it is chosen.", parameters=HASTY
    ),
)
CONTESTED = {
    with_agreement(CountsDestinationsOnly, "rounds"): "A majority of the destinations is enough.",
    with_agreement(IgnoresWhatWasAccepted): "Whoever takes over chooses a counter anew.",
    with_agreement(AcceptsInAnyBallot): "A host that has voted in a ballot accepts in lower ones.",
    with_agreement(ForgetsItsVotesAtRestart): "A host that restarts forgets what it has promised and accepted.",
}
"""What campaigns hardly ever catch, as few messages have several ballots: `tests/hostagent/test_two_phase_ballots.py` does."""
