"""The token site: one site after another numbers the messages of all, and what L further sites have is delivered.

Source: Chang and Maxemchuk, "Reliable Broadcast Protocols", ACM TOCS 2 (3), 1984, pages 251-273, as the third paper (Spauster, section 2.2)
and the fourth (Chang and Hwang, section 4.3) describe and count it.

Model. Datagrams are lost, duplicated, reordered and delayed; hosts crash and restart with their storage. Nobody detects failures reliably.

How. A source sends each message to everybody. The *token site* gives the messages numbers, in one acknowledgement to everybody (`Ack`) for
all that it has and that have none, and passes the token on with the same datagram, round the *token list*. A site takes the token only if
it has everything with a number. That it sends an acknowledgement itself is the sign that it has taken the token; if it has nothing to
number, it passes the token on without (an acknowledgement of nothing) as long as this helps to deliver something, and otherwise says only
that it has the token (`Taken`). A site that lacks a message asks the one whose acknowledgement it has seen last. When a message has a
number and the token was passed L times since, it is delivered, in the order of numbers. When the token was passed once round the list,
all sites have the message. When all hosts are in the list, it is then forgotten.

Rest. When everything is delivered, the token site keeps the token for `linger_ms`, and then passes it on until the list knows that all have
everything. Then the token rests, and nobody sends anything, until there is a new message.

Failures. The site that passed the token on repeats that to the next one, and a source repeats what gets no number. Any site that waits for
something asks the others where the token is (`Query`). When there is no sign of the token, the site starts a reformation
(`hostagent.protocols.token_site.reformation`). A host outside the list is told of it every `longest_ms`; it first gets what was delivered
without it, and then starts a reformation to be in the list again.

Guarantees, with any L, whatever crashes and whatever the network does: one strict order for everybody, the order of each source in it, the
same number everywhere, no gaps; never two tokens of one version. This is what the test of resiliency is for, and the price is paid in
progress: after the loss of more than L hosts, or of so many that no majority is left, everything stops until enough of them are back. With
L = 0 a message is delivered as soon as it has a number, and the loss of any host stops everything. By default L is the largest minority.
With a larger L a message takes longer and no more failures are survived, as a new list needs a majority.

Flow control. A source has at most `window` messages under way without a number, and no more than `history` messages are numbered that a
site of the list may lack; the others wait at their source. What is delivered while a host is not in the list is kept for it, however
much that is, since it must deliver everything; so memory is bounded only while all hosts are in the list.

Messages. `Data` and `Ack` to each other host (data): 2(n - 1) packets for a message among n hosts if it gets an acknowledgement of its own,
and fewer if several share one; on a network that multicasts, 2. Token passes (control): an `Ack` of nothing to each other host for each of
the L passes that no later message makes, and n - 1 - L more and two `Taken` when there is silence. Under load there are none of them.

Decisions. Every acknowledgement passes the token on, so that no pass costs a packet of its own under load. The last hop that numbered
something travels with the token, so that a site which missed an acknowledgement knows when to stop. In the paper only the token site sends
messages again; here any site that has them does, since the one that was asked first may be dead. The papers say nothing of sources that are
faster than the token; here they wait. An acknowledgement of messages counts as data, as it is half of the paper's row; one of nothing as
control.
"""

from collections.abc import Mapping
from typing import Any, Final

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.contract.promises import Carrier, Guarantee, Order, Promise, Scope, Strength
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.token_site.ledger import Ledger
from hostagent.protocols.token_site.messages import Ack, Data, Query, Request, Status, Supply, TokenSiteParameters
from hostagent.protocols.token_site.pace import Pace
from hostagent.protocols.token_site.reformation import TRIES, Reformation
from hostagent.protocols.token_site.requests import Requests
from hostagent.protocols.token_site.token import Token

MOST_AGAIN: Final = 16
"""Messages that a source repeats at once. More are repeated when these have numbers."""
PATIENCE_TRIES: Final = 60
"""The steps of a reformation, of catching up and of passing the token all succeed within so many times the longest wait."""


