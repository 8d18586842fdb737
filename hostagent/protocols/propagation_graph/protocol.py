"""The propagation graph: messages to groups travel down a forest of hosts, so that all hosts deliver them in one order.

Source: the third paper (Spauster), section 3.4 (message passing), chapter 5 (dynamic groups), and chapter 7, Protocol 4 (atomic delivery),
for several sources and overlapping groups. `generator` builds the forest; every host computes the same one from the groups and,
for the methods that look at the network, from the distances between hosts that it was given before the start as advice.

How. A source sends a message to the *primary destination* of its group, the lowest host of the forest that is above all members. A host
that gets a message sends it on to those children that are or lead to members, and delivers it if it is a member itself. Every edge, also
that from a source to a primary destination, is a stream that keeps its order (`hostagent.parts.streams`).

Changes of groups. A host that joins or leaves asks the manager, which numbers the graphs. It sends *Close* down the old graph and *Open*,
with the new members, down the new one. A host that has closed a graph passes nothing on, and keeps what sources send to it until the next
graph is open there. It then returns to a source what it is not the primary destination of any more, and names the one that is; the source
sends to that one only when all that it had sent before has come back, so its messages stay in order. An Open, or a message of a graph that
is not open yet, waits. So several changes may be under way at once. A message to the former members may still be on its way down when one
to the new members reaches their primary destination further down: that one waits until the other has passed.

Model. Datagrams are lost, duplicated and reordered; hosts crash and restart with their storage. With `failures=atomic` a host that is down
blocks the hosts that get messages through it until it is back, and nobody else: a leaf stops nobody. With `failures=non-atomic` the others
form a new graph and go on; all about that is in `nonatomic`, and what follows here is about atomic delivery.

Guarantees. No creation, no duplication, multiple-group order, strictly: no two hosts ever deliver two messages in different orders, failed
ones included. When everybody is back, everybody has what it should (convergence).

Bounds. P4 and Q3 with Delta = rho = delta + 4 phi_P + 3 phi_N, while groups do not change. A null message leaves within delta + phi_P of
the instant from which the two hosts can reach each other, arrives within phi_N and is answered by a request within phi_P; the request takes
phi_N, its answer phi_P + phi_N, and the delivery phi_P. The paper has one phi_P less, though its proof has these steps. If an item shows
the gap instead, and a request of before was lost, the host repeats that after 2 phi_P + 2 phi_N at most, which is within the same bound as
long as delta is not below phi_P. A host asks for 64 items at once, so who lacks more needs as many round trips longer. P2 and Q1 cannot be
promised, as the paper says: whoever is up may wait for a parent that is not.

Messages. n packets (data) per message to n hosts, e more for the extra hosts on the way, and one less where the source is the primary
destination. Where the network multicasts, a host sends one packet for all its children, to the group or, if a child is not in it, to
everybody; the others that hear it ignore it. The paper's d + 1 (Table 4.2) counts one such host for each level, so that is the least. After
a silence of delta a null message and an answer (control) on each edge that was used.

Decisions. The paper's forest has a tree for each set of groups that overlap. As a message may be for everybody or for any hosts that are
listed for it, the other roots and the hosts in no group are made children of the first root, which changes no group's paths. A message is
for the members that its group had for the source when it was multicast, as the source has logged; where it is passed on in a later graph,
it still goes to them, so a view is not agreed on as in virtual synchrony. The manager ignores the leave of a last member. A returned
message comes back whole, so that sources keep no history. One number for all children, as in Protocol 4, works for one group only: here
every pair of hosts has numbers of its own. With `independent=true` (section 3.5) only the first graph has edges that bypass hosts: later
ones carry messages to former members, to everybody or to listed hosts, for which no such edges were planned. Two hosts never disagree about
two messages then, but there may be no one global order: in Figure 3.4 b may put alpha-2 before alpha-1, d alpha-1 before alpha-3, and f
alpha-3 before alpha-2. The slips of Protocol 4 (it numbers from 0 where the root waits for 1; `y < m` means `y < p`) do not arise.
"""

from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Any

import msgspec

