"""Totem with one thing broken."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from collections import deque

from hostagent.protocols.totem.gathering import Gathering
from hostagent.protocols.totem.messages import Token
from hostagent.protocols.totem.protocol import Totem
from hostagent.protocols.totem.rotation import Rotation
from tests.mutants.mutant import Mutant
from tests.mutants.parts import with_part

# The rotation


class TakesOldTokens(Rotation):
    def on_message(self, sender, message, expensive):
        if isinstance(message, Token) and self.token is None:
            self._hop = 0
        super().on_message(sender, message, expensive)


class NeverPassesAgain(Rotation):
    def _again(self):
        pass

    def _revive(self):
        pass


class AnswersNoRequests(Rotation):
    def _repair(self, token):
        messages, self.ring.messages = self.ring.messages, {}
        left = super()._repair(token)
        self.ring.messages = messages
        return left


class NeverLowersTheAru(Rotation):
    def _lower_or_raise(self, token):
        return token.seq, ""


class TakesOneVisitForSafe(Rotation):
    """What the token says on one visit counts as safe, though members that have not seen the token since may lack it."""

    def _take(self, token):
        self.ring.safe = max(self.ring.safe, token.seq)
        super()._take(token)


class KeepsTheTokenBriefly(Rotation):
    def _keep_or_pass(self):
        super()._keep_or_pass()
        if self.token is not None:
            self.env.set_timer("hold", 0.2)


# Membership


class GivesNobodyUp(Gathering):
    def _decide(self):
        self._propose()


class HeedsNoProposals(Totem):
    def _is_news(self, join):
        return False


class LooksForNobody(Totem):
    def on_timer(self, name):
        pass


# Recovery


class SendsNothingAgain(Totem):
    def _on_formed(self, code, reports):
        super()._on_formed(code, reports)
        self._again = deque()


class InstallsAtOnce(Totem):
    def _recover(self, token):
        self._install()


class InstallsNoTransitionalView(Totem):
    def _install_view(self, members, view):
        if members == self.rotation.ring.members:
            super()._install_view(members, view)


# Messages


class DeliversWhatArrives(Totem):
    def arrived(self):
        ring = self.rotation.ring
        for number in [number for number in ring.messages if number > ring.delivered]:
            self.handed = getattr(self, "handed", {})
            if self.is_operational and (ring.code, number) not in self.handed:
                self.handed[ring.code, number] = None
                self._hand_over(ring.messages[number])


class DeliversToEverybody(Totem):
    def _receivers(self, data):
        return self.env.hosts


class ForgetsItsMessagesAtRestart(Totem):
    def on_start(self, stored):
        super().on_start({})


class ForgetsWhatWaits(Totem):
    def _gather(self, *others):
        self.queue.clear()
        super()._gather(*others)


SAFE = {"delivery": "safe"}

MUTANTS = (
    *(
        Mutant(with_part(Totem, "rotation", mistake), wrong)
        for mistake, wrong in {
            TakesOldTokens: "A token is taken however often it arrives.",
            NeverPassesAgain: "A token that is lost stays lost, and nobody notices.",
            AnswersNoRequests: "Nobody repairs what others lack.",
            KeepsTheTokenBriefly: "A token that nobody needs goes round five times a second.",
        }.items()
    ),
    Mutant(with_part(Totem, "rotation", NeverLowersTheAru), "A host that lacks messages does not say so.", parameters=SAFE),
    Mutant(with_part(Totem, "rotation", TakesOneVisitForSafe), "What was sent is safe when the token comes.", parameters=SAFE),
    Mutant(with_part(Totem, "gathering", GivesNobodyUp), "A host that does not answer is waited for for ever."),
    Mutant(HeedsNoProposals, "A host in a ring heeds no proposal for another."),
    Mutant(LooksForNobody, "Nobody looks for hosts outside its ring."),
    Mutant(SendsNothingAgain, "What members of the old ring lack is not sent again on the new one."),
    Mutant(InstallsAtOnce, "A view is installed when the first token of its ring comes."),
    Mutant(InstallsNoTransitionalView, "There are no transitional views.", parameters=SAFE),
    Mutant(DeliversWhatArrives, "What arrives is delivered at once, whatever its number."),
    Mutant(DeliversToEverybody, "Messages to groups are delivered by everybody."),
    Mutant(ForgetsItsMessagesAtRestart, "A source that restarts forgets its messages."),
    Mutant(ForgetsWhatWaits, "What waits at its source when the ring changes is forgotten."),
)
