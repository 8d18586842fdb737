"""The token at one site: taking it, numbering messages with it, passing it on, and what its way through the list tells.

Hops number the passes of the token of a list from 1, so the list says which site has it at each hop. The acknowledgement of hop h shows
that its site has everything that was numbered before. So what was numbered up to hop h is at L + 1 sites, and may be delivered, with the
acknowledgement of hop h + L; and at all m sites of the list with that of hop h + m - 1.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.protocols.token_site.ledger import Ledger
from hostagent.protocols.token_site.messages import Ack, Taken, TokenSiteParameters
from hostagent.protocols.token_site.pace import Pace
from hostagent.protocols.token_site.reformation import TRIES, Reformation


class Token(Part):
    """What one site knows of the token of its list.

    `on_silence` is called with the next site if that does not take the token, `on_change` if the token was passed on because nothing else
    happened.
    """

    messages = (Ack, Taken)

    def __init__(
        self,
        env: Environment,
        parameters: TokenSiteParameters,
        ledger: Ledger,
        lists: Reformation,
        pace: Pace,
        on_silence: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(env)
        self._history, self._linger_s = parameters.history, parameters.linger_ms / 1000
        self._resilience = parameters.resilience_among(len(env.hosts))
        self._ledger, self._lists, self._pace = ledger, lists, pace
        self._on_silence, self._on_change = on_silence, on_change
        self.committed = 0
        """What may be delivered, whether it is here or not."""
        self._reset()

    def _reset(self) -> None:
        self._version = self._lists.version
        self.is_held = self.is_offered_on = False
        """Whether this site has the token; whether it has passed the token on and the next site is not known to have taken it."""
        self.hop = self._news = self._taken = 0
        """The last hop of which this site has the acknowledgement, the last that numbered something, and the last of this site itself."""
        self.stable = self._ledger.base
        """All sites of the list have everything up to this number."""
        self._lasts: deque[tuple[int, int]] = deque()
        """For the last hops that this site has heard: the highest number that was given by then."""
        self._offer: tuple[int, int] | None = None
        """The hop at which the token was passed to this site, and the number up to which it must have everything to take the token."""
        self._repetitions = 0

    def forget(self) -> None:
        """The list is given up, and its token with it."""
        if self.is_held:
            self.env.trace("token", generation=self._version, held=False)
        self._reset()
        self.env.cancel_timer("linger")
        self.env.cancel_timer("pass")

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Hold the token again, or find out whether the next site has taken it; at the very first start, the first host makes a token."""
        self._reset()
        self.committed = self._ledger.delivered
        version, hop, held = stored.get("token", (0, 0, False))
        if not self._lists.is_settled or version != self._version:
            return
        if held:
            self.hop = self._news = hop - 1
            self._take(hop)
        elif hop:
            self.hop = self._news = self._taken = hop
            self._await_next()
        elif not self._version and self._lists.site(1) == self.env.host:
            self._take(1)

    def make(self) -> None:
        """A new list is in force. All its sites have what its first site has, which makes the token."""
        self._reset()
        self.committed, self.stable = max(self.committed, self._ledger.last), self._ledger.last
        if self._lists.site(1) == self.env.host:
            self._take(1, silently=True)
            # The others must hear that the list is in force.
            self._pass_on()

    @property
    def is_urgent(self) -> bool:
        """Whether the token can be put to use at once: there is a message to number, or one that another pass helps to deliver."""
        return self._ledger.is_ready or self.committed < self._ledger.last

    def hear(self, sender: str, ack: Ack) -> None:
        """An acknowledgement of the list in force."""
        hosts = self.env.hosts
        if any(place >= len(hosts) for place, _, _ in ack.runs):
            return
        self._ledger.register(ack.first, [(hosts[place], sequence, count) for place, sequence, count in ack.runs])
        self._note(ack.hop, ack.last, ack.news)
        self.learn(ack.committed, ack.stable)
        if ack.hop > self._taken:
            self.is_taken_on()
        if self._lists.site(ack.hop + 1) != self.env.host:
            return
        if ack.hop < max(self._taken, self.hop):
            self._say_taken(sender, ack.hop + 1)
        else:
            self._offer = ack.hop + 1, ack.last

    def learn(self, committed: int, stable: int) -> None:
        """Another site of the list knows this."""
        self.committed, self.stable = max(self.committed, committed), max(self.stable, stable)

    def on_message(self, sender: str, message: Taken, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """The next site has taken the token. Acknowledgements come by `hear`."""
        if self._lists.is_settled and message.version == self._version and message.hop > self._taken:
            self._pace.answered(sender)
            self.is_taken_on()

    def is_taken_on(self) -> None:
        """The token has left this site for good."""
        if self.is_offered_on:
            self.is_offered_on = False
            self._pace.answered(self._lists.site(self._taken + 1))
            self.env.cancel_timer("pass")

    def is_alive(self, sender: str) -> None:
        """The next site is at work: it asks for what it needs to take the token."""
        if self.is_offered_on and sender == self._lists.site(self._taken + 1):
            self._repetitions = 0

    def act(self) -> None:
        """Take the token if it was passed to this site, which has everything; pass it on if that is of use."""
        if self._offer and not self.is_held and self._ledger.top >= self._offer[1]:
            hop, _ = self._offer
            self._offer = None
            self._take(hop)
        elif self.is_held and self.is_urgent:
            self._pass_on()

    def on_timer(self, name: str) -> None:
        """Nothing new for a while; or no sign that the next site has taken the token."""
        if name == "linger":
            self._pass_on()
            self._on_change()
        elif name != "pass":
            super().on_timer(name)
        elif self._repetitions == TRIES - 1:
            self._on_silence(self._lists.site(self._taken + 1))
        else:
            self._repetitions += 1
            follower = self._lists.site(self._taken + 1)
            last, own = self._ledger.last, (EVERYBODY, self.env.host, 0)
            again = Ack(*own, self._version, self._taken, last + 1, (), self._news, self.committed, self.stable)
            self.env.send(follower, again, Purpose.REPAIR)
            self._await_next()

    def _take(self, hop: int, *, silently: bool = False) -> None:
        """Hold the token, and put it to use, or say only that it is here."""
        assert not self.is_held, hop
        self._ledger.store()
        self._taken, self.is_held = hop, True
        self.env.store("token", (self._version, hop, True))
        self.env.trace("token", generation=self._version, held=True)
        if silently:
            return
        everywhere = self.stable == self._ledger.last
        lingered = hop > self._news + self._resilience + 1
        if self.is_urgent or (lingered and not everywhere):
            self._pass_on()
            return
        before = self._lists.site(hop - 1)
        if hop > 1 and before != self.env.host:
            self._say_taken(before, hop)
        if not everywhere:
            self.env.set_timer("linger", self._linger_s)

    def _say_taken(self, to: str, hop: int) -> None:
        self.env.send(to, Taken(EVERYBODY, self.env.host, 0, self._version, hop), Purpose.CONTROL)

    def _pass_on(self) -> None:
        """Number what is here, and pass the token on in the same datagram."""
        assert self.is_held, self._taken
        first, hop = self._ledger.last + 1, self._taken
        runs = self._ledger.number_messages(self._history - (self._ledger.last - self.stable))
        self._ledger.store()
        self._note(hop, self._ledger.last, hop if runs else self._news)
        about = runs[0][:2] if runs else (self.env.host, 0)
        placed = tuple((self.env.hosts.index(origin), sequence, count) for origin, sequence, count in runs)
        ack = Ack(EVERYBODY, *about, self._version, hop, first, placed, self._news, self.committed, self.stable)
        self.is_held, self._repetitions = False, 0
        self.env.store("token", (self._version, hop, False))
        self.env.trace("token", generation=self._version, held=False)
        self.env.cancel_timer("linger")
        self.env.multicast(EVERYBODY, ack, Purpose.DATA if runs else Purpose.CONTROL)
        self._pace.spoke()
        if (follower := self._lists.site(hop + 1)) == self.env.host:
            self._take(hop + 1)
        else:
            self._pace.asked(follower)
            self._await_next()

    def _await_next(self) -> None:
        self.is_offered_on = True
        self.env.set_timer("pass", self._pace.wait_s(self._lists.site(self._taken + 1), self._repetitions))

    def _note(self, hop: int, last: int, news: int) -> None:
        """A site has taken the token at a hop, so it has everything that was numbered at earlier ones."""
        self._news = max(self._news, news)
        if hop <= self.hop:
            return
        self.hop = hop
        self._lasts.append((hop, last))
        passes = len(self._lists.order) - 1
        self.committed = max(self.committed, self._numbered_by(hop - min(self._resilience, passes), last))
        self.stable = max(self.stable, self._numbered_by(hop - passes, last))
        while len(self._lasts) > 1 and self._lasts[1][0] <= hop - passes:
            self._lasts.popleft()

    def _numbered_by(self, hop: int, last: int) -> int:
        """The highest number that is known to have been given by a hop; `last` was given by the last one."""
        if hop >= self._news:
            return last
        return max((given for earlier, given in self._lasts if earlier <= hop), default=0)
