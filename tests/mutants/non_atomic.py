"""The propagation graph with non-atomic failures and one thing broken: a host, or the manager on it."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

import msgspec

from hostagent.parts.detector import Detector
from hostagent.protocols.propagation_graph.forming import Forming
from hostagent.protocols.propagation_graph.journal import Journal
from hostagent.protocols.propagation_graph.nonatomic import NonAtomic
from hostagent.protocols.propagation_graph.protocol import PropagationGraph
from tests.mutants.mutant import Mutant


def surviving(broken):
    """The protocol with a broken host, manager or detector."""
    place = {Forming: "_forming", Detector: "_detector", Journal: "_journal"}.get(broken.__mro__[1])

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


class NeverSuspects(Detector):
    def on_timer(self, name):
        self._silent_periods = dict.fromkeys(self.env.peers, 0)
        super().on_timer(name)


class DeliversNothingThatIsMissing(Journal):
    def _catch_up(self, plan, passed):
        super()._catch_up(msgspec.structs.replace(plan, order=[]), passed)


class SubmitsNothingAgain(NonAtomic):
    def _submit_again(self):
        pass


NON_ATOMIC = {"failures": "non-atomic"}
MUTANTS = tuple(
    Mutant(surviving(mistake), wrong, parameters=NON_ATOMIC)
    for mistake, wrong in {
        FormsGraphsWithoutAMajority: "A manager forms a graph with whomever it can reach.",
        HasNoSuccessor: "Nobody takes over from a manager that fails.",
        LetsNobodyInAgain: "A host that was left out is never let in again.",
        AsksTheManagerOnly: "The manager takes its own report for that of all others.",
        NeverSuspects: "No host is ever suspected.",
        DeliversNothingThatIsMissing: "What others have is not delivered when a graph begins.",
        SubmitsNothingAgain: "Sources do not submit what was lost with the old graph.",
    }.items()
)
