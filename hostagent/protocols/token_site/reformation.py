"""The reformation phase: sites that can reach each other agree on a new token list.

A list has a version, which no other list has: every host makes versions of its own. A site keeps on stable storage the highest version
that it has joined (`promised`), and its last list (`version`, `order`) together with the messages that belong to it.

Phase 1. The originator invites everybody. A site joins if it has joined no list with that version or a higher one (the paper's *sequence
test*); from then on it has no part in any list with a lower version: it takes no token of it and gives its own up. It says which list it
was in last, and up to which number it has everything. When all have joined, or those that have not did not answer twice (once, if it is
the one whose silence made the originator invite), the originator puts those that joined to two tests. *Majority*: they are more than half
of all hosts. *Resiliency*: they are all but L of the newest list that any of them was in. If they fail, the originator goes on inviting.

Phase 2. Of the sites of that newest list, the one that has most becomes the first token site. All others get from it what they lack. A site
that numbered messages in an older list takes those numbers back as far as they were not delivered, once it has everything; from then on
the new list is its last list, and it agrees.

Phase 3. When all have agreed, the originator tells the first token site to make a token. A site that does not answer starts it all over.

Why nothing that was delivered is lost. A message is delivered when L + 1 sites of its list have it on stable storage, or all of them. All
but L of them are in the new list, so at least one that has it is. Once they have joined, at most L sites still take the old token, so
nothing more is delivered from the old list that the new one does not have. A list in which there was a token is the last list of all of its
sites, and every majority has one of them; so the newest list that a majority knows is the last in which there was one, or a newer one
that had everything from it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose, host_set, hosts_in
from hostagent.protocols.token_site.ledger import WINDOW, Ledger
from hostagent.protocols.token_site.messages import Agree, Commit, Invite, Join, NewList, Request, Supply
from hostagent.protocols.token_site.pace import Pace

ROUNDS: Final = 2
"""Invitations to a host that does not answer, before the others go on without it."""
TRIES: Final = 3
"""How often a site that should answer is asked, before a new reformation without it begins."""
PATIENCE: Final = 5
"""A site that has joined waits so many times as long as an answer takes for the new list, before it invites itself."""
MOST_DOUBLINGS: Final = 4


class Reformation(Part):
    """The lists of one site. `on_promise` is called when the last list is given up, `on_list` when a new list is in force.

    `tell` sends a host what this site knows, `ask` asks everybody what they know.
    """

    messages = (Invite, Join, NewList, Agree, Commit)

    def __init__(
        self,
        env: Environment,
        ledger: Ledger,
        pace: Pace,
        resilience: int,
        *,
        on_promise: Callable[[], None],
        on_list: Callable[[], None],
        tell: Callable[[str], None],
        ask: Callable[[], None],
    ) -> None:
        super().__init__(env)
        self._ledger, self._pace, self._resilience = ledger, pace, resilience
        self._on_promise, self._on_list, self._tell, self._ask = on_promise, on_list, tell, ask
        self.version = self.promised = 0
        self.order = env.hosts
        """The sites of the last list, beginning with its first token site."""
        self.is_settled = True
        """Whether the last list is in force, as far as this site knows."""
        self.seen = 0
        """The highest version that this site has heard of."""
        self._joins: dict[str, Join] = {}
        """The sites that joined the list of this originator; empty if this site is none."""
        self._agreed: dict[str, None] = {}
        self._plan: NewList | None = None
        """The list that this site has to agree to, or as its originator to have agreed to."""
        self._originator = ""
        self._incoming: dict[int, Supply] = {}
        """What came from the first token site of the plan."""
        self._rounds = self._failures = self._fetches = 0
        """How often in a row this site has invited, failed to make a list, and asked the first token site in vain."""
        self._silent = ""
        """The host because of whose silence this site invites, if there is one."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the last list. A site that was about to join another has to find out what became of it."""
        self.promised = stored.get("promised", 0)
        if "list" in stored:
            self.version, members, first = stored["list"]
            self._enter(tuple(members), first)
        self.is_settled = stored.get("in force", 0) == self.promised
        if not self.is_settled:
            self._wait_for_list()

    @property
    def is_complete(self) -> bool:
        """Whether every host is in the last list."""
        return len(self.order) == len(self.env.hosts)

    @property
    def absent(self) -> tuple[str, ...]:
        """The hosts that are not in the last list."""
        return tuple(host for host in self.env.hosts if host not in self.order)

    @property
    def is_inviting(self) -> bool:
        """Whether this site is about to make a list."""
        return bool(self._joins)

    @property
    def is_joining(self) -> bool:
        """Whether another site is about to make a list that this one has joined, or this one has a list to be agreed to."""
        return self._plan is not None or self._originator not in {"", self.env.host}

    def site(self, hop: int) -> str:
        """The site that has the token at this hop, from 1."""
        return self.order[(hop - 1) % len(self.order)]

    def originate(self, silent: str = "") -> None:
        """Invite everybody to a new list. A host that did not answer this site before is waited for once, not twice."""
        self._silent = silent
        hosts, above = len(self.env.hosts), max(self.promised, self.seen)
        own = self.env.hosts.index(self.env.host)
        self._promise(above + 1 + (own - above - 1) % hosts)
        self._originator, self._rounds = self.env.host, 0
        self.env.trace("reformation", version=self.promised)
        self._joins = {self.env.host: self._own_join()}
        for peer in self.env.peers:
            self._pace.asked(peer)
        self._invite(self.env.peers)
        self._look_at_joins()

    def give_up(self, version: int) -> None:
        """A list with this version is in force, and this site is not in it."""
        self.seen = max(self.seen, version)
        if version > self.promised:
            self._promise(version)
            self._originator = ""
            self._wait_for_list()

    def confirm(self) -> None:
        """There is a token of the last list, so it is in force."""
        if self.is_settled or self.version != self.promised:
            return
        self.is_settled, self._plan, self._joins, self._agreed, self._failures = True, None, {}, {}, 0
        self.env.store("in force", self.version)
        self.env.cancel_timer("step")
        self._on_list()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """What the originator or a site that joins says. What is about another version is over, or not for this site."""
        match message:
            case Invite():
                self._on_invite(sender, message)
            case Join(version=self.promised) if self._joins:
                self._pace.answered(sender)
                self._joins[sender] = message
                self._look_at_joins()
            case NewList(version=self.promised, members=members) if self.env.host in hosts_in(members, self.env.hosts):
                self._on_new_list(sender, message)
            case Agree(version=self.promised) if self._plan and self._joins:
                self._pace.answered(sender)
                self._agreed[sender] = None
                self._look_at_agreements()
            case Commit(version=self.promised) if self.version == self.promised:
                self.confirm()
                self._tell(sender)

    def on_timer(self, name: str) -> None:
        """An answer did not come in time."""
        if name == "fetch":
            self._fetches = min(self._fetches + 1, MOST_DOUBLINGS)
            self._fetch()
            return
        if name != "step":
            super().on_timer(name)
        self._rounds += 1
        if not self._joins and self.version == self.promised and self._rounds < TRIES:
            # The new list may be in force, and the first acknowledgement was lost.
            self._ask()
            self._wait(self._pace.wait_for_all_s(self._rounds))
        elif self._joins and self.seen > self.promised and self._failures:
            # Another originator has a higher version, not for the first time. If both tried again at once, none would ever be finished.
            self._failures = min(self._failures + 1, MOST_DOUBLINGS)
            self._originator, self._joins, self._plan = "", {}, None
            self._wait_for_list()
        elif not self._joins or self.seen > self.promised or (self._plan and self._rounds > TRIES):
            self._failures = min(self._failures + 1, MOST_DOUBLINGS)
            self.originate()
        elif self._plan is None:
            self._invite(tuple(peer for peer in self.env.peers if peer not in self._joins))
            self._look_at_joins()
        else:
            self._urge(self._plan)

    def take(self, supply: Supply) -> None:
        """The first token site of the plan has sent a message."""
        if self._plan and supply.version == self._plan.version and supply.number <= self._plan.last:
            self._incoming[supply.number] = supply
            self._pace.answered(self._plan.first)
            self._fetches = 0
            if not self._missing(self._plan):
                self._fetch()

    def _promise(self, version: int) -> None:
        """Join a list: have no part in any with a lower version."""
        assert version > self.promised, version
        self.promised = version
        self.env.store("promised", version)
        self.is_settled, self._plan, self._joins, self._agreed, self._incoming = False, None, {}, {}, {}
        self.env.cancel_timer("fetch")
        self._on_promise()

    def _own_join(self) -> Join:
        # Only what is stored counts: the others rely on it.
        self._ledger.store()
        members = host_set(self.order, self.env.hosts)
        return Join(
            *(EVERYBODY, self.env.host, 0, self.promised, self.version, self._ledger.top, self._ledger.base, members),
        )

    def _invite(self, to: tuple[str, ...]) -> None:
        """Invite hosts, for the first time or again, and wait for their answers."""
        invite = Invite(EVERYBODY, self.env.host, 0, self.promised, self.version, self._ledger.top)
        if len(to) == len(self.env.peers):
            self.env.multicast(EVERYBODY, invite, Purpose.CONTROL, turn=self._rounds)
        else:
            for host in self.env.shuffled(to):
                self.env.send(host, invite, Purpose.CONTROL)
        self._wait(self._pace.wait_for_all_s(min(self._rounds, MOST_DOUBLINGS)))

    def _on_invite(self, originator: str, invite: Invite) -> None:
        """Join, unless the list is old; or unless this site's list is in force and the originator, not being in it, is far behind."""
        self.seen = max(self.seen, invite.version)
        behind = self.version > invite.listed and invite.last + WINDOW < self._ledger.delivered
        if invite.version < self.promised or (invite.version > self.promised and self.is_settled and behind):
            self._tell(originator)
            return
        if invite.version > self.promised:
            self._promise(invite.version)
            self._originator = originator
        if not self.is_settled and originator == self._originator:
            if self.version != self.promised and self._plan is None:
                self._wait_for_list()
            self.env.send(originator, self._own_join(), Purpose.CONTROL)

    def _look_at_joins(self) -> None:
        """Make a list of those that joined, if they are all, or enough and no others are to be expected."""
        missing = [host for host in self.env.hosts if host not in self._joins]
        rounds = 0 if not missing else 1 if missing == [self._silent] else ROUNDS
        if self._plan is None and self._rounds >= rounds and (not missing or self._pass_tests()):
            self._propose()
        elif not self._rounds and missing == [self._silent] and len(self._joins) > 1:
            # All others have answered, so it is known how long an answer takes.
            self._wait(max(self._pace.wait_s(host) for host in self._joins if host != self.env.host))

    def _pass_tests(self) -> bool:
        """The tests of majority and of resiliency."""
        newest = max(self._joins.values(), key=lambda join: join.listed)
        old = hosts_in(newest.members, self.env.hosts)
        staying = sum(host in self._joins for host in old)
        return 2 * len(self._joins) > len(self.env.hosts) and staying >= len(old) - self._resilience

    def _propose(self) -> None:
        """Phase 2: the sites that joined, and the one of them that has most."""
        members = [host for host in self.env.hosts if host in self._joins]
        first = max(members, key=lambda host: (self._joins[host].listed, self._joins[host].last))
        best = self._joins[first]
        self._plan = NewList(
            *(EVERYBODY, self.env.host, 0, self.promised, host_set(members, self.env.hosts)),
            *(first, best.listed, best.last, best.base),
        )
        self._rounds = 0
        for host in members:
            self._pace.asked(host)
        self._urge(self._plan)
        self._fetch()

    def _urge(self, plan: NewList) -> None:
        """Send the new list to those that have not agreed; if all have, tell its first token site again that it is in force."""
        waiting = [host for host in hosts_in(plan.members, self.env.hosts) if host not in self._agreed and host != self.env.host]
        for host in self.env.shuffled(waiting):
            self.env.send(host, plan, Purpose.CONTROL)
        if self.env.host in self._agreed and not waiting:
            self._commit(plan)
        # After a reformation that came to nothing, the sites have more time.
        self._wait(self._pace.wait_for_all_s(self._rounds + self._failures))

    def _on_new_list(self, originator: str, plan: NewList) -> None:
        """Get what this site lacks, or agree again."""
        if self.version == plan.version:
            self.env.send(originator, Agree(EVERYBODY, self.env.host, 0, plan.version), Purpose.CONTROL)
        else:
            if self._plan is None:
                self._plan, self._originator, self._incoming = plan, originator, {}
                self._wait_for_list()
            # Again if the originator urges: the first token site may have been asked before it knew of the list.
            self._fetch()

    def _start_of(self, plan: NewList) -> int:
        """The number up to which this site's messages are those of the first token site."""
        if self.env.host == plan.first or self.version == plan.listed:
            return min(self._ledger.top, plan.last)
        return max(self._ledger.delivered, plan.base)

    def _missing(self, plan: NewList) -> list[int]:
        lacking = (number for number in range(self._start_of(plan) + 1, plan.last + 1) if number not in self._incoming)
        return [number for number, _ in zip(lacking, range(WINDOW), strict=False)]

    def _fetch(self) -> None:
        """Ask for the next messages that are lacking, or agree if there are none."""
        plan = self._plan
        if plan is None or self.version == plan.version:
            return
        if plan.first == self.env.host or not (missing := self._missing(plan)):
            self._agree(plan)
            return
        request = Request(EVERYBODY, self.env.host, 0, plan.version, as_ranges(missing))
        self.env.send(plan.first, request, Purpose.CONTROL)
        if not self._fetches:
            self._pace.asked(plan.first)
        self.env.set_timer("fetch", self._pace.wait_s(plan.first, self._fetches))

    def _agree(self, plan: NewList) -> None:
        """Have exactly what the first token site has, and be in the new list from now on."""
        if plan.last < self._ledger.delivered or (plan.first == self.env.host and self._ledger.top < plan.last):
            # No correct originator says so: it has not passed the tests.
            return
        self._ledger.cut_after(self._start_of(plan))
        for number in sorted(self._incoming):
            supply = self._incoming[number]
            self._ledger.supply(number, supply.origin, supply.sequence, supply.payload)
        assert self._ledger.top >= plan.last, (self._ledger.top, plan.last)
        self._ledger.store()
        self._ledger.drop_aside()
        self.version, self._incoming = plan.version, {}
        members = hosts_in(plan.members, self.env.hosts)
        self._enter(members, plan.first)
        self.env.store("list", (self.version, members, plan.first))
        self.env.cancel_timer("fetch")
        self.env.trace("list", version=self.version, members=self.order)
        if self._originator == self.env.host:
            self._agreed[self.env.host] = None
            self._look_at_agreements()
        else:
            self._plan = None
            self.env.send(self._originator, Agree(EVERYBODY, self.env.host, 0, self.version), Purpose.CONTROL)

    def _enter(self, members: tuple[str, ...], first: str) -> None:
        start = members.index(first)
        self.order = (*members[start:], *members[:start])

    def _look_at_agreements(self) -> None:
        if self._plan and len(self._agreed) == len(hosts_in(self._plan.members, self.env.hosts)):
            self._rounds = 0
            self._commit(self._plan)

    def _commit(self, plan: NewList) -> None:
        """Phase 3: the list is in force. The first token site is told until it has made a token."""
        if plan.first == self.env.host:
            self.confirm()
        else:
            self.env.send(plan.first, Commit(EVERYBODY, self.env.host, 0, plan.version), Purpose.CONTROL)
            self._wait(self._pace.wait_s(plan.first, self._rounds))

    def _wait_for_list(self) -> None:
        """Invite, unless there is a new list in time; each site after another time, so that one of them is first.

        After reformations that came to nothing, which are slow where much is lost, the next one has more time.
        """
        self._rounds = 0
        patience_s = PATIENCE * (1 + self._failures) * self._pace.wait_for_all_s(self._failures) * self.env.random.uniform(1, 2)
        self._wait(patience_s)

    def _wait(self, after_s: float) -> None:
        self.env.set_timer("step", after_s)


def as_ranges(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """Ascending numbers as ranges."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return tuple(found)
