"""The propagation graph with non-atomic failures and one thing broken: a host, or the manager on it."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

import msgspec

from hostagent.protocols.propagation_graph.forming import Forming
from hostagent.protocols.propagation_graph.journal import Journal, Settling
from hostagent.protocols.propagation_graph.nonatomic import NonAtomic
from hostagent.protocols.propagation_graph.protocol import PropagationGraph
from hostagent.protocols.propagation_graph.watching import Watch
from tests.mutants.mutant import Mutant


def surviving(broken):
    """The protocol with a broken host, manager or detector."""
    place = {Forming: "_forming", Watch: "_watch", Journal: "_journal", Settling: "_settling"}.get(broken.__mro__[1])

    class Broken(PropagationGraph):
        def __init__(self, env, parameters):
            super().__init__(env, parameters)
            part = self.survivor if place is None else getattr(self.survivor, place)
            part.__class__ = broken

    Broken.__name__ = broken.__name__
    return Broken


class FormsGraphsWithoutAMajority(Forming):
    def _is_majority(self, some):
        return True


class HasNoSuccessor(Forming):
    @property
    def manager(self):
        return self._ranks[0]


class LetsNobodyInAgain(Forming):
    def _lacks_graph(self, host, *, settled):
        return host in self._core.members and super()._lacks_graph(host, settled=settled)


class AsksTheManagerOnly(Forming):
    """The plan is made of the manager's own report, whatever others have."""

    def _propose(self, attempt, *, late):
        own = attempt.reports[self.env.host]
        attempt.reports = {host: msgspec.structs.replace(own, wishes={}) for host in attempt.reports}
        super()._propose(attempt, late=late)


class NeverSuspects(Watch):
    def _is_lost(self, host):
        return False


class DeliversNothingThatIsMissing(Journal):
    def _catch_up(self, plan, passed):
        super()._catch_up(msgspec.structs.replace(plan, order=[]), passed)


class DeliversInAnOrderOfItsOwn(Journal):
    def _catch_up(self, plan, passed):
        order = sorted(plan.order, key=lambda entry: (entry.origin != self.env.host, entry.message))
        super()._catch_up(msgspec.structs.replace(plan, order=order), passed)


class SubmitsNothingAgain(NonAtomic):
    def _submit_again(self):
        pass


class SubmitsAtTheOldPlace(NonAtomic):
    def _enter(self):
        before = dict(self._entrances)
        super()._enter()
        self._entrances |= before


class ForgetsWhatItDeliveredAtRestart(Journal):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if key.startswith("own/")})


class ForgetsItsMessagesAtRestart(Journal):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("own/")})


class ForgetsWhatOthersLack(Settling):
    """All own messages are taken for settled."""

    def _complete(self, flow):
        return max(entry.sequence for entry in self._journal.own.values()) if self._journal.own else 0, False

    def _known(self, flow, complete):
        return complete


class TellsOthersForEver(Settling):
    def _tell(self, flow):
        self._done.clear()
        return super()._tell(flow)


class TakesNothingBack(Journal):
    def _catch_up(self, plan, passed):
        self._rolls_back = False
        super()._catch_up(plan, passed)


class TakesEverythingBack(Journal):
    def _catch_up(self, plan, passed):
        for entry in reversed(self.entries):
            if self._is_mine(entry):
                self.env.take_back(*entry.message)
                self._delivered[entry.flow] = entry.sequence - 1
        self._entries.clear()
        super()._catch_up(plan, passed)


class StartsOverAlways(NonAtomic):
    def begin(self, graph):
        self._rolls_back = False
        super().begin(graph)


class KeepsNothingForTheFailed(Forming):
    def _propose(self, attempt, *, late):
        self._keeps_for_all = False
        super()._propose(attempt, late=late)


NON_ATOMIC, ROLLBACK = {"failures": "non-atomic"}, {"failures": "non-atomic", "recover": "rollback"}
MUTANTS = (
    *(
        Mutant(surviving(mistake), wrong, parameters=NON_ATOMIC)
        for mistake, wrong in {
            FormsGraphsWithoutAMajority: "A manager forms a graph with whomever it can reach.",
            HasNoSuccessor: "Nobody takes over from a manager that fails.",
            LetsNobodyInAgain: "A host that was left out is never let in again.",
            AsksTheManagerOnly: "The manager takes its own report for that of all others.",
            NeverSuspects: "No host is ever suspected.",
            DeliversNothingThatIsMissing: "What others have is not delivered when a graph begins.",
            DeliversInAnOrderOfItsOwn: "What is missing is delivered in an order of its own at each host.",
            SubmitsNothingAgain: "Sources do not submit what was lost with the old graph.",
            SubmitsAtTheOldPlace: "Sources submit where messages entered the old graph.",
            ForgetsWhatItDeliveredAtRestart: "A host that restarts forgets what it delivered.",
            ForgetsItsMessagesAtRestart: "A source that restarts forgets its messages.",
            ForgetsWhatOthersLack: "A source forgets its messages before others have them.",
            TellsOthersForEver: "A source says for ever what is settled.",
        }.items()
    ),
    *(
        Mutant(surviving(mistake), wrong, parameters=ROLLBACK)
        for mistake, wrong in {
            TakesNothingBack: "A host that recovers leaves everything where it delivered it.",
            TakesEverythingBack: "A host takes back all it delivered, also what it will not deliver again.",
            StartsOverAlways: "A host that recovers gives up what it missed.",
            KeepsNothingForTheFailed: "Nothing is kept for hosts that have failed.",
        }.items()
    ),
)
