"""What became of each copy of packets to groups: the journey of such a packet is a tree, with one copy for each member but the sender.

A copy that arrived went the way that its sightings show: from the member back to the sender, each time over the latest sighting on the way
into the node that sent it on. A copy that did not arrive went as far as sightings show it on the way to its member along the tree in force
when the packet was sent. So it vanished at the switch that was to send it on, also if that switch never made the copy.

All work is on arrays with an entry for each sighting or copy, a few times over: as often as the way of a packet has links.
"""

from typing import NamedTuple

import numpy as np

from analysis.excuses import Routing
from analysis.tables.fates import Journeys, NetworkFacts, Numbers, Sightings, clusters, explained, group_goals, last_switches


class Forks(NamedTuple):
    """For each node, over all packets to groups: how many more copies it sent than it got, and how many beyond one for each branch."""

    made: Numbers
    excess: Numbers


class _Copies(NamedTuple):
    """The copies that there should be, one entry each: packet, member, and the position of the routing that was in force."""

    journey: Numbers
    member: Numbers
    routing: Numbers


class _Trees:
    """The sightings of packets to groups as trees."""

    def __init__(self, seen: Sightings, facts: NetworkFacts) -> None:
        self.seen, self.facts, self.nodes = seen, facts, len(facts.nodes)
        self.first, self.journey = seen.first()
        self.group = seen.destination[self.first] - self.nodes
        into = self.journey * self.nodes + seen.target
        self._by_target: Numbers = np.argsort(into, kind="stable")
        self._into = into[self._by_target]
        self.left = np.unique(self.journey * self.nodes + seen.source)
        """Packet and node, as one number, of every node that a packet was seen to leave."""
        self.came = self._came()
        """For each sighting the one before on its way; -1 if there is none."""
        hops = (self.journey * self.nodes + seen.source) * self.nodes + seen.target
        _, self.hop_row, self.hop, self.times = np.unique(hops, return_index=True, return_inverse=True, return_counts=True)
        """Directions of links on which a packet was seen: a sighting of each, its number for each sighting, and how often it was seen."""
        self.no_start = (seen.source != seen.sender) & (self.came < 0)

    def _came(self) -> Numbers:
        seen, rows = self.seen, np.arange(len(self.journey))
        order = np.argsort(seen.target, kind="stable")
        place = np.searchsorted(seen.target[order] * len(rows) + order, seen.source * len(rows) + rows)
        came = np.full(len(rows), -1)
        # Clocks of captures may differ a little: without an earlier sighting, the first later one counts.
        for found in (np.append(order, -1)[place], np.append(-1, order)[place]):
            fits = (found >= 0) & (seen.target[found] == seen.source) & (self.journey[found] == self.journey)
            came[fits] = found[fits]
        return np.where(seen.source == seen.sender, -1, came)

    def along(self, flags: Numbers) -> Numbers:
        """For each sighting, whether any sighting on its way from the sender has a flag. A way that leads in a circle has every flag."""
        found: Numbers = flags.copy()
        back = self.came.copy()
        # Each round looks back twice as far as the one before.
        for _ in range(len(back).bit_length() + 1):
            if (back < 0).all():
                break
            found = np.where(back >= 0, found | found[back], found)
            back = np.where(back >= 0, back[back], -1)
        found[back >= 0] = True
        return found

    def reaching(self, journey: Numbers, node: Numbers) -> tuple[Numbers, Numbers]:
        """The sightings that reach a node, as the first and the end of a range in `by_target`."""
        wanted = journey * self.nodes + node
        return np.searchsorted(self._into, wanted), np.searchsorted(self._into, wanted, side="right")

    def row(self, place: Numbers) -> Numbers:
        """The sightings at places of ranges that `reaching` found."""
        found: Numbers = self._by_target[np.clip(place, 0, len(self._by_target) - 1)]
        return found

    def any_reaching(self, flags: Numbers, start: Numbers, end: Numbers) -> Numbers:
        """Whether any sighting in each range has a flag."""
        counted = np.append(0, np.cumsum(flags[self._by_target]))
        return counted[end] > counted[start]

    def claimed(self, ends: Numbers) -> Numbers:
        """For each direction of a link, whether a packet was seen there on its way to one of these sightings."""
        on_way = np.zeros(len(self.journey), np.bool_)
        rows = np.unique(ends)
        while len(rows):
            on_way[rows] = True
            back = self.came[rows]
            rows = np.unique(back[(back >= 0) & ~on_way[back]])
        found = np.zeros(len(self.times), np.bool_)
        found[self.hop[on_way]] = True
        return found


