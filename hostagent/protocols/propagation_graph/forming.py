"""The manager's part in forming a new graph, and who the manager is (third paper, sections 7.1.1 and 7.3).

    the manager   sends Stop to all hosts that it trusts
    every host    promises to take part in no older graph, stops, and reports what it has
    the manager   makes a plan of the reports, when all hosts that it trusts have reported and these are a majority of all hosts
    every host    accepts the plan: it stores the plan
    the manager   tells everybody to begin, when a majority of all hosts has accepted

So it takes five messages in a row, and 5(n - 1) packets among n hosts if reports and plans fit into one packet each. Graph numbers are
ballots, as in Paxos: no two hosts use the same number, a host that has promised a number takes part in nothing lower, and a plan continues
the highest one that was accepted. So two managers at once, or one that is wrong about who is alive, may take time but break nothing.

The manager is the first host of a fixed order that it trusts to be alive: the one that the parameters name, then the others in the order of
the run. Every host decides by itself who that is. A host that has lost the majority from sight manages nothing, and when it sees a majority
again it waits until it has heard of the others too: it would leave out hosts that are well.

`hostagent.parts.election` is not used for this: a vote there fits into one datagram and the election ends with the votes of a majority,
while here the reports are histories of any length, and every host that is alive should be in the graph.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Purpose, hosts_in
from hostagent.parts.streams import Item
from hostagent.protocols.propagation_graph.items import Alive, Begin, PlanPiece, ReportPiece, Stop
from hostagent.protocols.propagation_graph.parameters import FailureParameters
from hostagent.protocols.propagation_graph.reconciling import Plan, Report, for_host, make_plan

# A piece of a report or plan, which leaves room in a datagram for the fields beside it.
PIECE_BYTES: Final = 1300
# A host that was alone looks so often before it manages anything: by then it has heard of all others that it can hear of.
COMPANY: Final = 3
# On links that are slower and more lossy than the parameters say, the manager waits up to so many times longer.
LONGEST: Final = 16
R = TypeVar("R", Report, Plan)


class Site(Protocol):
    """What the manager asks of the host that it is on."""

    opened: int
    promised: int
    members: tuple[str, ...]
    """The hosts of the graph that was opened last."""

    @property
    def is_open(self) -> bool:
        """Whether messages are passed on here."""

    @property
    def asks(self) -> bool:
        """Whether this host waits for a new graph."""

    def trusted(self) -> list[str]:
        """The hosts that are not suspected, this one included, in the order of the run."""

    def stop(self, graph: int) -> Report:
        """Promise to take part in no graph below this one, and report."""

    def accept(self, plan: Plan) -> bool:
        """Store a plan, unless a higher graph was promised."""

    def begin(self, graph: int) -> None:
        """Open a graph whose plan a majority has accepted."""

    def hand(self, to: str, item: Item) -> None:
        """Send an item to another host."""


class Attempt:
    """A graph that this host tries to form."""

    def __init__(self, graph: int) -> None:
        self.graph = graph
        self.reports: dict[str, Report] = {}
        self.accepted: dict[str, None] = {}
        self.plan: Plan | None = None
        self.looks = 0
        """How often the manager has looked at it in vain."""


class Forming(Part):
    """The manager on one host. It looks at what there is to do once in every period, and when it learns something."""

    def __init__(self, env: Environment, site: Site, parameters: FailureParameters) -> None:
        super().__init__(env)
        self._core = site
        manager = parameters.manager or env.hosts[0]
        self._ranks = (manager, *(host for host in env.hosts if host != manager))
        self._period_s = parameters.period_ms / 1000
        # Whoever is told of a graph has opened it within two bounds of a stream, where nothing is slower than the bounds say.
        self._settle_looks = self._first_looks = 2 * parameters.bound_ms / parameters.period_ms
        """How often the manager looks before it concludes that a host does not open a graph. It doubles when that was too early."""
        self._limit_looks = parameters.longest_timeout_ms / parameters.period_ms
        self._keeps_for_all = parameters.rolls_back
        self._attempt: Attempt | None = None
        self._signs: dict[str, Alive] = {}
        """The last sign of life of each host since a graph was opened here."""
        self._highest = 0
        """The highest graph number that this host has heard of."""
        self._quiet_looks = 0
        """How often the manager has looked since a graph was opened here or an attempt was given up."""
        self._company_looks = COMPANY
        """How often the manager has looked since it saw a majority again."""

    def on_start(self, stored: Mapping[str, Any]) -> None:  # noqa: ARG002 - a manager that restarts begins anew
        """Look once in every period."""
        self._wait()

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """Ask those again who have not reported, and look."""
        self._quiet_looks += 1
        self._company_looks = self._company_looks + 1 if self.has_majority else 0
        if self._attempt is not None:
            self._attempt.looks += 1
            if self._attempt.plan is None:
                self._ask(self._attempt)
        self.look()
        self._wait()

    def _wait(self) -> None:
        self.env.set_timer("look", self._period_s * self.env.random.uniform(1, 1.2))

    @property
    def manager(self) -> str:
        """The host that should form the next graph, as far as this host can tell."""
        trusted = self._core.trusted()
        return next(host for host in self._ranks if host in trusted)

    @property
    def is_well(self) -> bool:
        """Whether the manager is another host, which has the same graph open as this one, as its last sign of life says."""
        site, sign = self._core, self._signs.get(self.manager)
        if sign is None or not site.is_open or self.manager not in site.members:
            return False
        return sign.opened == sign.promised == site.opened and not sign.stopped

    @property
    def has_majority(self) -> bool:
        """Whether this host can see a majority of all hosts."""
        return self._is_majority(self._core.trusted())

    def _is_majority(self, some: Iterable[str]) -> bool:
        return 2 * len(list(some)) > len(self.env.hosts)

    def heard(self, sender: str, sign: Alive) -> None:
        """Note a sign of life."""
        self._signs[sender] = sign
        self._highest = max(self._highest, sign.promised)
        signs = [self._signs.get(host) for host in self._core.members if host != self.env.host]
        if self._core.is_open and all(sign is not None and sign.opened == self._core.opened for sign in signs):
            self._settle_looks = self._first_looks
        self.look()

    def opened(self) -> None:
        """A graph was opened here: what is known about others is out of date."""
        self._attempt, self._quiet_looks = None, 0
        self._signs.clear()

    def look(self) -> None:
        """Begin to form a graph if one is needed; go on with the one that is being formed, or give up if it takes too long."""
        if self.manager != self.env.host or not self.has_majority or self._company_looks < COMPANY:
            self._attempt = None
        elif self._attempt is not None:
            self._go_on(self._attempt)
        elif self._needs_graph():
            self._try()

    def _needs_graph(self) -> bool:
        site, settled = self._core, self._quiet_looks > self._settle_looks
        if not site.is_open:
            # Somebody else may be at it.
            return site.promised == site.opened or settled
        if site.asks or not set(site.members) <= set(site.trusted()):
            return True
        return any(self._lacks_graph(host, settled=settled) for host in site.trusted() if host in self._signs)

    def _lacks_graph(self, host: str, *, settled: bool) -> bool:
        """Whether a host needs a new graph. One that is in the present graph may not have opened it yet."""
        sign, site = self._signs[host], self._core
        if host not in site.members or sign.opened > site.opened:
            return True
        if sign.opened == site.opened and sign.promised == site.promised:
            return sign.stopped or sign.asks
        return settled

    def _try(self) -> None:
        size, place = len(self.env.hosts), self.env.hosts.index(self.env.host)
        number = (max(self._core.promised, self._highest) // size + 1) * size + place
        self._attempt = attempt = Attempt(number)
        self._highest = number
        if self._quiet_looks > self._settle_looks:
            self._settle_looks = min(2 * self._settle_looks, LONGEST * self._first_looks)
        self.env.trace("forming", graph=number)
        self.take_report(self.env.host, number, self._core.stop(number))
        self._ask(attempt)

    def _ask(self, attempt: Attempt) -> None:
        # Of a burst that is longer than a queue always the same places are dropped, so each burst begins with another host.
        silent = [host for host in self._core.trusted() if host not in attempt.reports]
        start = attempt.looks % len(silent) if silent else 0
        for host in silent[start:] + silent[:start]:
            self.env.send(host, Stop(EVERYBODY, self.env.host, attempt.graph), Purpose.CONTROL)

    def _go_on(self, attempt: Attempt) -> None:
        if self._core.promised > attempt.graph:
            self._give_up()
        elif attempt.plan is None:
            self._propose(attempt, late=attempt.looks > max(self._limit_looks, self._settle_looks))
        elif attempt.looks > max(self._limit_looks, self._settle_looks):
            self._give_up()

    def _give_up(self) -> None:
        self._attempt, self._quiet_looks = None, 0

    def refused(self, promised: int) -> None:
        """A host takes part in a higher graph already."""
        self._highest = max(self._highest, promised)
        if self._attempt is not None and promised > self._attempt.graph:
            self._give_up()

    def take_report(self, host: str, graph: int, report: Report) -> None:
        """A host has stopped, and says what it has."""
        attempt = self._attempt
        if attempt is not None and attempt.graph == graph and attempt.plan is None:
            attempt.reports[host] = report
            self._propose(attempt, late=False)

    def _propose(self, attempt: Attempt, *, late: bool) -> None:
        """Make a plan if all hosts that are trusted have reported; if it is late, a majority is enough."""
        if not self._is_majority(attempt.reports) or not (late or attempt.reports.keys() >= set(self._core.trusted())):
            return
        in_order = {host: attempt.reports[host] for host in self.env.hosts if host in attempt.reports}
        plan = make_plan(attempt.graph, in_order, self.env.hosts, keeps_for_all=self._keeps_for_all)
        attempt.plan, attempt.looks = plan, 0
        for host, report in in_order.items():
            if host != self.env.host:
                for left, content in pieces(for_host(plan, report)):
                    self._core.hand(host, PlanPiece(EVERYBODY, self.env.host, 0, 0, plan.graph, left, content))
        if self._core.accept(plan):
            self.take_acceptance(self.env.host, plan.graph)

    def take_acceptance(self, host: str, graph: int) -> None:
        """A host has accepted a plan. With a majority the graph is open."""
        attempt = self._attempt
        if attempt is None or attempt.plan is None or attempt.graph != graph or self._core.promised > graph:
            return
        attempt.accepted[host] = None
        if self._is_majority(attempt.accepted):
            self._attempt = None
            self._announce(attempt.plan)

    def _announce(self, plan: Plan) -> None:
        hosts = self.env.hosts
        members, recovering = hosts_in(plan.members, hosts), hosts_in(plan.recovering, hosts)
        for host in hosts:
            if host not in members or host in recovering:
                self.env.trace("excluded", host=host, graph=plan.graph)
        self.env.trace("formed", graph=plan.graph, members=members, settled=len(plan.order))
        if self.env.host != self._ranks[0]:
            self.env.trace("successor", graph=plan.graph)
        for host in members:
            if host != self.env.host:
                self._core.hand(host, Begin(EVERYBODY, self.env.host, 0, 0, plan.graph))
        self._core.begin(plan.graph)


def pieces(record: Report | Plan) -> Iterator[tuple[int, bytes]]:
    """A report or a plan in pieces, each with the number of pieces that follow."""
    content = msgspec.msgpack.encode(record)
    starts = range(0, len(content), PIECE_BYTES)
    for place, start in enumerate(starts, start=1):
        yield len(starts) - place, content[start : start + PIECE_BYTES]


class Pieces:
    """Puts reports and plans together. The pieces of one come in order; a host that restarts in between loses it."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, type], list[bytes]] = {}
        self._graph: dict[tuple[str, type], int] = {}

    def take(self, sender: str, piece: ReportPiece | PlanPiece, kind: type[R]) -> R | None:
        """The whole that a piece completes, if it does."""
        key = sender, type(piece)
        if self._graph.get(key) != piece.graph:
            self._graph[key], self._of[key] = piece.graph, []
        self._of[key].append(piece.content)
        if piece.left:
            return None
        try:
            return msgspec.msgpack.decode(b"".join(self._of.pop(key)), type=kind)
        except msgspec.MsgspecError:
            # The first pieces were lost in a restart, or this is a forgery.
            return None
        finally:
            del self._graph[key]
