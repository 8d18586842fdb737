"""Non-atomic delivery: when hosts fail, the others form a new graph and go on (third paper, Protocol 5 as section 7.3 extends it).

How. Messages enter the graph at a host above all their destinations, and travel down as with atomic delivery. Every host keeps what it
passed on, and every source its messages, until all are known to have them (`journal`). When a host is suspected, or one that was left out
is back, or a host wants to join or leave a group, the manager forms a new graph (`forming`): all stop and report, the manager makes one
order out of the reports (`reconciling`), and when the graph begins all deliver what they lack, in this order. Sources then submit again
what is not in it.

A host that is left out of a graph has failed, whether it was dead, slow or cut off: what it passed on since is not part of the order. It
learns of it from the next sign of life of a host in a newer graph, stops at once, and waits to be let in again. With `recover=new-member`
it starts over at the current message, and what it missed is lost to it. With `recover=rollback` it takes back what it delivered since the
order and its own deliveries parted, and delivers again in the right order, with all that it missed.

A host that sees less than a majority of all hosts stops (the periodic check of section 7.3). Until then an old graph may go on beside a new
one (Figure 7.5): for the time in which the manager suspects the others (`detection_ms`), or, where the manager is on the other side, in
which a host suspects the manager and then the others, which it watches from then on (`watching`).

Model. Datagrams are lost, duplicated and reordered; hosts crash, are paused, restart with their storage or never, and networks divide. The
failure detector errs. A majority of all hosts is needed for any graph; without one, all wait.

Guarantees. No creation, no duplication. Single-source and multiple-group order, operational: hosts disagree only about what one of them
delivered before it failed; a host that starts over counts as a new one. With rollback also at hosts that have recovered. When faults have
ended, all hosts that are connected with a majority have all messages for them (convergence, progress), but those of before to a host that
started over.

Not promised: one global order and no gaps, which bind hosts that died too. Nor are P2, P4, Q1 and Q3. Their conditions are about two hosts,
and the paper proves them where only the root fails, no datagram is lost and failures are far apart ([A2], [A6], [A8]); here two hosts that
are up and reach each other wait for ever if so many others die that there is no majority. For one failure a message takes
`timeout_ms` + 2 `period_ms` until the failure is noticed, five messages in a row for a graph, and then the way down: at most
(5 + n)(phi_P + phi_N) + phi_P more for n hosts. `site_fails_non_atomic` holds P2 and Q1 to that.

Messages. n + e packets (data) for a message to n hosts, as with atomic delivery; 5(n - 1) packets (control) for a graph if reports and
plans are short; at most 2(n - 1) signs of life in a period, while all is well.

Decisions. The paper's hosts watch their parents, and tell the manager; here the manager watches all, and all watch the manager. In Protocol
5 the new root asks for what it lacks, which works for one group; with several groups the manager collects the histories whole, as sections
7.1.1 and 7.3 say, and sends each host what it lacks: directly, as in 7.3, and not down the new tree, as in 7.1.1. Group sequence numbers
are not needed: a host reports messages by name, and what a host has passed on comes before what it lacks. Source sequence numbers are those
of the application, by *flow*: the messages of a source to one group, or to the same listed hosts, enter at one host of a graph, in order. A
group keeps its members when they fail. A message to a group whose members have all failed waits at its source, or with rollback has its
place in the order and is kept for them. Changes of groups are plans like others, so the Close and Open of chapter 5 are not used. The slips
of Protocol 5 ((C) forgets to count L_D, (D) has an undefined y) do not arise.
"""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Final

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Destination, Message, Purpose, host_set, hosts_in
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, Strength
from hostagent.parts.streams import Item
from hostagent.protocols.propagation_graph.forming import Forming, Pieces, pieces
from hostagent.protocols.propagation_graph.graph import NOBODY
from hostagent.protocols.propagation_graph.graphs import MakeTree, log_parent
from hostagent.protocols.propagation_graph.items import (
    Accepted,
    Alive,
    Begin,
    Edges,
    Enter,
    Has,
    Mark,
    Pass,
    PlanPiece,
    Refusal,
    ReportPiece,
    Stop,
    most_together,
)
from hostagent.protocols.propagation_graph.journal import Journal, Settling, numbered
from hostagent.protocols.propagation_graph.parameters import FailureParameters
from hostagent.protocols.propagation_graph.reconciling import Entry, Flow, Groups, Plan, Report, first_plan
from hostagent.protocols.propagation_graph.watching import Watch

