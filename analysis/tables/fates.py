"""What became of each packet: its sightings on all links as arrays, and the fates that follow from them.

`packet_fates` is about packets from host to host; `analysis.tables.copies` is about packets to groups, which switches copy.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.excuses import Excuse, Goal, Routing, excuses, group_routings
from runfiles.controller_log import read_controller_log
from runfiles.reading import RunInput

ANY_MEMBER: Final = ""
"""In place of a switch in the goal of a group: a copy for whichever member."""

Numbers = NDArray[Any]


class NetworkFacts(NamedTuple):
    """What is known of a run's network: nodes, the switch and the cluster of each host, what faults explain, and the routes of groups."""

    nodes: tuple[str, ...]
    switch_of: dict[str, str]
    cluster_of: dict[str, int]
    excuses: tuple[Excuse, ...]
    routings: tuple[Routing, ...] = ()

    @property
    def groups(self) -> tuple[int, ...]:
        """The numbers of all groups."""
        return tuple(dict.fromkeys(number for routing in self.routings for number in routing.members))

    @property
    def places(self) -> dict[str, int]:
        """The position of each node."""
        return {node: place for place, node in enumerate(self.nodes)}


def facts_of(run: RunInput) -> NetworkFacts:
    """What the sightings of a run's packets are compared with."""
    network, log = run.network, read_controller_log(run.directory)
    groups = run.members if run.run.medium == "multicast" else {}
    return NetworkFacts(
        nodes=(*network.hosts, *network.switches),
        switch_of={host: network.access_switch(host) for host in network.hosts},
        cluster_of={host: number for number, cluster in enumerate(network.clusters) for host in cluster},
        excuses=excuses(network, run.faults, log, groups),
        routings=group_routings(network, run.faults, log, groups),
    )


class Sightings(NamedTuple):
    """Sightings as arrays, ordered by sender, packet number and time. Nodes are positions in a list; -1 is no node.

    Groups follow the nodes: a destination that is not below the number of nodes is the position of a group in `NetworkFacts.groups`.
    """

    source: Numbers
    target: Numbers
    sender: Numbers
    destination: Numbers
    origin: Numbers
    purpose: Numbers
    packet: Numbers
    sequence: Numbers
    at_ns: Numbers
    expensive: Numbers
    marked: Numbers

    def only(self, chosen: Numbers) -> "Sightings":
        """Some of the sightings."""
        return Sightings(*(values[chosen] for values in self))

    def first(self) -> tuple[Numbers, Numbers]:
        """The position of the first sighting of each packet; and for each sighting, the number of its packet in that list."""
        is_first = np.ones(len(self.packet), np.bool_)
        is_first[1:] = (np.diff(self.sender) != 0) | (np.diff(self.packet) != 0)
        return np.flatnonzero(is_first), np.cumsum(is_first) - 1


class Journeys(NamedTuple):
    """Fates as arrays with one entry for each packet from host to host, and one for each copy of a packet to a group.

    `gap`: the packet left a node that it was never seen to reach. `repeated`: it was seen twice in one direction of a link. `vanished_at`:
    if the packet did not arrive, the node that it was seen to reach but not to leave. `wrong_bit`: at the destination, the cost bit did not
    agree with the links that the packet crossed. `excused`: a fault explains that the packet vanished there, or, if the packet arrived,
    that it went in a circle. `checked`: at no place on its way would a fault have excused a loss, or loss was certain (`analysis.excuses`).
    `unpaid`: the packet vanished before the first of the expensive links that it would have had to cross.

    Of a copy, all of this is about its own way from the sender to its member, the `destination`; `group` is the position of the group, and
    -1 for other packets. `stray`: the copy was seen on a link that is on the way to no member; its `destination` is the end of that link.
    Copies that vanished in one datagram, on one branch, are `shared` but for the first one. If the packet was never seen to leave the node,
    the first copies of further branches are `perhaps_shared`: the node may have lost the datagram before it made copies.
    """

    sender: Numbers
    packet: Numbers
    destination: Numbers
    group: Numbers
    gap: Numbers
    repeated: Numbers
    vanished_at: Numbers
    wrong_bit: Numbers
    excused: Numbers
    checked: Numbers
    unpaid: Numbers
    stray: Numbers
    shared: Numbers
    perhaps_shared: Numbers


