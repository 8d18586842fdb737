"""Trans and Total with one thing broken."""

from hostagent.parts.misses import Misses
from hostagent.protocols.trans_total.graph import Graph, Node
from hostagent.protocols.trans_total.protocol import TransTotal
from hostagent.protocols.trans_total.reminders import Reminders
from hostagent.protocols.trans_total.total import Total
from tests.mutants.mutant import Mutant
from tests.mutants.parts import with_part


def without(stored, prefix):
    return {key: value for key, value in stored.items() if not key.startswith(prefix)}


class DeliversInThePartialOrder(TransTotal):
    def _keep(self, said):
        before = list(self.graph.counts)
        super()._keep(said)
        for place, count in enumerate(before):
            for number in range(count + 1, self.graph.counts[place] + 1):
                entered = self._of((place, number))
                if entered.sequence and self.env.host in self._destination(entered):
                    self.env.deliver(entered.origin, entered.sequence, entered.payload)

    def _deliver(self, ordered):
        for _ in ordered:
            self.env.store("ordered", self.total.ordered)


class ForgetsItsOrderAtRestart(TransTotal):
    def on_start(self, stored):
        super().on_start({**stored, "ordered": self.total.ordered} if stored else stored)


class ForgetsWhatItReceivedAtRestart(TransTotal):
    def on_start(self, stored):
        super().on_start(without(stored, "said/"))


class ForgetsWhatWaitsAtRestart(TransTotal):
    def on_start(self, stored):
        super().on_start(without(stored, "queue/"))


class SendsNoNullMessages(TransTotal):
    def _has_to_speak(self):
        return False


class AcknowledgesWithoutVoting(TransTotal):
    def _has_to_speak(self):
        return self._has_to_acknowledge()


class DeliversBackwards(TransTotal):
    def _deliver(self, ordered):
        super()._deliver(reversed([*ordered]))


class DeliversEverywhere(TransTotal):
    def _destination(self, said):
        return self.env.hosts if said else ()


class DecidesByFewVotes(Total):
    def _vote(self, place, stage, number):
        self._decisive = len(self._places) // 3 + 1
        return super()._vote(place, stage, number)


class NeverWaitsForMoreVotes(Total):
    def lateness(self, place):
        return 0 if place in self._places else None


class VotesAfterFewVotes(Total):
    def _may_vote(self, place, stage, number):
        few = min(2, self._enough)
        return self._voters(stage - 1, self._graph.past(place, number)) >= few if stage else super()._may_vote(place, 0, number)


class TakesAnyMessageForACandidate(Total):
    def _is_candidate(self, place):
        return place in self._places


class WaitsForNothing(Graph):
    def _insert(self, mark):
        place, number = mark
        if number != self.counts[place] + 1:
            return place, number - 1
        said = self.waiting.pop(mark)
        past = self.latest[place]
        for other, last in said.acks:
            if self.holds((other, last)):
                past = tuple(map(max, past, self.past(other, last)))
        past = (*past[:place], number, *past[place + 1 :])
        self._nodes[place][number] = Node(said, past)
        self.counts[place], self.latest[place] = number, past
        self.heads[place] = number
        return None


class AcknowledgesOneMessageOnly(Graph):
    def acknowledgements(self, place, *, lacks):
        return super().acknowledgements(place, lacks=lacks)[:1]


class NeverForgets(Graph):
    def forget(self, is_open):
        return iter([mark for mark in () if is_open(mark)])


class ForgetsWhatIsOrdered(Graph):
    def forget(self, is_open):
        latest, self.latest = self.latest, [tuple(self.counts)]
        forgotten = [*super().forget(is_open)]
        self.latest = latest
        return iter(forgotten)


class NeverAsks(Misses):
    def hear(self, source, number, *_):
        self._known[source] = max(number, self._known[source])


class AsksOneHostOnly(Misses):
    def _whom(self, source, *_):
        return super()._whom(source, 0)


class AnswersNobody(Misses):
    def asked(self, asker, source, number):
        pass


class NeverReminds(Reminders):
    """Campaigns broadcast once more at the end, which tells of all before: `tests/hostagent/test_trans_total.py` catches it."""

    def watch(self):
        pass


class NeverRemindsAndNeverAsksForVotes(NeverReminds):
    def wait_for_votes(self):
        pass


class NeverAsksForVotes(Reminders):
    def wait_for_votes(self):
        pass


MUTANTS = (
    Mutant(DeliversInThePartialOrder, "Messages are delivered in the order in which they enter the graph."),
    Mutant(ForgetsItsOrderAtRestart, "A host that restarts forgets how far the total order goes."),
    Mutant(ForgetsWhatItReceivedAtRestart, "A host that restarts forgets all messages, also its own."),
    Mutant(ForgetsWhatWaitsAtRestart, "A host that restarts forgets what waited to be sent.", parameters={"window": 1}),
    Mutant(SendsNoNullMessages, "A host with nothing to say says nothing."),
    Mutant(AcknowledgesWithoutVoting, "A host with nothing to say acknowledges once, and never speaks only to vote."),
    Mutant(DeliversBackwards, "What is ordered at the same time is delivered the other way round."),
    Mutant(DeliversEverywhere, "A message to a group is delivered by every host."),
    Mutant(
        with_part(TransTotal, "graph", AcknowledgesOneMessageOnly),
        "Of the heads only one is acknowledged.",
        harmless="The next null message acknowledges another. What a host has delivered is the beginning of the order of all, also of "
        "those that do not see it acknowledged.",
    ),
    Mutant(
        with_part(TransTotal, "total", TakesAnyMessageForACandidate),
        "A message may be ordered before what it follows.",
        harmless="What its source had delivered before is ordered; of what else it follows, nobody can tell which was to be the first.",
    ),
    *(
        Mutant(with_part(TransTotal, part, mistake), wrong)
        for part, mistakes in {
            "total": {
                DecidesByFewVotes: "A third of the votes decides.",
                NeverWaitsForMoreVotes: "A null message votes as soon as it can, also where hosts disagree in stage after stage.",
                VotesAfterFewVotes: "A vote in the next stage follows two votes of the stage before.",
            },
            "graph": {
                WaitsForNothing: "A message enters the graph before what it acknowledges.",
                NeverForgets: "What everybody has is kept.",
                ForgetsWhatIsOrdered: "What is ordered is forgotten, whoever lacks it.",
            },
            "misses": {
                NeverAsks: "Nobody asks for what is missing.",
                AsksOneHostOnly: "A host that does not answer is asked again and again.",
                AnswersNobody: "Nobody sends anything again.",
            },
            "reminders": {
                NeverRemindsAndNeverAsksForVotes: "Nobody tells others what there is, except after a restart.",
            },
        }.items()
        for mistake, wrong in mistakes.items()
    ),
)
