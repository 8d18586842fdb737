"""The sequencer with one thing broken: without failover, with it, and in the parts that it is made of."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from functools import reduce

from hostagent.parts.election import Election
from hostagent.parts.history import History
from hostagent.protocols.sequencer.elected import Elected
from hostagent.protocols.sequencer.fixed import Following, Numbering
from hostagent.protocols.sequencer.intake import Intake
from hostagent.protocols.sequencer.leading import Leading
from hostagent.protocols.sequencer.log import Log
from hostagent.protocols.sequencer.outbox import Outbox
from hostagent.protocols.sequencer.protocol import Sequencer
from tests.mutants.mutant import Mutant


def inside(broken, *path):
    """The protocol with a part of another class; the path leads to it from the core."""

    def make(self, env, parameters):
        Sequencer.__init__(self, env, parameters)
        reduce(getattr, path, self).__class__ = broken

    return type(broken.__name__, (Sequencer,), {"__init__": make})


class DeliversItsOwnAtOnce(Sequencer):
    def on_multicast(self, to, sequence, payload):
        if self.env.host in to.hosts:
            self.env.deliver(self.env.host, sequence, payload)
        super().on_multicast(to, sequence, payload)


class AnswersNoReports(Numbering):
    def send_again(self, to, missing):
        pass


class NeverAsksAfterASilence(Numbering):
    def on_timer(self, name):
        pass


class ForgetsWhatItOrderedAtRestart(Numbering):
    def on_start(self, stored):
        super().on_start({})


class DeliversAsItComes(Following):
    def take(self, ordered):
        seen = vars(self).setdefault("seen", {})
        if self._before(ordered) is not None and ordered.number not in seen:
            seen[ordered.number] = None
            self.env.deliver(ordered.origin, ordered.sequence, ordered.payload)

    def reported(self):
        return max(vars(self).get("seen", {}), default=0)


class TakesAnyGapForMessagesToOthers(Following):
    def _before(self, ordered):
        return None if super()._before(ordered) is None else self.has


class ForgetsWhatItDeliveredAtRestart(Following):
    def on_start(self, stored):
        pass


class ForgetsSubmissionsAtRestart(Outbox):
    def on_start(self, stored):
        pass


class NeverAsksForSubmissions(Outbox):
    def on_timer(self, name):
        pass


class TakesSubmissionsAsTheyCome(Intake):
    def take(self, submission):
        self.taken[submission.origin] = submission.sequence
        self._order(submission)
        return ()


class NeverForgets(History):
    def acknowledge(self, member, number):
        return False


class ForgetsEntriesAtRestart(History):
    def on_start(self, stored):
        pass


class ForgetsWhatOneHas(History):
    def acknowledge(self, member, number):
        for other in self._marks:
            super().acknowledge(other, number)
        return True


class DeliversBeforeAMajorityHasIt(Elected):
    def _deliver(self):
        self._stable = max(self._stable, self._heard)
        super()._deliver()


class ObeysFormerSequencers(Elected):
    def _heeds(self, sender, epoch):
        if epoch < self._election.epoch(self._election.role):
            return True
        return super()._heeds(sender, epoch)


class NeverStands(Elected):
    def on_timer(self, name):
        self._questions = 0
        super().on_timer(name)


class VotesForWhoKnowsLess(Election):
    def _answer(self, subject, candidate, call):
        self._accepts = lambda *_: True
        super()._answer(subject, candidate, call)


class ElectsItself(Election):
    def _count(self, subject, voter, vote):
        ballot = self._ballots.get(subject)
        if ballot and ballot.standing == vote.epoch and not vote.trial and not ballot.trial:
            self.settled(subject, vote.epoch, self.env.host)
            self._on_elected(subject, vote.epoch, {})
        else:
            super()._count(subject, voter, vote)


class VotesForEverybody(Election):
    def _answer(self, subject, candidate, call):
        ballot = self._ballot(subject)
        if call.epoch == ballot.epoch:
            ballot.voted_for = candidate
        super()._answer(subject, candidate, call)


class ForgetsWhatItTook(Log):
    def taken(self):
        return {}


class KeepsWhatItsSequencerLacks(Log):
    def accept(self, entry):
        if entry.number not in self:
            super().accept(entry)


class TakesOneForAMajority(Leading):
    def _advance(self):
        for peer in self._accepted:
            self._accepted[peer] = max(self._accepted.values())
        super()._advance()


class AnswersNoRequests(Leading):
    def _entry(self, number):
        return super()._entry(self._log.last)


ELECT = {"failover": "elect"}


def _all(path, mistakes, **parameters):
    return tuple(Mutant(inside(mistake, *path.split()), wrong, parameters=parameters) for mistake, wrong in mistakes.items())


MUTANTS = (
    Mutant(DeliversItsOwnAtOnce, "A source delivers its own messages before they are ordered."),
    *_all(
        "_ordering _numbering",
        {
            AnswersNoReports: "The sequencer sends nothing again.",
            NeverAsksAfterASilence: "The sequencer never asks what others have.",
            ForgetsWhatItOrderedAtRestart: "A sequencer that restarts forgets which messages of each source it has ordered.",
        },
    ),
    *_all("_ordering _numbering intake", {TakesSubmissionsAsTheyCome: "Submissions are numbered as they arrive."}),
    *_all(
        "_ordering _numbering _history",
        {
            NeverForgets: "What all have is kept.",
            ForgetsEntriesAtRestart: "A sequencer that restarts forgets its history and its numbers.",
            ForgetsWhatOneHas: "When one host has a message, all are taken to have it.",
        },
    ),
    *_all(
        "_ordering _following",
        {
            DeliversAsItComes: "What arrives is delivered at once, whatever its number.",
            TakesAnyGapForMessagesToOthers: "Numbers that are missing are taken for those of messages to other groups.",
            ForgetsWhatItDeliveredAtRestart: "A host that restarts forgets what it delivered.",
        },
    ),
    *_all(
        "_outbox",
        {
            ForgetsSubmissionsAtRestart: "A source that restarts forgets what was not ordered.",
            NeverAsksForSubmissions: "A source never asks what became of its messages.",
        },
    ),
    *_all(
        "_ordering",
        {
            DeliversBeforeAMajorityHasIt: "An entry is delivered as soon as it arrives.",
            ObeysFormerSequencers: "Entries of former sequencers are accepted.",
            NeverStands: "Nobody ever stands for election.",
        },
        **ELECT,
    ),
    *_all(
        "_ordering _election",
        {
            VotesForWhoKnowsLess: "A host votes for candidates that lack what it has.",
            ElectsItself: "A candidate needs no votes but its own.",
            VotesForEverybody: "A host votes for each candidate of an epoch.",
        },
        **ELECT,
    ),
    *_all(
        "_ordering _log",
        {
            ForgetsWhatItTook: "A new sequencer does not know which messages were ordered before.",
            KeepsWhatItsSequencerLacks: "A host keeps its own entries where the sequencer has others.",
        },
        **ELECT,
    ),
    *_all(
        "_ordering _leading",
        {
            TakesOneForAMajority: "When one other host has an entry, all are taken to have it.",
            AnswersNoRequests: "The sequencer sends its last entry, whatever it is asked for.",
        },
        **ELECT,
    ),
)