# Null message, request and answer fail this often in a row once in a million cases where half of the datagrams are lost.
REPETITIONS: Final = 20


class NonAtomic(Part):
    """One host: its place in the graph, what it passed on, and what it has to send."""

    def __init__(self, env: Environment, parameters: FailureParameters, edges: Edges, tree: MakeTree) -> None:
        super().__init__(env)
        self._edges, self._make_tree = edges, tree
        self._rolls_back = parameters.rolls_back
        self._watch = self.add("watch", lambda own: Watch(own, parameters, self._sign, self._watched, self._on_suspect))
        self._forming = self.add("forming", lambda own: Forming(own, self, parameters))
        self._journal = self.add("journal", lambda own: Journal(own, rolls_back=parameters.rolls_back))
        period_s, keeps_for_all = parameters.period_ms / 1000, parameters.rolls_back
        self._settling = self.add(
            "settling", lambda own: Settling(own, self, self._journal, period_s, keeps_for_all=keeps_for_all)
        )
        self._pieces = Pieces()
        self._plan = first_plan(env.hosts, env.groups)
        """The plan that was accepted last."""
        self.opened, self.promised = 0, 0
        self.members = env.hosts
        """The hosts of the graph that was opened last."""
        self._groups = self._plan.groups
        self._stopped = False
        """Whether this host has left the graph that it opened last, without a promise to take part in another one."""
        self._entrances: dict[Flow, str] = {}
        """Where the messages of each flow enter the graph; nowhere while all their destinations have failed."""
        self._waiting: dict[int, Item] = {}
        """Messages of graphs that are not open here yet, by the order of their arrival."""
        self._arrivals = count(1)
        self._wishes: dict[int, bool] = {}
        self._installed = dict.fromkeys(env.groups, 0)
        self._told = (NOBODY, NOBODY)
        """The root of the tree, and the parent of this host there, as they were logged."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore everything, and take the place in the graph that was opened last."""
        self.opened, self.promised, self._stopped = stored.get("graph", (0, 0, False))
        if "plan" in stored:
            self._plan = msgspec.convert(stored["plan"], Plan)
        if "opened" in stored:
            members, self._groups = msgspec.convert(stored["opened"], tuple[bytes, Groups])
            self.members = hosts_in(members, self.env.hosts)
        self._waiting = {number: self._edges.decoded(item) for number, item in numbered(stored, "waiting")}
        self._wishes = dict(numbered(stored, "wish"))
        self._arrivals = count(max(self._waiting, default=0) + 1)
        self._enter()
        graph, entrances = stored.get("entrances", (0, ()))
        if graph == self.opened:
            self._entrances = {(origin, group, listed): host for (origin, group, listed), host in entrances}
        self._settling.begin(self._journal.settled)

    # What the application wants

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Keep a message until it is part of the order, and let it enter the graph."""
        entry = Entry(to.group, self.env.host, sequence, host_set(to.hosts, self.env.hosts), payload)
        self._journal.keep_own(entry)
        self._settling.wake()
        if self.is_open:
            self._submit(entry)

    def on_wish(self, group: int, *, joins: bool) -> None:
        """Ask for a graph in which this host is a member of a group, or is not."""
        self._wishes[group] = joins
        self.env.store(f"wish/{group}", joins)
        self._call_manager()

    # Signs of life, and who has failed

    @property
    def is_open(self) -> bool:
        """Whether messages are passed on here."""
        return self.promised == self.opened and not self._stopped

    @property
    def asks(self) -> bool:
        """Whether this host waits for a new graph."""
        return bool(self._wishes)

    def trusted(self) -> list[str]:
        """The hosts that are not suspected, this one included."""
        return [host for host in self.env.hosts if host not in self._watch.suspected]

    def _watched(self) -> tuple[str, ...]:
        """The hosts to watch: the manager while all is well, else all others."""
        is_well = self._forming.is_well and self._watch.suspected.keys().isdisjoint(self.members)
        return (self._forming.manager,) if is_well else self.env.peers

    def _sign(self, question: bool) -> Alive:
        return Alive(EVERYBODY, self.env.host, 0, self.opened, self.promised, self._stopped, self.asks, question)

    def _call_manager(self) -> None:
        """Tell the manager at once what it would learn from the next sign of life."""
        if self._forming.manager == self.env.host:
            self._forming.look()
        else:
            self.env.send(self._forming.manager, self._sign(question=True), Purpose.CONTROL)

    def _on_suspect(self, _host: str) -> None:
        if not self._forming.has_majority:
            self._leave_graph("alone", self.opened)
        self._forming.look()

    def _leave_graph(self, why: str, graph: int) -> None:
        """Pass nothing on any more in the graph that is open."""
        if self.is_open:
            self._stopped = True
            self._store_graph()
            self.env.trace(why, graph=graph)
            self._tell_graph()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A sign of life, a call of a manager or an item; each is a sign of life."""
        self._watch.heard(sender, message if isinstance(message, Alive) else None)
        match message:
            case Alive(opened=graph):
                if graph > self.promised:
                    self._leave_graph("left-out", graph)
                self._forming.heard(sender, message)
            case Stop(origin=manager, sequence=graph) if manager == sender:
                self._on_stop(sender, graph)
            case Refusal(sequence=promised):
                self._forming.refused(promised)
            case Mark() | Has():
                self._settling.on_message(sender, message, expensive)
            case _:
                self._edges.on_message(sender, message, expensive)

    # Forming a graph

    def _on_stop(self, manager: str, graph: int) -> None:
        if graph > self.promised:
            for left, content in pieces(self.stop(graph)):
                self.hand(manager, ReportPiece(EVERYBODY, self.env.host, 0, 0, graph, left, content))
        elif graph < self.promised:
            self.env.send(manager, Refusal(EVERYBODY, self.env.host, self.promised), Purpose.CONTROL)

    def stop(self, graph: int) -> Report:
        """Promise to take part in no graph below this one, and report."""
        assert graph > self.promised, graph
        self.promised = graph
        self._store_graph()
        self._tell_graph()
        plan, accepted = self._plan, self._plan.graph > self.opened
        entries = plan.order if accepted else self._journal.entries
        groups = plan.groups if accepted else self._groups
        known = {group: host_set(members, self.env.hosts) for group, members in self.env.groups.items() if group}
        return Report(
            accepted=plan.graph,
            members=plan.members,
            groups=Groups(known | groups.members, dict.fromkeys(known, 0) | groups.since),
            passed=plan.passed if accepted else list(self._journal.passed.items()),
            entries=entries,
            lacking=[place for place, entry in enumerate(entries) if self._journal.is_due(entry)],
            wishes=self._wishes,
            recovering=plan.recovering,
        )

    def accept(self, plan: Plan) -> bool:
        """Store a plan with the payloads that this host has, unless a higher graph was promised."""
        has = {entry.message: entry.payload for entry in (*self._journal.entries, *self._plan.order)}
        order = [
            entry if entry.payload is not None else msgspec.structs.replace(entry, payload=has.get(entry.message))
            for entry in plan.order
        ]
        if plan.graph != self.promised or any(entry.payload is None for entry in order):
            return False
        self._plan = msgspec.structs.replace(plan, order=order)
        self.env.store("plan", self._plan)
        self.env.trace("accepted", graph=plan.graph)
        return True

    def begin(self, graph: int) -> None:
        """Open a graph whose plan a majority has accepted: deliver what is missing, and go on."""
        plan = self._plan
        if graph != plan.graph or graph != self.promised or graph == self.opened:
            return
        recovers = self.env.host in hosts_in(plan.recovering, self.env.hosts)
        if recovers:
            self.env.trace("failed", graph=graph)
        self._journal.follow(plan, starts_over=recovers and not self._rolls_back)
        self.opened, self._stopped = graph, False
        self.members, self._groups = hosts_in(plan.members, self.env.hosts), plan.groups
        self._drop_wishes(plan.groups)
        others = [host for host in hosts_in(plan.recovering, self.env.hosts) if host != self.env.host]
        self._plan = msgspec.structs.replace(plan, order=[], passed=[], recovering=host_set(others, self.env.hosts))
        self.env.store("plan", self._plan)
        self.env.store("opened", (plan.members, plan.groups))
        self._store_graph()
        self._enter()
        if recovers:
            self.env.trace("recovered")
        self._forming.opened()
        self._settling.begin(entry.flow for entry in plan.order)
        self._submit_again()
        self._look_again()

    def _drop_wishes(self, groups: Groups) -> None:
        """Forget the wishes that came true, and the wish of a last member to leave, which never does."""
        for group, joins in list(self._wishes.items()):
            members = hosts_in(groups.members.get(group, b""), self.env.hosts)
            if (self.env.host in members) == joins or members == (self.env.host,):
                del self._wishes[group]
                self.env.store(f"wish/{group}", None)

    def _enter(self) -> None:
        """Take the place in the graph that is open, and install the groups that have changed."""
        for group, members in self._groups.members.items():
            since = self._groups.since[group]
            if since != self._installed.get(group, 0):
                self._installed[group] = since
                self.env.install(group, hosts_in(members, self.env.hosts), since)
        groups = {group: hosts_in(members, self.env.hosts) for group, members in self._groups.members.items()}
        self._tree = self._make_tree(groups, self.members)
        self._below = self._tree.below(self.env.host) if self.env.host in self.members else {}
        self._entrances.clear()
        self._told = log_parent(self.env, self._tree, self._told)
        self._tell_graph()

    def _tell_graph(self) -> None:
        primaries = {group: self._entrance(members) for group, members in self.env.groups.items() if group != EVERYBODY}
        primary_of = [group for group, primary in primaries.items() if primary == self.env.host]
        self.env.trace("graph", number=self.opened, closed=not self.is_open, primary_of=primary_of)

    # Passing messages on

    def _submit_again(self) -> None:
        """Let what is not part of the order enter the graph. A flow enters at one place, whomever its messages are for."""
        unsent: dict[Flow, set[str]] = {}
        lost = [entry for entry in self._journal.own.values() if not self._journal.is_passed(entry)]
        for entry in lost:
            unsent.setdefault(entry.flow, set(self.env.groups.get(entry.group, ()))).update(self._hosts(entry))
        for flow, hosts in unsent.items():
            self._entrances[flow] = self._entrance(hosts)
        if lost:
            # After a restart, later messages must not overtake these by another way.
            self.env.store("entrances", (self.opened, list(self._entrances.items())))
        for entry in lost:
            self._submit(entry)

    def _submit(self, entry: Entry) -> None:
        entrance = self._entrances.get(entry.flow)
        if entrance is None:
            entrance = self._entrances[entry.flow] = self._entrance(self._hosts(entry))
        item = Enter(entry.group, entry.origin, entry.sequence, 0, self.opened, entry.to, entry.payload or b"")
        if entrance == self.env.host:
            self.on_item(entrance, item)
        elif entrance:
            self.hand(entrance, item)

    def _entrance(self, hosts: Iterable[str]) -> str:
        """The lowest host of the graph that is above all of these that are in it.

        If none is, the message is kept for them where hosts recover what they missed; else it waits at its source.
        """
        inside = tuple(host for host in self.members if host in set(hosts))
        if inside:
            return self._tree.common_ancestor(inside)
        return self._tree.roots[0] if self._rolls_back else NOBODY

    def hand(self, to: str, item: Item) -> None:
        """Send an item to another host."""
        self._edges.hand(to, item)

    def on_item(self, sender: str, item: Item) -> None:
        """An item of a stream has come."""
        match item:
            case Enter(graph=graph) | Pass(graph=graph):
                if graph == self.opened and self.is_open:
                    self._pass_on(Entry(item.group, item.origin, item.sequence, item.to, item.payload, graph))
                elif graph > self.opened:
                    self._keep(item)
            case ReportPiece(graph=graph):
                if report := self._pieces.take(sender, item, Report):
                    self._forming.take_report(sender, graph, report)
            case PlanPiece():
                plan = self._pieces.take(sender, item, Plan)
                if plan is not None and self.accept(plan):
                    self.hand(sender, Accepted(EVERYBODY, self.env.host, 0, 0, plan.graph))
            case Accepted(graph=graph):
                self._forming.take_acceptance(sender, graph)
            case Begin(graph=graph):
                self.begin(graph)

    def _pass_on(self, entry: Entry) -> None:
        """Send a message down every subtree that has a destination, and deliver it if this host is one."""
        hosts = self._hosts(entry)
        item = Pass(entry.group, entry.origin, entry.sequence, 0, self.opened, entry.to, entry.payload or b"")
        children = [child for child, below in self._below.items() if not below.isdisjoint(hosts)]
        self._edges.send_to_all(children, item, most_together(item))
        self._journal.pass_on(entry)

    def _keep(self, item: Item) -> None:
        number = next(self._arrivals)
        self._waiting[number] = item
        self.env.store(f"waiting/{number}", self._edges.encoded(item))

    def _look_again(self) -> None:
        """Handle what waited for the graph that is open now, and forget what was for one that never opened here."""
        waiting, self._waiting = self._waiting, {}
        for number, item in waiting.items():
            self.env.store(f"waiting/{number}", None)
            self.on_item(self.env.host, item)

    def _hosts(self, entry: Entry) -> tuple[str, ...]:
        return hosts_in(entry.to, self.env.hosts)

    def _store_graph(self) -> None:
        self.env.store("graph", (self.opened, self.promised, self._stopped))


