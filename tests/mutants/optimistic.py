"""The optimistic protocol with one thing broken."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

import msgspec

from hostagent.parts.tokens.reformation import Reformation
from hostagent.parts.tokens.ring import Ring
from hostagent.protocols.optimistic.catching_up import CatchingUp
from hostagent.protocols.optimistic.journal import Journal
from hostagent.protocols.optimistic.protocol import Optimistic
from tests.mutants.mutant import Mutant
from tests.mutants.parts import with_part


class NeverRollsBack(Optimistic):
    def updated(self, state, *, alert):
        journal = self._journal
        named = state.naming(journal.stamps)
        journal.deliver(named)
        return named.acknowledging(self._me, journal.top, journal.done).passed_on(self._me, changed=alert)


class AcknowledgesWhatIsMissing(Optimistic):
    def updated(self, state, *, alert):
        return super().updated(state, alert=alert).acknowledging(self._me, state.top, self._journal.done)


class InstallsNoViews(Optimistic):
    def take_in(self, state):
        self._view = state.view
        super().take_in(state)


class DeliversInItsOwnOrder(Journal):
    def deliver(self, state):
        if self._me % 2:
            state = msgspec.structs.replace(state, names=(*reversed(state.names[: state.valid]), *state.names[state.valid :]))
        super().deliver(state)


class CommitsWhenItDelivers(Journal):
    def commit(self, up_to):
        super().commit(self.top)


class TakesNothingBack(Journal):
    def align(self, state):
        self.env.take_back, kept = (lambda *_: None), self.env.take_back
        try:
            return super().align(state)
        finally:
            self.env.take_back = kept


class TakesBackTooMuch(Journal):
    def align(self, state):
        return super().align(msgspec.structs.replace(state, base=min(state.base, self.done - 1) if self.done else state.base))


class ForgetsItsTailAtRestart(Journal):
    def on_start(self, stored):
        super().on_start(stored)
        for number in range(self.done + 1, self.top + 1):
            self._order.pop(number, None)
        self.top = self.done


class ForgetsMessagesAtRestart(Journal):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("message/")})
        self._order, self.top = {}, self.done


class ForgetsWhatOthersLack(Journal):
    def forget(self, state):
        super().forget(msgspec.structs.replace(state, done=(state.done[self._me],) * len(state.done)))


class AnswersNobody(CatchingUp):
    def _answer(self, host, after):
        pass


class HoldsOldTokens(Ring):
    def _hear_again(self, sender, state, *, is_mine):
        if is_mine and not self.holds:
            self._begin_turn()


class NeedsNoMajority(Reformation):
    def _form_if_ready(self):
        self._majority = 1
        super()._form_if_ready()


SLOW = {"token_owner_ms": 100.0}
"""For mutants that wait for ever, and let the token go round meanwhile."""


def part(name, mistake, wrong, **more):
    return Mutant(with_part(Optimistic, name, mistake), wrong, **more)


MUTANTS = (
    Mutant(NeverRollsBack, "An owner that lacks a message, or is asked for a rollback, passes the token on.", parameters=SLOW),
    Mutant(AcknowledgesWhatIsMissing, "An owner acknowledges all that the token names, whether it has it or not."),
    Mutant(InstallsNoViews, "The list is not the view of everybody's group."),
    part("_journal", DeliversInItsOwnOrder, "Every other host delivers what is in force in the reverse order."),
    part("_journal", CommitsWhenItDelivers, "What is delivered is committed at once."),
    part("_journal", TakesNothingBack, "A host rolls back without telling its application."),
    part("_journal", TakesBackTooMuch, "A rollback goes beyond what is committed."),
    part("_journal", ForgetsItsTailAtRestart, "A host that restarts does not know what it has delivered and not committed."),
    part("_journal", ForgetsMessagesAtRestart, "A host that restarts forgets the messages that it has."),
    part("_journal", ForgetsWhatOthersLack, "A host forgets what is committed as soon as it knows that itself."),
    part("_catching_up", AnswersNobody, "A host that is back gets nothing of what it missed.", parameters=SLOW),
    part("_ring", HoldsOldTokens, "A host that gets a token again owns it again."),
    part("_ring.reformation", NeedsNoMajority, "A host forms a new list with whoever answers."),
)