from hostagent.contract.advice import Surroundings
from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, LISTED, Destination, Message, Purpose, host_set, hosts_in
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, Strength, Timing
from hostagent.parts.streams import Item
from hostagent.protocols.propagation_graph import nonatomic
from hostagent.protocols.propagation_graph.distances import distances_text, read_distances
from hostagent.protocols.propagation_graph.generator import BLIND, alike
from hostagent.protocols.propagation_graph.graph import NOBODY
from hostagent.protocols.propagation_graph.graphs import Graphs, Place, log_parent, tree
from hostagent.protocols.propagation_graph.items import (
    NONE,
    Alive,
    Carrying,
    Change,
    Close,
    Edges,
    Has,
    Mark,
    Open,
    Passed,
    Refusal,
    Relay,
    Returned,
    Stop,
    Submission,
    most_together,
)
from hostagent.protocols.propagation_graph.journal import numbered
from hostagent.protocols.propagation_graph.nonatomic import REPETITIONS, NonAtomic
from hostagent.protocols.propagation_graph.parameters import PropagationGraphParameters

Flow = int | bytes
"""What a source keeps in order: its messages to a group, or to the same listed hosts."""


class Route(msgspec.Struct):
    """Where a source sends the messages of a flow."""

    primary: str
    told: int
    """The graph in which the source learnt which host is the primary destination."""
    turn: int = 0
    """How often the source has turned to another host."""
    after: Passed = NONE
    """The last message that the host before passed on."""
    last: int = 0
    """The sequence of the last message that was sent there."""
    returned: list[tuple[Any, ...]] | None = None
    """While messages come back: those that have, and those that were multicast meanwhile, in the order of their sequence."""