def promise(parameters: FailureParameters, hosts: int) -> Promise:
    """One order for all groups at the hosts of a majority that stay in the graph, and at those that recover.

    Nothing is due before all have settled after the last fault: wrong suspicions end, it is certain that the manager is gone and then who
    else is, a graph is formed a few times over, and what was lost is repeated. Then the last message passes the longest path.
    """
    strength = Strength.ROLLBACK if parameters.rolls_back else Strength.OPERATIONAL
    guarantees = (
        *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS, Guarantee.QUIESCENCE),
        *((Guarantee.ROLLBACK_DISCIPLINE,) if parameters.rolls_back else ()),
    )
    settled_ms = 4 * (parameters.detection_ms + parameters.longest_timeout_ms)
    # Where there is no graph, each host asks or answers every other one once in a period.
    signs_per_second = (hosts - 1) * 1000 / parameters.period_ms
    null_messages_per_second = (hosts - 1) * 1000 / parameters.silence_ms
    return Promise(
        guarantees=guarantees,
        orders=tuple(Order(scope, strength) for scope in (Scope.SINGLE_SOURCE, Scope.MULTIPLE_GROUP)),
        patience_ms=settled_ms + (REPETITIONS + hosts) * parameters.bound_ms,
        quorum=hosts // 2 + 1,
        starts_over=not parameters.rolls_back,
        background_per_second=signs_per_second + null_messages_per_second,
        retained=20 * hosts + 100,
    )
