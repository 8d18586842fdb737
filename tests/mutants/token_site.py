"""The token site with one thing broken: the core, the token, the ledger, the requests, or the reformation."""

from hostagent.protocols.token_site.ledger import Ledger
from hostagent.protocols.token_site.protocol import TokenSite
from hostagent.protocols.token_site.reformation import Reformation
from hostagent.protocols.token_site.requests import Requests
from hostagent.protocols.token_site.token import Token
from tests.mutants.mutant import Mutant
from tests.mutants.parts import with_part


class DeliversWhatHasANumber(Token):
    def _numbered_by(self, hop, last):  # noqa: ARG002 - whatever the hop
        return last


class TakesTheTokenTwice(Token):
    def hear(self, sender, ack):
        super().hear(sender, ack)
        if self._lists.site(ack.hop + 1) == self.env.host:
            self._offer = None if self.is_held else (ack.hop + 1, ack.last)


class ForgetsTheTokenAtRestart(Token):
    def on_start(self, stored):  # noqa: ARG002 - whatever was stored
        super().on_start({})


class NeverRests(Token):
    def _take(self, hop, *, silently=False):
        super()._take(hop, silently=silently)
        if self.is_held and not silently:
            self.env.set_timer("linger", self._linger_s)


class ForgetsItsMessagesAtRestart(Ledger):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if key.startswith("of/")})


class NeverForgets(Ledger):
    def forget(self, base):
        pass


class NumbersAnyMessage(Ledger):
    """The next message of a source that is here, whatever is missing before it."""

    def offer(self, origin, sequence, payload):
        new = super().offer(origin, sequence, payload)
        if new and sequence in self._unnumbered.get(origin, {}):
            self._numbered[origin] = sequence - 1
            self._ready[origin] = None
        return new


class AsksForNothing(Requests):
    def look(self):
        pass


class MakesListsOfAMinority(Reformation):
    def _pass_tests(self):
        return True


class ForgetsWhatMayBeAtLSitesAlone(Reformation):
    def _pass_tests(self):
        return 2 * len(self._joins) > len(self.env.hosts)


class BeginsWithTheOriginator(Reformation):
    def _propose(self):
        self._joins = {self.env.host: self._joins[self.env.host], **self._joins}
        mine = self._joins[self.env.host]
        self._joins = {
            host: type(mine)(0, host, 0, mine.version, mine.listed, mine.last, mine.base, mine.members) for host in self._joins
        }
        super()._propose()


class CommitsBeforeAllHaveAgreed(Reformation):
    def _look_at_agreements(self):
        if self._plan and 2 * len(self._agreed) > len(self.env.hosts):
            self._commit(self._plan)


class NeverReforms(Reformation):
    def originate(self, silent=""):
        pass


class NeverRepeatsItsMessages(TokenSite):
    def _send_again(self):
        pass


class ForgetsItsOwnMessagesAtRestart(TokenSite):
    def on_start(self, stored):  # noqa: ARG002 - whatever was stored
        super().on_start({})


class DeliversItsOwnAtOnce(TokenSite):
    def on_broadcast(self, sequence, payload):
        self.env.deliver(self.env.host, sequence, payload)
        super().on_broadcast(sequence, payload)


class NeverLooksForTheToken(TokenSite):
    def _watch(self):
        pass


MUTANTS = (
    *(
        Mutant(with_part(TokenSite, "_token", mistake), wrong)
        for mistake, wrong in {
            DeliversWhatHasANumber: "A message is delivered as soon as it has a number.",
            TakesTheTokenTwice: "A token that is offered again is taken again.",
            ForgetsTheTokenAtRestart: "A host that restarts forgets the token, and the first host makes another.",
            NeverRests: "The token goes round also when everybody has everything.",
        }.items()
    ),
    *(
        Mutant(with_part(TokenSite, "_ledger", mistake), wrong)
        for mistake, wrong in {
            ForgetsItsMessagesAtRestart: "A host that restarts forgets the messages with a number.",
            NeverForgets: "What everybody has is kept.",
            NumbersAnyMessage: "A message is numbered though an earlier one of its source is not.",
        }.items()
    ),
    Mutant(
        with_part(TokenSite, "_requests", AsksForNothing),
        "Nobody asks for what is missing.",
        harmless="A site that lacks something does not take the token, so a reformation follows, in which the site gets everything. "
        "Each loss then costs a quarter of a second, and not a round trip.",
    ),
    *(
        Mutant(with_part(TokenSite, "_lists", mistake), wrong)
        for mistake, wrong in {
            MakesListsOfAMinority: "Those that joined make a list, however few they are.",
            BeginsWithTheOriginator: "The originator of a new list says what has been numbered, whatever others have.",
            CommitsBeforeAllHaveAgreed: "There is a token when a majority has agreed to the new list.",
            NeverReforms: "There is never a new list.",
        }.items()
    ),
    Mutant(
        with_part(TokenSite, "_lists", ForgetsWhatMayBeAtLSitesAlone),
        "There is no test of resiliency.",
        parameters={"resilience": 0, "window": 1},
    ),
    Mutant(NeverRepeatsItsMessages, "A source sends each message once."),
    Mutant(ForgetsItsOwnMessagesAtRestart, "A source that restarts forgets its messages without a number."),
    Mutant(DeliversItsOwnAtOnce, "A source delivers its messages before they have a number."),
    Mutant(NeverLooksForTheToken, "Nobody asks where the token is."),
)
