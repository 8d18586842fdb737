"""The counter protocol with one thing broken."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

import msgspec

from hostagent.parts.tokens.reformation import Reformation
from hostagent.parts.tokens.ring import Ring
from hostagent.protocols.counter.datalist import DataList
from hostagent.protocols.counter.membership import Membership
from hostagent.protocols.counter.outbox import Outbox
from hostagent.protocols.counter.protocol import Counter
from hostagent.protocols.counter.repairs import Repairs
from tests.mutants.mutant import Mutant
from tests.mutants.parts import with_part


class CommitsWhatTheTokenNames(Counter):
    def _commit(self, frontier):
        super()._commit(max(frontier, self._ring.latest.top))


class DeliversOnArrival(Counter):
    def _take(self, origin, number, payload):
        if origin != self.env.host and self._data.find(origin, number) is None:
            self.env.deliver(origin, number, payload)
        super()._take(origin, number, payload)


class RemovesWhatIsNotCommitted(Counter):
    def updated(self, state, *, alert):
        kept = tuple(entry for entry in state.entries if entry.origin != self._me)
        return super().updated(msgspec.structs.replace(state, entries=kept), alert=alert)


class HoldsOldTokens(Ring):
    def _hear_again(self, sender, state, *, is_mine):
        if is_mine and not self.holds:
            self._begin_turn()


class NeverRests(Ring):
    def _begin_hold(self):
        super()._begin_hold()
        self.env.set_timer("hold", 0.01)


class NeverAsksForANewList(Reformation):
    def start(self, suspected=0, wanted=0):
        pass


class CountsWithoutHaving(DataList):
    def counted(self, entry):
        return msgspec.structs.replace(entry, have=entry.have | 1 << self._me)


class DeliversInItsOwnOrder(DataList):
    def commit(self, frontier):
        if self._me % 2:
            due = sorted(position for position in self._open if position <= frontier)
            mirrored = dict(zip(due, reversed(due), strict=True))
            self._open = {mirrored.get(position, position): known for position, known in self._open.items()}
        super().commit(frontier)


class ForgetsMessagesAtRestart(DataList):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("message/")})


class NeverAsks(Repairs):
    def ask(self):
        pass


class AnswersNobody(Repairs):
    def on_message(self, sender, message, expensive):
        pass


class NeedsNoMajority(Reformation):
    def _form_if_ready(self):
        self._majority = 1
        super()._form_if_ready()


class NeverJoinsAgain(Ring):
    def call_if_unhappy(self):
        pass


class InstallsNoViews(Membership):
    def install_views(self):
        pass


class ForgetsItsMessagesAtRestart(Outbox):
    def on_start(self, stored):
        pass


def part(name, mistake, wrong, harmless=""):
    return Mutant(with_part(Counter, name, mistake), wrong, harmless)


MUTANTS = (
    Mutant(CommitsWhatTheTokenNames, "What a host has and sees in the token is committed, whoever else has it."),
    Mutant(DeliversOnArrival, "Messages are delivered as they arrive, and again when they are committed."),
    Mutant(RemovesWhatIsNotCommitted, "An owner removes its entries after one cycle, whoever has counted itself in."),
    part("_ring", HoldsOldTokens, "A host that gets a token again owns it again."),
    part("_ring", NeverRests, "The token goes round as fast when there is nothing to do."),
    part("_data", CountsWithoutHaving, "A host counts itself in for messages that it lacks."),
    part("_data", DeliversInItsOwnOrder, "Every other host delivers what it commits together in the reverse order."),
    part("_data", ForgetsMessagesAtRestart, "A host that restarts forgets the messages that it has."),
    part("_repairs", NeverAsks, "Nobody asks for what is missing."),
    part("_repairs", AnswersNobody, "Requests are not answered."),
    part("_ring.reformation", NeverAsksForANewList, "No new list is ever formed."),
    part("_ring.reformation", NeedsNoMajority, "A host forms a new list with whoever answers."),
    part("_ring", NeverJoinsAgain, "A host that is out of the list stays there."),
    part("_membership", InstallsNoViews, "The list is not the view of the group."),
    part("_outbox", ForgetsItsMessagesAtRestart, "A host that restarts forgets its messages that are not in the token."),
)