class TokenSite(Core):
    """Number messages in turn, and deliver what L other sites have."""

    name = "token-site"
    number = 12
    summary = "a token goes round, its site numbers all messages; delivered after resilience=L passes: one strict order, 2(n - 1) packets"
    assumes = "hosts that crash come back with their storage, or are at most L and a minority"
    beyond = frozenset({"restart-lost"})
    messages = (Data, *Token.messages, *Requests.messages, Query, Status, *Reformation.messages)
    waits = ("longest_ms",)
    Parameters = TokenSiteParameters
    parameters: TokenSiteParameters

    def __init__(self, env: Environment, parameters: TokenSiteParameters) -> None:
        super().__init__(env, parameters)
        longest_s = parameters.longest_ms / 1000
        self._me = env.hosts.index(env.host)
        self._pace = Pace(env.peers, env.now, longest_s, parameters.first_ms / 1000)
        self._numbering = RoundTrips(longest_s, parameters.first_ms / 1000)
        """How long it takes until a message of this host has a number."""
        self._ledger = self.add("ledger", lambda own: Ledger(own, self._on_deliver))
        resilience = parameters.resilience_among(len(env.hosts))
        self._lists = self.add("lists", lambda own: self._make_lists(own, resilience))
        self._token = self.add("token", lambda own: self._make_token(own, parameters))
        self._requests = self.add("requests", lambda own: Requests(own, self._ledger, self._pace, self._helpers))
        self._own: dict[int, bytes] = {}
        """The messages of this host that were not delivered here yet."""
        self._sent = self._numbered = self._repetitions = 0
        """The last message of this host that was sent and that has a number, and how often those without one were repeated."""
        self._rumour = 0
        """The last hop that others have told of."""
        self._tries = 0
        """How often in a row this site asked for the token in vain."""
        self._is_watching, self._watched = False, 0
        """Whether this site waits for the token to come, and the last hop that it had heard of when it began to."""
        self._is_cut = False
        """Whether this host is not in the list in force, and has taken back what it numbered otherwise."""

    def _make_lists(self, env: Environment, resilience: int) -> Reformation:
        return Reformation(
            *(env, self._ledger, self._pace, resilience),
            on_promise=self._on_promise,
            on_list=self._on_list,
            tell=self._tell,
            ask=self._ask_all,
        )

    def _make_token(self, env: Environment, parameters: TokenSiteParameters) -> Token:
        return Token(env, parameters, self._ledger, self._lists, self._pace, self._on_silence, self._advance)

    @classmethod
    def promise(cls, parameters: TokenSiteParameters, hosts: int) -> Promise:
        """Strict order with any L; L says how many hosts must be there for progress."""
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
            *(Guarantee.ACYCLIC_ORDER, Guarantee.NO_GAPS, Guarantee.SAME_POSITION, Guarantee.ONE_TOKEN),
            *(Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        return Promise(
            guarantees=guarantees,
            orders=tuple(Order(scope, Strength.STRICT) for scope in (Scope.SINGLE_SOURCE, Scope.MULTIPLE_SOURCE)),
            token_kind=cls.messages.index(Ack),
            carrier=Carrier.ANYONE,
            patience_ms=PATIENCE_TRIES * parameters.longest_ms,
            quorum=hosts - cls.most_lost(parameters, hosts),
            retained=28 * hosts + 64,
        )

    @classmethod
    def most_lost(cls, parameters: TokenSiteParameters, hosts: int) -> int:
        """L hosts, if they are a minority."""
        return min(parameters.resilience_among(hosts), (hosts - 1) // 2)

    @classmethod
    def most_copies(cls, hosts: int) -> int:
        """The message, its acknowledgement, and the token once round the list."""
        return (hosts + 1) * (hosts - 1)

    @classmethod
    def check(cls, parameters: TokenSiteParameters, hosts: tuple[str, ...]) -> None:
        """Refuse more passes than there are other hosts."""
        if parameters.resilience is not None and parameters.resilience > len(hosts) - 1:
            raise ValueError(
                f"resilience={parameters.resilience}: there are {len(hosts)} hosts, so after {len(hosts) - 1} passes all have a message; "
                f"choose from 0 to {len(hosts) - 1}"
            )

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the messages of this host, and send those without a number again."""
        own = {int(key.removeprefix("own/")): value for key, value in stored.items()}
        self._own = dict(sorted(own.items()))
        self._sent = self._numbered = self._ledger.numbered(self.env.host)
        self._send_own(Purpose.REPAIR)
        self._probe_later()
        self._advance()

    @property
    def unfinished(self) -> int:
        """The messages that have no place in the order yet."""
        return len(self._own)

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """Send a message to everybody, or keep it until there is room."""
        self._own[sequence] = payload
        self.env.store(f"own/{sequence}", payload)
        self._send_own(Purpose.DATA)
        self._advance()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """Messages and what is said about them and the token; the rest is for the parts."""
        match message:
            case Data(origin=origin, sequence=sequence, payload=payload):
                if self._ledger.offer(origin, sequence, payload):
                    self.env.receive(origin, sequence)
                    self._requests.came(origin)
            case Ack():
                self._on_ack(sender, message)
            case Request(version=version):
                if version == self._lists.version:
                    self._token.is_alive(sender)
                    self._requests.serve(sender, message)
            case Supply():
                self._on_supply(message)
            case Query():
                self._on_query(sender, message)
            case Status():
                self._on_status(sender, message)
            case _:
                super().on_message(sender, message, expensive)
        self._advance()

    def on_timer(self, name: str) -> None:
        """What was sent has no number yet, there is no sign of the token, or it is time to tell hosts outside the list of it."""
        match name:
            case "own":
                self._send_again()
            case "watch":
                self._is_watching = False
                self._look_for_token()
            case "probe":
                for host in self._lists.absent if self._lists.is_settled else ():
                    self._tell(host)
                self._probe_later()
            case _:
                super().on_timer(name)
        self._advance()

    def _advance(self) -> None:
        """Do whatever has become possible: deliver, forget, take the token and pass it on, send more of this host's messages."""
        ledger, token = self._ledger, self._token
        if self._lists.is_settled:
            token.act()
        ledger.deliver(token.committed)
        if self._lists.is_settled and self._lists.is_complete:
            ledger.forget(min(token.stable, ledger.delivered))
        if (numbered := ledger.numbered(self.env.host)) != self._numbered:
            self._on_numbers(numbered)
        self._requests.look()
        self._watch()

    def _on_ack(self, sender: str, ack: Ack) -> None:
        """The token site has numbered messages. From an older list, it has to be told; from a newer one, this host is not in the list."""
        lists = self._lists
        if ack.version < lists.version:
            self._tell(sender)
        elif ack.version == lists.version == lists.promised:
            lists.confirm()
            self._pace.answered(sender)
            for place, sequence, count in ack.runs:
                if place == self._me:
                    self._pace.numbered(sender, sequence, count)
            self._tries = 0
            self._token.hear(sender, ack)
            self._requests.lack(sender, ack.version, ack.last)
        elif ack.version >= lists.promised and not self._is_watching:
            self._ask(sender)
            self._watch_for(self._pace.longest_s)

    def _on_supply(self, supply: Supply) -> None:
        """A message that this site asked for: for the list it is in, for the one it is about to join, or to catch up."""
        self._lists.take(supply)
        if self._requests.wants(supply):
            if self._ledger.supply(supply.number, supply.origin, supply.sequence, supply.payload):
                self.env.receive(supply.origin, supply.sequence)
            if not self._lists.is_settled and not self._lists.is_joining and self._ledger.top >= self._token.committed:
                # This host has caught up with the others, who refuse the invitation of one that is far behind.
                self._ledger.deliver(self._token.committed)
                self._lists.originate()

    def _on_query(self, sender: str, query: Query) -> None:
        """Tell a site that waits what it does not know, and that there is a token if it is here."""
        hop, token = max(self._token.hop, self._rumour), self._token
        knows = zip((hop, token.committed, token.stable), (query.hop, query.committed, query.stable), strict=True)
        ahead = self._lists.version == query.version and any(here > there for here, there in knows)
        if self._lists.promised > query.version or ahead or token.is_held or token.is_offered_on:
            self._tell(sender)

    def _on_status(self, sender: str, status: Status) -> None:
        """Another site has told what it knows."""
        lists, token = self._lists, self._token
        lists.seen = max(lists.seen, status.promised)
        if status.version < lists.version:
            if lists.is_settled and status.promised < lists.version:
                self._tell(sender)
        elif status.version == lists.version:
            if status.in_force:
                lists.confirm()
            if lists.is_settled:
                self._pace.answered(sender)
                self._rumour = max(self._rumour, status.hop)
                token.learn(status.committed, status.stable)
                self._tries = 0 if status.active else self._tries
                self._requests.lack(sender, status.version, status.last)
        elif status.in_force:
            self._catch_up(sender, status)

    def _catch_up(self, sender: str, status: Status) -> None:
        """This host is not in the list in force: get what was delivered without it, and then start a reformation to be in it again."""
        ledger = self._ledger
        self._lists.give_up(status.version)
        if self._lists.is_joining:
            return
        if not self._is_cut:
            self._is_cut = True
            ledger.set_aside_after(max(ledger.delivered, status.base))
        self._token.learn(status.committed, 0)
        ledger.deliver(status.committed)
        if ledger.delivered < status.committed:
            self._requests.lack(sender, status.version, status.committed)
        elif not self._lists.is_inviting:
            self._lists.originate()

    def _on_promise(self) -> None:
        """This site has no part in its list any more."""
        self._token.forget()
        self._requests.stop()
        self._is_watching = False
        self.env.cancel_timer("watch")

    def _on_silence(self, follower: str) -> None:
        """The next site does not take the token."""
        self._lists.originate(follower)

    def _on_list(self) -> None:
        """A new list is in force."""
        self._rumour = self._tries = 0
        self._is_cut = False
        self._token.make()
        self._probe_later()
        self._advance()

    def _on_deliver(self, origin: str, sequence: int) -> None:
        if origin == self.env.host and self._own.pop(sequence, None) is not None:
            self.env.store(f"own/{sequence}", None)

    def _send_own(self, purpose: Purpose) -> None:
        """Send messages of this host to everybody, as far as the window allows."""
        while self._sent < self._numbered + self.parameters.window and self._sent + 1 in self._own:
            self._sent += 1
            payload = self._own[self._sent]
            self._ledger.offer(self.env.host, self._sent, payload)
            self.env.multicast(EVERYBODY, Data(EVERYBODY, self.env.host, self._sent, payload), purpose)
            if self._sent == self._numbered + 1:
                self._pace.spoke(self._sent)
                self._numbering.asked(self.env.host, self.env.now())
                self._await_number()

    def _on_numbers(self, numbered: int) -> None:
        """Messages of this host have got numbers, or lost them again with their list."""
        self._numbered, self._repetitions = numbered, 0
        self._numbering.answered(self.env.host, self.env.now())
        self._send_own(Purpose.DATA)
        if self._numbered < self._sent:
            self._numbering.asked(self.env.host, self.env.now())
            self._await_number()
        else:
            self.env.cancel_timer("own")

    def _await_number(self) -> None:
        self.env.set_timer("own", self._numbering.wait_s(self.env.host, self._repetitions))

    def _send_again(self) -> None:
        """Repeat messages without a number: at first to the site that should have the token, then to everybody."""
        first, holder = self._numbered + 1, self._lists.site(max(self._token.hop, self._rumour) + 1)
        waiting = [number for number in range(first, min(self._sent, self._numbered + MOST_AGAIN) + 1) if number in self._own]
        for sequence in waiting:
            data = Data(EVERYBODY, self.env.host, sequence, self._own[sequence])
            if self._repetitions or holder == self.env.host:
                self.env.multicast(EVERYBODY, data, Purpose.REPAIR, turn=self._repetitions)
            else:
                self.env.send(holder, data, Purpose.REPAIR)
        self._repetitions += 1
        self._numbering.forget(self.env.host)
        self._pace.repeated()
        self._await_number()

    def _helpers(self) -> tuple[str, ...]:
        """The sites that may have what this one lacks."""
        return tuple(host for host in self._lists.order if host != self.env.host)

    def _watch(self) -> None:
        """Look for the token if it does not come and is needed: soon for what is to be delivered, later for what is to be forgotten."""
        if self._is_watching or not self._lists.is_settled or self._token.is_held or self._token.is_offered_on:
            return
        ledger = self._ledger
        if self._numbered < self._sent or ledger.delivered < ledger.last:
            hop = max(self._token.hop, self._rumour)
            self._watch_for(self._pace.wait_for_hop_s(self._lists.site(hop), self._lists.site(hop + 1), self._tries))
        elif self._lists.is_complete and ledger.base < ledger.last:
            self._watch_for(self.parameters.linger_ms / 1000 + self._pace.longest_s)

    def _watch_for(self, after_s: float) -> None:
        self._is_watching = True
        self._watched = self._token.hop
        self.env.set_timer("watch", after_s)

    def _look_for_token(self) -> None:
        """Nothing has come for a while: ask where the token is, at first at the site that should have it."""
        if not self._lists.is_settled or self._token.is_held or self._token.is_offered_on or self._token.hop != self._watched:
            return
        self._tries += 1
        holder = self._lists.site(max(self._token.hop, self._rumour) + 1)
        if self._tries > TRIES:
            self._tries = 0
            self._lists.originate(holder)
        elif self._tries == 1 and holder != self.env.host:
            self._ask(holder)
        else:
            self._ask_all()

    def _ask(self, host: str) -> None:
        self._pace.asked(host)
        self.env.send(host, self._query(), Purpose.CONTROL)

    def _ask_all(self) -> None:
        self.env.multicast(EVERYBODY, self._query(), Purpose.CONTROL, turn=self._tries)

    def _query(self) -> Query:
        hop = max(self._token.hop, self._rumour)
        return Query(EVERYBODY, self.env.host, 0, self._lists.version, hop, self._token.committed, self._token.stable)

    def _tell(self, host: str) -> None:
        """Say what this site knows."""
        lists, token = self._lists, self._token
        hop = max(token.hop, self._rumour)
        status = Status(
            *(EVERYBODY, self.env.host, 0, lists.version, lists.promised, lists.is_settled, hop, self._ledger.top),
            *(min(token.committed, self._ledger.top), self._ledger.base, token.stable, token.is_held or token.is_offered_on),
        )
        self.env.send(host, status, Purpose.CONTROL)

    def _probe_later(self) -> None:
        if self._lists.is_settled and not self._lists.is_complete:
            self.env.set_timer("probe", self._pace.longest_s)