def packet_fates(seen: Sightings, facts: NetworkFacts) -> Journeys:
    """The fates of packets from host to host."""
    nodes = len(facts.nodes)
    first, journey = seen.first()
    if not len(first):
        return Journeys(*(np.empty(0, np.int64) for _ in Journeys._fields))

    def any_of(flags: Numbers) -> Numbers:
        return np.logical_or.reduceat(flags, first)

    source, target = (journey * nodes + node for node in (seen.source, seen.target))
    from_nowhere, stays = ~np.isin(source, target), ~np.isin(target, source)
    is_sender = seen.source == seen.sender
    # A host may send a packet to itself, over its switch: that packet comes back to where it started.
    starts = from_nowhere | (is_sender & (seen.destination == seen.sender))
    hops = np.sort(source * nodes + seen.target)
    repeated = np.zeros(len(first), np.bool_)
    repeated[hops[1:][hops[1:] == hops[:-1]] // nodes**2] = True
    arriving = seen.target == seen.destination
    # A packet in a routing loop leaves every node that it reaches; its end is then the last node by time.
    rows = np.arange(len(journey))
    end = np.maximum.reduceat(np.where(stays, rows, -1), first)
    end = np.where(end < 0, np.append(first[1:], len(rows)) - 1, end)
    lost = ~any_of(arriving) & (seen.destination[first] >= 0)
    expensive = any_of(seen.expensive)
    goal = last_switches(facts)[seen.destination]
    excused, unchecked = explained(facts, seen.at_ns, seen.source, seen.target, goal)
    cluster = clusters(facts)
    no = np.zeros(len(first), np.bool_)
    return Journeys(
        sender=seen.sender[first],
        packet=seen.packet[first],
        destination=seen.destination[first],
        group=np.full(len(first), -1),
        gap=any_of(from_nowhere & ~is_sender) | ~any_of(starts),
        repeated=repeated,
        vanished_at=np.where(lost, seen.target[end], -1),
        wrong_bit=any_of(arriving & (seen.marked != expensive[journey])),
        excused=np.where(lost, excused[end], any_of(excused)),
        checked=~any_of(unchecked),
        unpaid=lost & ~expensive & (cluster[seen.sender[first]] != cluster[seen.destination[first]]),
        stray=no,
        shared=no,
        perhaps_shared=no,
    )


def last_switches(facts: NetworkFacts) -> Numbers:
    """For each node the position of the switch that it is attached to; -1 for switches, and at the end for no node."""
    places, switch_of = facts.places, facts.switch_of
    return np.array([*(places[switch_of[node]] if node in switch_of else -1 for node in facts.nodes), -1])


def clusters(facts: NetworkFacts) -> Numbers:
    """For each node the number of its cluster; -1 for switches, and at the end for no node."""
    return np.array([*(facts.cluster_of.get(node, -1) for node in facts.nodes), -1])


def group_goals(facts: NetworkFacts, group: Any, last: Any) -> Any:
    """The numbers of goals of groups, from the positions of group and switch, as numbers or arrays. Any member is at position `nodes`.

    The goal of a packet to a host has the position of the host's switch as its number.
    """
    return len(facts.nodes) + group * (len(facts.nodes) + 1) + last


def explained(facts: NetworkFacts, at_ns: Numbers, source: Numbers, target: Numbers, goal: Numbers) -> tuple[Numbers, Numbers]:
    """For each sighting, whether a fault explains that the packet is seen nowhere else, and whether such packets may also get through.

    `goal` is the number of a goal, as `group_goals` says, or -1.
    """
    nodes, place_of = len(facts.nodes), facts.places
    groups = {number: position for position, number in enumerate(facts.groups)}
    goals = nodes + len(groups) * (nodes + 1)
    leads, came = np.where(goal < 0, -1, target * goals + goal), source * nodes + target
    excused, unchecked = np.zeros(len(leads), np.bool_), np.zeros(len(leads), np.bool_)
    by_time = np.argsort(at_ns, kind="stable") if facts.excuses else at_ns
    times = at_ns[by_time] if facts.excuses else at_ns

    def number(goal: Goal) -> int:
        if isinstance(goal, str):
            return place_of[goal]
        group, last = goal
        return int(group_goals(facts, groups[group], place_of.get(last, nodes)))

    def among(values: Numbers, pairs: Iterable[int]) -> Numbers:
        return np.isin(values, list(pairs))

    for excuse in facts.excuses:
        rows = by_time[np.searchsorted(times, excuse.start_ns) : np.searchsorted(times, excuse.end_ns, side="right")]
        at = among(target[rows], (place_of[node] for node in excuse.nodes))
        places: set[tuple[str, Goal]] = {*excuse.places}
        if not excuse.certain:
            places |= {(switch, (goal[0], ANY_MEMBER)) for switch, goal in excuse.places if not isinstance(goal, str)}
        led = among(leads[rows], (place_of[switch] * goals + number(goal) for switch, goal in places))
        over = among(came[rows], (place_of[one] * nodes + place_of[other] for one, other in excuse.over))
        found = rows[at | led | over]
        excused[found] = True
        unchecked[found] |= not excuse.certain
    return excused, unchecked