def copy_fates(seen: Sightings, facts: NetworkFacts) -> tuple[Journeys, Forks]:
    """The fates of the copies of packets to groups, and how many copies each node made."""
    trees = _Trees(seen, facts)
    copies = _expected(trees)
    start, stop = trees.reaching(copies.journey, copies.member)
    lost = start == stop
    vanished_at, branch = np.full(len(lost), -1), np.full(len(lost), -1)
    vanished_at[lost], branch[lost] = _last_seen(trees, _Copies(*(values[lost] for values in copies)))
    # A copy that arrived ends where it first reached its member; another one where it last reached the node that it vanished at.
    reached = trees.reaching(copies.journey, vanished_at)
    end = np.where(
        lost, np.where(reached[1] > reached[0], trees.row(reached[1] - 1), trees.first[copies.journey]), trees.row(start)
    )
    expensive, gap = trees.along(seen.expensive), trees.along(trees.no_start)
    repeated, wrong = trees.along(trees.times[trees.hop] > 1), seen.marked != expensive
    excused, checked = _excused(trees, copies, end, lost, repeated[end])
    sender = seen.sender[trees.first][copies.journey]
    cluster = clusters(facts)
    shared, perhaps_shared = _shared(trees, copies.journey, vanished_at, branch, excused)
    fates = Journeys(
        sender=sender,
        packet=seen.packet[trees.first][copies.journey],
        destination=copies.member,
        group=trees.group[copies.journey],
        gap=np.where(lost, gap[end], trees.any_reaching(gap, start, stop)),
        repeated=np.where(lost, repeated[end], trees.any_reaching(repeated, start, stop)),
        vanished_at=vanished_at,
        wrong_bit=trees.any_reaching(wrong, start, stop),
        excused=excused,
        checked=checked,
        unpaid=lost & ~expensive[end] & (cluster[sender] != cluster[copies.member]),
        stray=np.zeros(len(lost), np.bool_),
        shared=lost & shared,
        perhaps_shared=lost & perhaps_shared,
    )
    arrivals = trees.row(_ranges(start, stop))
    strays = _strays(trees, ~trees.claimed(np.concatenate((end, arrivals))), gap, repeated)
    return Journeys(*(np.concatenate(pair) for pair in zip(fates, strays, strict=True))), _forks(trees)