class PropagationGraph(Core):
    """Pass messages down the forest, and deliver them in the order in which they come."""

    name = "propagation-graph"
    number = 8
    summary = "messages travel down a forest of hosts: one order for all groups, n + e packets"
    assumes = "hosts that crash come back with their storage, or, with failures=non-atomic, a majority stays"
    beyond = frozenset({"restart-lost", "crash-for-good", "cut-off-for-good", "depart"})
    knows_groups = True
    knows_membership = True
    messages = (*Edges.messages, Alive, Stop, Refusal, Mark, Has)
    waits = ("timeout_ms", "longest_timeout_ms")
    Parameters = PropagationGraphParameters
    parameters: PropagationGraphParameters

    def __init__(self, env: Environment, parameters: PropagationGraphParameters) -> None:
        super().__init__(env, parameters)
        self._edges = self.add("edges", lambda own: Edges(own, parameters, self._on_item))
        distance = read_distances(parameters.advice, env.hosts) if parameters.advice else alike
        make_tree = partial(tree, method=parameters.graph, distance=distance, children=parameters.children)
        graphs = partial(Graphs, env.groups, env.hosts, make_tree, partial(make_tree, independent=parameters.independent))
        self.survivor: NonAtomic | None = None
        """This host with `failures=non-atomic`: then nothing else here is used but the edges."""
        if parameters.failures == "non-atomic":
            self.survivor = self.add("survivor", lambda own: NonAtomic(own, parameters, self._edges, make_tree))
        self._graphs = graphs()
        self._graph = 0
        """The graph that is open here, or was the last."""
        self._closed = False
        self._closed_by: set[str] = set()
        """The hosts that have sent a Close of the graph that is open here."""
        self._waiting: dict[int, Item] = {}
        """Submissions that came after a Close, and items of graphs that are not open yet, by the order of their arrival."""
        self._arrivals = count(1)
        self._routes: dict[Flow, Route] = {}
        self._sent_back: dict[tuple[str, Flow], int] = {}
        """By source and flow: the last turn in which a submission was returned."""
        self._passed: dict[tuple[str, int], Passed] = {}
        """By source and group: the last message that was passed on here."""
        self._told = (NOBODY, NOBODY)
        """The root of the tree, and the parent of this host there, as they were logged."""
        self._issued = graphs()
        """The graphs that this host has issued as the manager."""

    @classmethod
    def promise(cls, parameters: PropagationGraphParameters, hosts: int) -> Promise:
        """One strict order for all groups. A message passes every host of the longest path, each within the bound of a stream.

        What is kept grows with the number of groups and of their changes, so bounded memory is not promised.
        """
        if parameters.failures == "non-atomic":
            return nonatomic.promise(parameters, hosts)
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.QUIESCENCE, Guarantee.NO_GAPS),
            *(() if parameters.independent else (Guarantee.ACYCLIC_ORDER,)),
        )
        return Promise(
            guarantees=guarantees,
            orders=tuple(Order(scope, Strength.STRICT) for scope in (Scope.SINGLE_SOURCE, Scope.MULTIPLE_GROUP)),
            time_bounds=(parameters.edge_bound(Timing.P4), parameters.edge_bound(Timing.Q3)),
            patience_ms=REPETITIONS * parameters.bound_ms + hosts * parameters.bound_ms,
            retained=20 * hosts + 100,
        )

    @classmethod
    def check(cls, parameters: PropagationGraphParameters, hosts: tuple[str, ...]) -> None:
        """Refuse a manager that is no host, and distances that are not those between these hosts."""
        if parameters.manager and parameters.manager not in hosts:
            raise ValueError(f"manager={parameters.manager}: there is no such host")
        if parameters.advice:
            read_distances(parameters.advice, hosts)
        parameters.check()

    @classmethod
    def beyond_with(cls, parameters: PropagationGraphParameters) -> frozenset[str]:
        """With non-atomic failures hosts may die, be cut off and leave, but not lose their storage."""
        return cls.beyond if parameters.failures == "atomic" else frozenset({"restart-lost"})

    @classmethod
    def most_lost(cls, parameters: PropagationGraphParameters, hosts: int) -> int:
        """With non-atomic failures, a minority."""
        return hosts if parameters.failures == "atomic" else (hosts - 1) // 2

    @classmethod
    def advise(cls, parameters: PropagationGraphParameters, surroundings: Surroundings) -> str:
        """The distances between hosts, if the forest follows from them."""
        return "" if parameters.graph in BLIND else distances_text(surroundings.hosts, surroundings.distance)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the graphs, and everything that waits for one or is on its way to a new primary destination."""
        if self.survivor is not None:
            return
        for _, (group, members) in numbered(stored, "opened"):
            self._install(group, hosts_in(members, self.env.hosts))
        for _, (group, members) in numbered(stored, "issued"):
            self._issued.add(group, hosts_in(members, self.env.hosts))
        self._waiting = {number: self._edges.decoded(item) for number, item in numbered(stored, "waiting")}
        self._arrivals = count(max(self._waiting, default=0) + 1)
        self._closed = stored.get("closed", False)
        self._closed_by = set(stored.get("closed by", ()))
        for key, value in stored.items():
            match key.split("/"):
                case ["passed", group, source]:
                    self._passed[source, int(group)] = tuple(value)
                case ["route", _]:
                    flow, *route = value
                    self._routes[flow] = Route(*route)
        self._sent_back = {(source, flow): turn for source, flow, turn in stored.get("sent back", ())}
        self._enter()

    @property
    def unfinished(self) -> int:
        """What hosts further down have still to say that they have."""
        return self._edges.unfinished

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Submit a message, or keep it while earlier ones are on their way back from a former primary destination."""
        if self.survivor is not None:
            self.survivor.on_multicast(to, sequence, payload)
            return
        listed = host_set(to.hosts, self.env.hosts) if to.group == LISTED else b""
        submission = Submission(to.group, self.env.host, sequence, 0, 0, 0, self._graph, payload, listed)
        flow = _flow(submission)
        if flow not in self._routes:
            self._routes[flow] = self._first_route(to)
        self._submit(self._routes[flow], submission)
        self._store_route(flow)

    def _first_route(self, to: Destination) -> Route:
        """Where the messages of a new flow go: to their primary destination.

        While messages to groups bypass hosts, others would be out of order. So they wait here for another graph, which is asked for.
        """
        if self._place.tree.bypasses and to.group in {EVERYBODY, LISTED}:
            route = Route(self.env.host, self._graph + 1)
            self._wish(EVERYBODY, joins=True)
            return route
        return Route(self._place.primary(to.group, to.hosts), self._graph)

    def on_join(self, group: int) -> None:
        """Ask the manager."""
        self._wish(group, joins=True)

    def on_leave(self, group: int) -> None:
        """Ask the manager."""
        self._wish(group, joins=False)

    def _wish(self, group: int, *, joins: bool) -> None:
        if self.survivor is not None:
            self.survivor.on_wish(group, joins=joins)
        else:
            self._send(self._manager, Change(group, self.env.host, 0, 0, joins=joins))

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """An item of a stream, or a message that is of use only to a host that survives the failures of others."""
        if self.survivor is not None:
            self.survivor.on_message(sender, message, expensive)
        elif not isinstance(message, Alive | Stop | Refusal | Mark | Has):
            self._edges.on_message(sender, message, expensive)

    @property
    def _manager(self) -> str:
        return self.parameters.manager or self.env.hosts[0]

    def _send(self, to: str, item: Item) -> None:
        """Send an item to a host, which may be this one."""
        if to == self.env.host:
            self._on_item(to, item)
        else:
            self._edges.hand(to, item)

    def _on_item(self, sender: str, item: Item) -> None:
        """Handle an item, or keep it until its graph is open."""
        if self.survivor is not None:
            self.survivor.on_item(sender, item)
            return
        if self._must_wait(item):
            self._keep(item)
            return
        match item:
            case Submission():
                self._take(item)
            case Relay():
                self._pass_on(item)
            case Returned():
                self._take_back(item)
            case Change():
                self._change(item)
            case Close():
                self._close(item)
            case Open():
                self._open(item)

    def _must_wait(self, item: Item) -> bool:
        match item:
            case Submission(told=told, view=view):
                return self._closed or max(told, view) > self._graph or self._is_early(item)
            case Relay(graph=graph) | Close(graph=graph):
                return graph > self._graph
            case Open(graph=graph):
                return graph > self._graph + 1 or not self._closed
        return False

    def _keep(self, item: Item) -> None:
        number = next(self._arrivals)
        self._waiting[number] = item
        self.env.store(f"waiting/{number}", self._edges.encoded(item))

    def _take(self, item: Submission) -> None:
        """Pass a message on as its primary destination, or return it to its source.

        Once one message of a flow was returned, those that the source sent before it knew are returned too, whoever they are for.
        """
        flow, hosts = _flow(item), self._hosts(item)
        primary = self._place.primary(item.group, hosts) if hosts else self.env.host
        if primary == self.env.host and item.turn > self._sent_back.get((item.origin, flow), -1):
            self._pass_on(Relay(item.group, item.origin, item.sequence, 0, self._graph, item.view, item.payload, item.listed))
            return
        self._sent_back[item.origin, flow] = item.turn
        self.env.store("sent back", [(source, flow, turn) for (source, flow), turn in self._sent_back.items()])
        message, passed = (item.group, item.origin, item.sequence), self._passed.get((item.origin, item.group), item.after)
        self._send(item.origin, Returned(*message, 0, self._graph, primary, item.view, passed, item.payload, item.listed))

    def _is_early(self, item: Submission) -> bool:
        """Whether an earlier message of the source to the group is on its way down this graph to this host, and has not come yet."""
        sequence, graph, view = item.after
        hosts = self._graphs.members(item.group, view)
        if not sequence or graph != self._graph or item.group == LISTED:
            return False
        place = self._place
        below = frozenset((self.env.host,)).union(*place.below.values())
        primary = place.primary(item.group, hosts)
        passes = primary in place.tree.ancestors(self.env.host)[1:] and not below.isdisjoint(hosts)
        last, in_graph, _ = self._passed.get((item.origin, item.group), NONE)
        return passes and (in_graph != graph or last < sequence)

    def _pass_on(self, item: Relay) -> None:
        """Send a message down every subtree that has a destination, and deliver it if this host is one."""
        hosts = self._hosts(item)
        if receivers := self._place.next_hosts(item.group, hosts):
            self._edges.send_to_all(receivers, item, most_together(item))
        if self.env.host in hosts:
            self.env.deliver(item.origin, item.sequence, item.payload)
        passed = self._passed[item.origin, item.group] = item.sequence, item.graph, item.view
        self.env.store(f"passed/{item.group}/{item.origin}", passed)
        self._look_again()

    def _take_back(self, item: Returned) -> None:
        """A message has come back. When all that were sent to the former primary destination have, send them to the new one."""
        flow = _flow(item)
        if flow not in self._routes:
            # Sent before this host lost its storage.
            return
        route = self._routes[flow]
        if route.returned is None:
            # The first message that comes back decides where to turn; later ones may be for other hosts, and then come back again.
            route.returned, route.primary, route.told, route.after = [], item.primary, item.graph, item.after
        again = Submission(item.group, item.origin, item.sequence, 0, 0, 0, item.view, item.payload, item.listed)
        # Later messages that were multicast meanwhile stay behind it.
        place = sum(self._edges.decoded(each).sequence < item.sequence for each in route.returned)
        route.returned.insert(place, self._edges.encoded(again))
        if item.sequence == route.last:
            held, route.returned = route.returned, None
            route.turn += 1
            for each in held:
                self._submit(route, self._edges.decoded(each))
        self._store_route(flow)

    def _submit(self, route: Route, submission: Submission) -> None:
        """Send a message to the primary destination, unless earlier ones are on their way back."""
        if route.returned is not None:
            route.returned.append(self._edges.encoded(submission))
            return
        route.last = submission.sequence
        self._send(route.primary, msgspec.structs.replace(submission, told=route.told, turn=route.turn, after=route.after))

    def _change(self, item: Change) -> None:
        """The manager issues the next graph."""
        group, host, last = item.group, item.origin, self._issued.last
        before = self._issued.members(group, last)
        members = tuple(other for other in self.env.hosts if (item.joins if other == host else other in before))
        # A change of everybody asks for a graph without bypasses, which is any but the first.
        if not members or (last if group == EVERYBODY else members == before):
            return
        old, number = self._issued.tree(last), self._issued.add(group, members)
        self.env.store(f"issued/{number}", (group, host_set(members, self.env.hosts)))
        self.env.trace("formed", graph=number, members=self.env.hosts)
        self._send(old.roots[0], Close(EVERYBODY, self.env.host, 0, 0, last))
        opening = Open(group, self.env.host, 0, 0, number, host_set(members, self.env.hosts))
        self._send(self._issued.tree(number).roots[0], opening)

    def _close(self, item: Close) -> None:
        """Close the graph when no host sends anything more in it."""
        self._closed_by.add(item.origin)
        self.env.store("closed by", sorted(self._closed_by))
        if not self._place.senders <= self._closed_by:
            return
        for receiver in self._place.receivers:
            self._edges.send(receiver, Close(EVERYBODY, self.env.host, 0, 0, item.graph), Purpose.CONTROL)
        self._closed = True
        self.env.store("closed", True)
        self._tell_graph()
        self._look_again()

    def _open(self, item: Open) -> None:
        self.env.store(f"opened/{item.graph}", (item.group, item.members))
        self.env.store("closed", False)
        self.env.store("closed by", None)
        self._closed = False
        self._closed_by.clear()
        self._install(item.group, hosts_in(item.members, self.env.hosts))
        self._enter()
        for child in self._place.below:
            self._edges.send(child, item, Purpose.CONTROL)
        self._look_again()

    def _install(self, group: int, members: tuple[str, ...]) -> None:
        self._graph = self._graphs.add(group, members)
        self.env.install(group, members, self._graph)

    def _enter(self) -> None:
        """Compute the tree of the graph that is open, and this host's place in it."""
        self._place = Place(self._graphs.tree(self._graph), self.env.host)
        self._told = log_parent(self.env, self._place.tree, self._told)
        self._tell_graph()

    def _tell_graph(self) -> None:
        members = {group: self._graphs.members(group, self._graph) for group in self.env.groups if group != EVERYBODY}
        primary_of = [group for group, hosts in members.items() if hosts and self._place.primary(group, hosts) == self.env.host]
        self.env.trace("graph", number=self._graph, closed=self._closed, primary_of=primary_of)

    def _look_again(self) -> None:
        """Handle what has waited and need not wait any more, in the order of arrival; each item may close or open a graph."""
        while ready := next((number for number, item in self._waiting.items() if not self._must_wait(item)), None):
            self.env.store(f"waiting/{ready}", None)
            self._on_item(self.env.host, self._waiting.pop(ready))

    def _hosts(self, item: Submission | Relay) -> tuple[str, ...]:
        """The hosts that a message is for."""
        return hosts_in(item.listed, self.env.hosts) if item.group == LISTED else self._graphs.members(item.group, item.view)

    def _store_route(self, flow: Flow) -> None:
        key = flow if isinstance(flow, int) else flow.hex()
        self.env.store(f"route/{key}", (flow, *msgspec.structs.astuple(self._routes[flow])))


def _flow(item: Carrying) -> Flow:
    return item.listed if item.group == LISTED else item.group
