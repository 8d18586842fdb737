"""What faults explain: where and when a packet may have vanished because of a fault, and nowhere else.

A fault touches what it can touch, for as long as it can:

* A link that goes down takes along what waits for it, what is on it, and what is sent to it until the routes have changed. While there is
  no controller, routes do not change, and everything that is sent to the link is lost.
* Where routes change, packets to the destinations concerned may be lost at the switches whose next hop changes, and at the next hops: two
  switches change one after the other, and Open vSwitch does not send a packet back to where it came from.
* Where no route is left to a destination, packets for it are dropped.
* A switch that is stopped loses everything that reaches it, until it has its flows again.
* A switch that connects to the controller, at a start of either or because a connection broke, has no flows for a moment.
* A link that begins or ends to duplicate packets loses what waits for it (`testbed.network.shaping`).

* Each group has a tree, and copies of its packets are lost where the way along the tree to their member changes, as packets to a host are.
* While the tree of a group begins or ends to lead to a host, a copy for that host may be there or not.

Nothing else explains a loss. In particular, a host that crashes or stands still loses nothing on the way to it, and a link that is shaped
anew counts what it drops. When routes have changed is told by the controller's log.

An excuse is *certain* where a packet can only vanish; there nothing can be lost unnoticed. Elsewhere packets mostly arrive, and one that
vanishes without a cause would not be noticed: such packets are not checked, and the books say how many there are.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from runfiles.controller_log import ControllerEvent
from runfiles.format import TREE, FaultRecord
from topologies.network import DEFAULT_QUEUE, Link, Network
from topologies.paths import group_tree, next_hops

# How long routes take to change where no log of the controller tells.
REROUTING_NS: Final = 1_000_000_000
# Open vSwitch forwards from a cache, and brings the cache up to date some time after it has said that flows are in place. On a machine with
# ten times more to do than it had cores for, packets vanished up to 450 ms after that.
SLACK_NS: Final = 500_000_000
FOR_EVER: Final = 2**63 - 1
_FRAME_BITS: Final = 1514 * 8
_ALL_PORTS: Final = 0
_CHANGING: Final = frozenset(
    {"link-down", "link-up", "heal", "switch-stop", "switch-start", "controller-stop", "controller-start", TREE}
)

Goal = str | tuple[int, str]
"""Where a packet goes: the switch of its host; for a copy of a packet to a group, the number of the group and the switch of the member."""
Trees = Mapping[Goal, Mapping[str, str]]
"""For every goal: the next hop towards it from each switch that can reach it."""
Groups = Mapping[int, tuple[str, ...]]
"""The members of every group by its number; none where the network does not multicast."""


class Excuse(NamedTuple):
    """A packet that was last seen between two moments at one of these places may have vanished because of a fault."""

    start_ns: int
    end_ns: int
    certain: bool = False
    """Whether a packet can only vanish there."""
    nodes: frozenset[str] = frozenset()
    """At one of these switches, wherever it was going."""
    places: frozenset[tuple[str, Goal]] = frozenset()
    """At the switch, on its way to the goal."""
    over: frozenset[tuple[str, str]] = frozenset()
    """At the second node, having come from the first."""


class Routing(NamedTuple):
    """From `since_ns` on, packets to groups are for these members and go along these trees."""

    since_ns: int
    members: Groups
    trees: Trees


def group_routings(
    network: Network, faults: Iterable[FaultRecord], log: Sequence[ControllerEvent], groups: Groups
) -> tuple[Routing, ...]:
    """How packets to groups were routed, from fault to fault. While routes change, excuses cover both the old and the new ones."""
    if not groups:
        return ()
    faults = sorted(faults, key=lambda fault: fault.asked_ns)
    story = _Story(network, faults, log, groups)
    found = [Routing(-FOR_EVER, groups, story.trees)]
    for fault in faults:
        if fault.fault in _CHANGING:
            before, changed = story.groups, story.follow(fault)
            since_ns = story.done_ns(fault, changed) if log else fault.applied_ns
            if fault.fault == TREE:
                both = _in_both(before, story.groups)
                start_ns, since_ns = fault.asked_ns - SLACK_NS, fault.applied_ns + SLACK_NS
                found.append(Routing(max(start_ns, found[-1].since_ns), both, story.trees_to(both)))
            if story.trees is not found[-1].trees:
                found.append(Routing(max(since_ns, found[-1].since_ns), story.groups, story.trees))
    return tuple(found)


def _in_both(one: Groups, other: Groups) -> Groups:
    """The groups with the members that they have in both."""
    return {group: tuple(host for host in members if host in one.get(group, ())) for group, members in other.items()}


def excuses(
    network: Network, faults: Iterable[FaultRecord], log: Sequence[ControllerEvent] = (), groups: Groups = MappingProxyType({})
) -> tuple[Excuse, ...]:
    """Everything that the faults of a run, and the connections between switches and controller, explain."""
    faults = sorted(faults, key=lambda fault: fault.asked_ns)
    network_faults = [fault for fault in faults if fault.fault in _CHANGING]
    story = _Story(network, faults, log, groups)
    found = [*_connections(log), *_duplicating(network, story, faults)]
    for number, fault in enumerate(network_faults):
        following = network_faults[number + 1].asked_ns if number + 1 < len(network_faults) else FOR_EVER
        found += story.tell(fault, following)
    return tuple(excuse for excuse in found if excuse.nodes or excuse.places or excuse.over)


def _connections(log: Iterable[ControllerEvent]) -> Iterator[Excuse]:
    """A switch that connects loses its flows, and gets all of them again."""
    for event in log:
        if event.event == "switch_ready":
            began_ns = event.at_ns - round(event.took_ms * 1e6)
            yield Excuse(began_ns - SLACK_NS, event.at_ns + SLACK_NS, nodes=frozenset((event.switch,)))


def _duplicating(network: Network, story: "_Story", faults: Iterable[FaultRecord]) -> Iterator[Excuse]:
    """What waits for a link that begins or ends to duplicate packets."""
    for fault in faults:
        if fault.fault == "link-change" and fault.details.get("duplicate") is not None:
            link = _link(network, fault.target)
            before_ns = fault.asked_ns - story.longest_wait_ns(link) - SLACK_NS
            yield Excuse(before_ns, fault.applied_ns + SLACK_NS, places=story.leading_over([link]))


class _Story:
    """Links, switches, controller and routes as the faults change them, one fault after the other."""

    def __init__(self, network: Network, faults: Sequence[FaultRecord], log: Sequence[ControllerEvent], groups: Groups) -> None:
        self._network = network
        self.groups = self._wanted_groups = groups
        """The groups that the trees in force were made for."""
        self._faults = faults
        self._has_log = bool(log)
        self._told = _moments(log)
        self._pulled: set[str] = set()
        self._stopped: set[str] = set()
        self._controlled = True
        self._routed = self._up()
        """The links that the routes in force were made for."""
        self._trees_of: dict[tuple[frozenset[str], tuple[tuple[int, tuple[str, ...]], ...]], Trees] = {}

    def tell(self, fault: FaultRecord, following_ns: int) -> Iterator[Excuse]:
        """What this fault explains; the next one that changes the network was asked for at `following_ns`."""
        before, groups_before, up_before = self.trees, self.groups, self._up()
        changed = self.follow(fault)
        since_ns, until_ns = fault.asked_ns - SLACK_NS, self.done_ns(fault, changed) + SLACK_NS
        failed = [link for link in changed if link.name in up_before]
        if failed:
            over = frozenset(way for link in failed for way in ((link.a, link.b), (link.b, link.a)))
            waiting_ns = max(map(self.longest_wait_ns, failed))
            yield Excuse(since_ns - waiting_ns, until_ns, places=_over(before, failed), over=over)
        yield Excuse(since_ns, until_ns, places=_touched(before, self.trees))
        yield Excuse(since_ns, until_ns, places=self._leading_to_others(groups_before))
        yield Excuse(since_ns, until_ns, nodes=self._without_flows(fault))
        if fault.fault == "switch-stop":
            waiting_ns = max(map(self.longest_wait_ns, self._network.neighbours[fault.target].values()))
            yield Excuse(since_ns - waiting_ns, until_ns, nodes=frozenset((fault.target,)))
        yield Excuse(fault.asked_ns, following_ns, certain=True, nodes=frozenset(self._stopped), places=self._leading_nowhere())

    def _leading_to_others(self, before: Groups) -> frozenset[tuple[str, Goal]]:
        """Every place on the way to hosts that the trees did not lead to before, or do not lead to now."""
        goals = {
            (group, self._network.access_switch(host))
            for group, members in self.groups.items()
            for host in set(members) ^ set(before.get(group, ()))
        }
        return frozenset((switch, goal) for switch in self._network.switches for goal in goals)

    def _without_flows(self, fault: FaultRecord) -> frozenset[str]:
        """The switches that have no flows, or false ones, until a fault is over.

        A controller that starts believes that every link is up until all switches have told it otherwise. A simulated one knows.
        """
        if fault.fault == "controller-start" and self._has_log:
            return frozenset(self._network.switches)
        return frozenset((fault.target,)) if fault.fault == "switch-start" else frozenset()

    def leading_over(self, links: Iterable[Link]) -> frozenset[tuple[str, Goal]]:
        """Where packets go over one of these links by the routes in force."""
        return _over(self.trees, links)

    def longest_wait_ns(self, link: Link) -> int:
        """How long a packet may be under way over a link at most, with all that faults make of the link."""
        changes = [
            fault.details
            for fault in self._faults
            if fault.fault == "link-change" and _link(self._network, fault.target).name == link.name
        ]

        def values(name: str) -> list[float]:
            return [float(getattr(link, name) or 0), *(float(change.get(name) or 0) for change in changes)]

        bandwidths = [mbit for mbit in values("bandwidth_mbit") if mbit]
        queued_s = (link.queue_packets or DEFAULT_QUEUE) * _FRAME_BITS / (min(bandwidths) * 1e6) if bandwidths else 0.0
        return round(queued_s * 1e9 + (max(values("delay_ms")) + max(values("jitter_ms"))) * 1e6)

    @property
    def trees(self) -> Trees:
        """The routes in force."""
        return self.trees_to(self.groups)

    def trees_to(self, groups: Groups) -> Trees:
        """The routes over the links in use, with trees to these groups."""
        key = self._routed, tuple(groups.items())
        if key not in self._trees_of:
            self._trees_of[key] = _trees(self._network, self._routed, groups)
        return self._trees_of[key]

    def follow(self, fault: FaultRecord) -> list[Link]:
        """Let a fault change the network, and the controller the routes; the links that went up or down."""
        up_before = self._up()
        self._apply(fault)
        if self._controlled:
            self._routed, self.groups = self._up(), self._wanted_groups
        return [link for link in self._network.links if link.name in up_before ^ self._up()]

    def _up(self) -> frozenset[str]:
        """The links that a controller takes for up. It does not see that a switch has stopped; a simulated one does."""
        dark = frozenset() if self._has_log else frozenset(self._stopped)
        return frozenset(
            link.name for link in self._network.links if link.name not in self._pulled and dark.isdisjoint((link.a, link.b))
        )

    def _apply(self, fault: FaultRecord) -> None:
        match fault.fault:
            case "link-down":
                self._pulled.add(_link(self._network, fault.target).name)
            case "link-up":
                self._pulled.discard(_link(self._network, fault.target).name)
            case "heal":
                self._pulled -= {_link(self._network, fault.target).name} if fault.target else set(self._pulled)
            case "switch-stop":
                self._stopped.add(fault.target)
            case "switch-start":
                self._stopped.discard(fault.target)
            case "tree":
                self._wanted_groups = {**self._wanted_groups, fault.details["group"]: tuple(fault.details["members"])}
            case "controller-stop" | "controller-start":
                self._controlled = fault.fault == "controller-start"

    def done_ns(self, fault: FaultRecord, changed: Iterable[Link]) -> int:
        """When the routes had changed: with the last word of the switches that a fault concerns, in the log after the fault."""
        if not self._controlled or fault.fault == "switch-stop":
            return fault.applied_ns
        if not self._has_log:
            return fault.applied_ns + REROUTING_NS
        ports = self._network.ports
        awaited = [(a, ports[a][b]) for link in changed for a, b in ((link.a, link.b), (link.b, link.a))]
        if fault.fault == "switch-start":
            awaited.append((fault.target, _ALL_PORTS))
        if fault.fault == "controller-start":
            awaited += [(switch, _ALL_PORTS) for switch in self._network.switches if switch not in self._stopped]
        answers = [self._told.get(each, []) for each in awaited]
        first = [moments[place] for moments in answers if (place := bisect_left(moments, fault.asked_ns)) < len(moments)]
        return max(first, default=fault.applied_ns + (REROUTING_NS if awaited else 0))

    def _leading_nowhere(self) -> frozenset[tuple[str, Goal]]:
        """Where there is no route to a goal, or one over a link that is down."""
        trees, up = self.trees, self._up()
        dark = [link for link in self._network.links if link.name in self._routed - up]
        lost = {
            (switch, goal)
            for goal, tree in trees.items()
            for switch in self._network.switches
            if switch != _last(goal) and switch not in tree
        }
        return _over(trees, dark) | lost


def _moments(log: Iterable[ControllerEvent]) -> Mapping[tuple[str, int], list[int]]:
    """When switches said that they had their flows, by switch and the port that was the cause."""
    told: dict[tuple[str, int], list[int]] = {}
    for event in log:
        if event.event in {"rerouted", "switch_ready"}:
            for port in event.ports or (_ALL_PORTS,):
                told.setdefault((event.switch, port), []).append(event.at_ns)
    return {key: sorted(moments) for key, moments in told.items()}


def _trees(network: Network, usable: frozenset[str], groups: Groups) -> Trees:
    lasts = dict.fromkeys(map(network.access_switch, network.hosts))
    trees: dict[Goal, Mapping[str, str]] = {last: next_hops(network, last, lambda link: link.name in usable) for last in lasts}
    for number, members in groups.items():
        tree = group_tree(network, members, lambda link: link.name in usable)
        senders: dict[str, list[str]] = {}
        for switch, following in tree.items():
            for node in following:
                senders.setdefault(node, []).append(switch)
        trees |= {(number, last): _towards(last, senders) for last in dict.fromkeys(map(network.access_switch, members))}
    return trees


def _towards(last: str, senders: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The next hop to a switch in the tree of a group; `senders` are the switches that send packets of the group to a node."""
    hops: dict[str, str] = {}
    frontier = [last]
    for node in frontier:
        for switch in senders.get(node, ()):
            if switch != last and switch not in hops:
                hops[switch] = node
                frontier.append(switch)
    return hops


def _over(trees: Trees, links: Iterable[Link]) -> frozenset[tuple[str, Goal]]:
    """Where packets go over one of these links."""
    ways = {way for link in links for way in ((link.a, link.b), (link.b, link.a))}
    return frozenset((switch, goal) for goal, tree in trees.items() for switch, hop in tree.items() if (switch, hop) in ways)


def _touched(before: Trees, after: Trees) -> frozenset[tuple[str, Goal]]:
    """Where the next hop changes, and the next hops."""
    touched = set()
    for goal in before.keys() & after.keys() if before is not after else ():
        old, new = before[goal], after[goal]
        for switch in old.keys() | new.keys():
            hops = old.get(switch), new.get(switch)
            if hops[0] != hops[1]:
                touched |= {(node, goal) for node in (switch, *hops) if node is not None}
    return frozenset(touched)


def _last(goal: Goal) -> str:
    """The last switch on the way to a goal."""
    return goal if isinstance(goal, str) else goal[1]


def _link(network: Network, name: str) -> Link:
    return network.link(*name.split("-", 1))