def _expected(trees: _Trees) -> _Copies:
    """One copy of each packet for every member but its sender."""
    facts, groups = trees.facts, len(trees.facts.groups)
    since_ns = np.array([routing.since_ns for routing in facts.routings])
    routing = np.searchsorted(since_ns, trees.seen.at_ns[trees.first], side="right") - 1
    kinds, kind = np.unique(routing * groups + trees.group, return_inverse=True)
    members = [_members(facts, facts.routings[each // groups], each % groups) for each in kinds]
    ends = np.cumsum([len(some) for some in members])
    journey = np.repeat(np.arange(len(trees.first)), np.array([len(some) for some in members], np.int64)[kind])
    member = np.concatenate(members)[_ranges((ends - [len(some) for some in members])[kind], ends[kind])]
    wanted = member != trees.seen.sender[trees.first][journey]
    return _Copies(journey[wanted], member[wanted], routing[journey[wanted]])


def _members(facts: NetworkFacts, routing: Routing, group: int) -> Numbers:
    places = facts.places
    return np.array([places[host] for host in routing.members.get(facts.groups[group], ())], np.int64)


def _ranges(start: Numbers, end: Numbers) -> Numbers:
    """All numbers of all ranges, one range after the other."""
    sizes = end - start
    offsets: Numbers = np.repeat(start - np.cumsum(sizes) + sizes, sizes)
    return offsets + np.arange(len(offsets))


def _last_seen(trees: _Trees, copies: _Copies) -> tuple[Numbers, Numbers]:
    """The node at which each of these copies was last seen on its way along the tree, and the node that it was to go to from there.

    A packet that was never seen to reach the switch of its sender was last seen at the sender.
    """
    facts, sender = trees.facts, trees.seen.sender[trees.first][copies.journey]
    last = last_switches(facts)
    at, following = sender, last[sender]
    hops, row = _next_hops(trees, copies)
    # The way along a tree has no circles, so it is not longer than there are nodes.
    for _ in range(trees.nodes):
        start, stop = trees.reaching(copies.journey, following)
        goes_on = (following >= 0) & (stop > start)
        if not goes_on.any():
            break
        at = np.where(goes_on, following, at)
        following = np.where(goes_on, np.where(at == last[copies.member], copies.member, hops[row, at]), following)
    return at, following


def _next_hops(trees: _Trees, copies: _Copies) -> tuple[Numbers, Numbers]:
    """Next hops by node, a row for each goal of each routing that copies need; and the row of each copy."""
    facts, places, nodes = trees.facts, trees.facts.places, trees.nodes
    last, group = last_switches(facts)[copies.member], trees.group[copies.journey]
    needed, row = np.unique((copies.routing * len(facts.groups) + group) * nodes + last, return_inverse=True)
    hops = np.full((len(needed), nodes), -1)
    for number, each in enumerate(needed):
        goal = facts.groups[each // nodes % len(facts.groups)], facts.nodes[each % nodes]
        for switch, hop in facts.routings[each // nodes // len(facts.groups)].trees.get(goal, {}).items():
            hops[number, places[switch]] = places[hop]
    return hops, row


def _excused(trees: _Trees, copies: _Copies, end: Numbers, lost: Numbers, repeated: Numbers) -> tuple[Numbers, Numbers]:
    """For each copy, whether a fault explains that it vanished or was repeated, and whether it was checked."""
    facts, seen = trees.facts, trees.seen
    excused, checked = np.zeros(len(end), np.bool_), np.ones(len(end), np.bool_)
    if not facts.excuses:
        return excused, checked
    goal = group_goals(facts, trees.group[copies.journey], last_switches(facts)[copies.member])
    any_member = group_goals(facts, trees.group[copies.journey], trees.nodes)
    copy, row = np.arange(len(end)), end
    for step in range(trees.nodes):
        here, unchecked = explained(facts, seen.at_ns[row], seen.source[row], seen.target[row], goal[copy])
        checked[copy[unchecked]] = False
        if step == 0:
            excused[lost] = here[lost]
        # Where a tree changes, any branch may get a copy twice.
        twice = repeated[copy] & ~lost[copy]
        at = row[twice]
        excused[copy[twice]] |= explained(facts, seen.at_ns[at], seen.source[at], seen.target[at], any_member[copy[twice]])[0]
        on = trees.came[row] >= 0
        copy, row = copy[on], trees.came[row[on]]
        if not len(copy):
            break
    return excused, checked


def _shared(trees: _Trees, journey: Numbers, vanished_at: Numbers, branch: Numbers, excused: Numbers) -> tuple[Numbers, Numbers]:
    """For each copy that vanished: whether an earlier one vanished on the same branch, and whether one may have on another branch."""
    place = (journey * trees.nodes + np.maximum(vanished_at, 0)) * 2 + excused
    shared, same_place = np.ones(len(journey), np.bool_), np.ones(len(journey), np.bool_)
    lost = np.flatnonzero(vanished_at >= 0)
    shared[lost[np.unique(place[lost] * (trees.nodes + 1) + branch[lost] + 1, return_index=True)[1]]] = False
    same_place[lost[np.unique(place[lost], return_index=True)[1]]] = False
    return shared, same_place & ~shared & ~np.isin(place // 2, trees.left)


def _strays(trees: _Trees, unclaimed: Numbers, gap: Numbers, repeated: Numbers) -> Journeys:
    """A copy for each direction of a link on which a packet was seen that is on the way to no member."""
    seen, facts, row = trees.seen, trees.facts, trees.hop_row[unclaimed]
    any_member = group_goals(facts, trees.group[trees.journey[row]], trees.nodes)
    sent, got = (
        explained(facts, seen.at_ns[row], seen.source[row], node[row], any_member)[0] for node in (seen.source, seen.target)
    )
    no, yes = np.zeros(len(row), np.bool_), np.ones(len(row), np.bool_)
    return Journeys(
        sender=seen.sender[row],
        packet=seen.packet[row],
        destination=seen.target[row],
        group=trees.group[trees.journey[row]],
        gap=gap[row],
        repeated=repeated[row],
        vanished_at=np.full(len(row), -1),
        wrong_bit=no,
        excused=sent | got,
        checked=yes,
        unpaid=no,
        stray=yes,
        shared=no,
        perhaps_shared=no,
    )


def _forks(trees: _Trees) -> Forks:
    """How many copies each node made. What was seen to leave a node that it never reached is a gap, and not counted here."""
    source, target = trees.seen.source[trees.hop_row], trees.seen.target[trees.hop_row]
    start, stop = trees.reaching(trees.journey[trees.hop_row], source)
    beyond = np.where(stop > start, np.maximum(trees.times - (stop - start), 0), 0)
    sent, got = (np.bincount(node, trees.times, trees.nodes) for node in (source, target))
    return Forks((sent - got).astype(np.int64), np.bincount(source, beyond, trees.nodes).astype(np.int64))
