"""Building propagation graphs: a pure function of the groups and, for the methods that look at the network, of the distances between sites.

Third paper, section 3.3 and appendix I; section 4.3 for random graphs, 4.4 for the methods that look at the network. A graph can be changed
after it was built: more independence of its sites (section 3.5), or less load at the cost of depth (section 4.1.2, Figure 4.1).

    heuristic-1            root and children are the sites in most groups
    heuristic-2            the same, ties to the site nearest to the parent
    heuristic-3            the site nearest to the parent, ties to one that shares a group with it, then to the site in most groups
    random                 the root and one site of each partition, at random
    minimum-spanning-tree  one tree over all sites, of the least total distance; its root is in most groups, and has as many children as
                           possible
    shortest-path-tree     one tree over all sites, in which every site has the shortest path to a root in most groups

Remaining ties go to the site that is listed first, so the order of sites makes the text's arbitrary choices.

The text is silent or wrong in these places. In the appendix, sites that share a group with the subroot and are in no partition are made
children without being marked as placed; here they are placed like the others. Its "exists s in G such that s in S" means "s in g".
Heuristic 3 may choose a site that shares no group with its parent, since the text says that the nearest site is always chosen.
A site in no group is a tree of its own for the first four methods.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final, Literal, get_args

from hostagent.protocols.propagation_graph.graph import NOBODY, Groups, PropagationGraph

Method = Literal["heuristic-1", "heuristic-2", "heuristic-3", "random", "minimum-spanning-tree", "shortest-path-tree"]
METHODS: tuple[Method, ...] = get_args(Method)
BLIND: Final[frozenset[Method]] = frozenset({"heuristic-1", "random"})
"""The methods that do not look at the network."""
Distance = Callable[[str, str], float]
"""The cost of the path between two sites."""


def alike(one: str, other: str) -> float:
    """The distance where the network does not matter: the same between any two sites."""
    return float(one != other)


def generate(
    groups: Groups, sites: Sequence[str], method: Method = "heuristic-1", distance: Distance = alike, seed: int = 1
) -> PropagationGraph:
    """The propagation graph of some groups."""
    random = Random(f"{seed}/propagation graph")  # noqa: S311 - a graph that can be built again needs no secrets
    if method == "minimum-spanning-tree":
        parents = _minimum_spanning_tree(_most_frequent(sites, groups.values()), sites, distance, random)
    elif method == "shortest-path-tree":
        parents = _shortest_path_tree(_most_frequent(sites, groups.values()), sites, distance)
    else:
        parents = _Builder(groups, sites, method, distance, random).parents
    return PropagationGraph(groups, parents, {})


def _most_frequent(sites: Iterable[str], groups: Iterable[tuple[str, ...]]) -> str:
    count = Counter(member for members in groups for member in members)
    return max(sites, key=lambda site: count[site])


class _Builder:
    """The procedures `main` and `new_subtree` of the appendix, with the sites and groups that are not marked yet."""

    def __init__(self, groups: Groups, sites: Sequence[str], method: Method, distance: Distance, random: Random) -> None:
        self.parents: dict[str, str] = {}
        self._sites = dict.fromkeys(sites)
        self._groups = dict(groups)
        self._method = method
        self._distance = distance
        self._random = random
        while self._groups:
            members = dict.fromkeys(member for group in self._groups.values() for member in group)
            self._place(self._choose_root([site for site in sites if site in members]))
        self.parents |= dict.fromkeys(self._sites, NOBODY)

    def _choose_root(self, candidates: Sequence[str]) -> str:
        return self._random.choice(candidates) if self._method == "random" else _most_frequent(candidates, self._groups.values())

    def _place(self, root: str) -> None:
        """Build the tree below a root, with a list of pending sites in place of the text's recursion, since trees can be deep."""
        waiting = [(root, NOBODY)]
        while waiting:
            site, parent = waiting.pop()
            self.parents[site] = parent
            del self._sites[site]
            waiting += [(child, site) for child in reversed(self._new_subtree(site))]

    def _new_subtree(self, subroot: str) -> list[str]:
        """The children of a site: those that share a group with it and are in no partition, and one from each partition."""
        mine = [name for name, members in self._groups.items() if subroot in members]
        beside = {member for name in mine for member in self._groups[name]}
        for name in mine:
            del self._groups[name]
        intersecters = {site: None for site in self._sites if site in beside and site != subroot}
        partitions = self._partitions(intersecters)
        divided = {site for partition in partitions for name in partition for site in self._groups[name]}
        children = [site for site in intersecters if site not in divided]
        return children + [self._choose_child(subroot, partition, intersecters) for partition in partitions]

    def _partitions(self, intersecters: Iterable[str]) -> list[list[str]]:
        """The remaining groups connected with an intersecter, partitioned so that groups of different partitions do not intersect."""
        groups_of: dict[str, list[str]] = {}
        for name, members in self._groups.items():
            for member in members:
                groups_of.setdefault(member, []).append(name)
        seen: set[str] = set()
        partitions = []
        for start in intersecters:
            partition: list[str] = []
            frontier = [start]
            while frontier:
                for name in groups_of.get(frontier.pop(), ()):
                    if name not in seen:
                        seen.add(name)
                        partition.append(name)
                        frontier += self._groups[name]
            if partition:
                partitions.append(partition)
        return partitions

    def _choose_child(self, subroot: str, partition: Sequence[str], intersecters: Iterable[str]) -> str:
        count = Counter(member for name in partition for member in self._groups[name])
        candidates = [site for site in self._sites if site in count]
        shared = set(intersecters)
        if self._method == "random":
            return self._random.choice(candidates)
        if self._method == "heuristic-3":
            return min(candidates, key=lambda site: (self._distance(subroot, site), site not in shared, -count[site]))
        most = max(count[site] for site in candidates if site in shared)
        tied = [site for site in candidates if site in shared and count[site] == most]
        return min(tied, key=lambda site: self._distance(subroot, site)) if self._method == "heuristic-2" else tied[0]


def _minimum_spanning_tree(root: str, sites: Sequence[str], distance: Distance, random: Random) -> dict[str, str]:
    """Prim's algorithm. Of several edges of equal length, one of the root is taken first, then one at random."""
    parents = {root: NOBODY}
    best = {site: (distance(root, site), 0.0, root) for site in sites if site != root}
    while best:
        site = min(best, key=lambda left: best[left][:2])
        parents[site] = best.pop(site)[2]
        for left, known in best.items():
            best[left] = min(known, (distance(site, left), random.random(), site), key=lambda edge: edge[:2])
    return parents


def _shortest_path_tree(root: str, sites: Sequence[str], distance: Distance) -> dict[str, str]:
    """The parent of every site is the nearest site on a shortest path from the root to it."""
    order = {site: place for place, site in enumerate(sites)}
    depth = {root: 0}
    far = {site: distance(root, site) for site in sites}
    outwards = sorted((site for site in sites if site != root), key=lambda site: (far[site], order[site]))
    parents = {root: NOBODY}
    for site in outwards:
        on_the_way = [placed for placed in parents if _equal(far[placed] + distance(placed, site), far[site])]
        parents[site] = min(on_the_way, key=lambda placed: (distance(placed, site), depth[placed], order[placed]))
        depth[site] = depth[parents[site]] + 1
    return parents


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1.0)


def joined(parents: Mapping[str, str]) -> dict[str, str]:
    """One tree out of a forest: all other roots become children of the first one. The paths of groups do not change."""
    first, *others = [site for site, parent in parents.items() if parent == NOBODY]
    return {**parents, **dict.fromkeys(others, first)}


def improved(graph: PropagationGraph, children: int = 0, *, independent: bool = False) -> PropagationGraph:
    """The graph with at most so many children for each site, unless 0, and with fewer extra sites if that is wanted."""
    spread = spread_load(graph, children) if children else graph
    return make_independent(spread) if independent else spread


def make_independent(graph: PropagationGraph) -> PropagationGraph:
    """Remove extra sites from the paths of groups that they are not in, wherever one order can still be kept.

    A member that gets a group's messages from an extra site gets them instead from the next member further up (Figure 3.4). The member
    must then be the only site to do its merges; other members that need the same merge become its descendants (Figure 3.5). Where that
    does not help, the extra site stays (Figure 3.6).
    """
    better: PropagationGraph | None = graph
    while better is not None:
        graph = better
        better = next((tried for tried in _more_independent(graph) if _is_better(tried, graph)), None)
    return graph


def _is_better(tried: PropagationGraph, graph: PropagationGraph) -> bool:
    return _count_extra(tried) < _count_extra(graph) and not any(tried.one_order())


def _count_extra(graph: PropagationGraph) -> int:
    return sum(len(graph.extra_sites(group)) for group in graph.groups)


def _more_independent(graph: PropagationGraph) -> Iterator[PropagationGraph]:
    """Graphs in which one member gets one group's messages past the extra sites above it."""
    for group, members in graph.groups.items():
        for site in members:
            above = graph.path(group, site)[-2::-1]
            nearest = next((sender for sender in above if sender in members), None)
            if above and above[0] != nearest and nearest is not None:
                tried = replace(graph, bypasses={**graph.bypasses, (group, site): nearest})
                yield tried
                yield _gathered(tried, group, site)


def _gathered(graph: PropagationGraph, group: str, merger: str) -> PropagationGraph:
    """The graph in which every site that needs a merge that `merger` now does is moved below `merger`, with the site's subtree."""
    parents, bypasses = dict(graph.parents), dict(graph.bypasses)
    for other in graph.groups:
        merging = graph.merge_sites(group, other) if other != group else {}
        for site in merging if merging.get(merger) == merger else ():
            if site != merger and site not in graph.ancestors(merger):
                parents[site] = merger
                bypasses.pop((group, site), None)
    return replace(graph, parents=parents, bypasses=bypasses)


def spread_load(graph: PropagationGraph, most_children: int) -> PropagationGraph:
    """Give every site at most `most_children` where that adds no extra sites: depth grows, the load of the busiest site falls.

    A child of a site with too many children moves below a sibling that is in all the groups whose messages the child gets from
    the parent, so the sibling gets no messages that it would not get anyway.
    """
    parents = dict(graph.parents)
    waiting = list(graph.roots)
    while waiting:
        site = waiting.pop(0)
        kept = [child for child, parent in parents.items() if parent == site]
        for child in reversed(kept[:]):
            heirs = [sibling for sibling in kept if sibling != child and _can_carry(graph, sibling, site, child)]
            if heirs and len(kept) > most_children:
                parents[child] = min(heirs, key=lambda heir: sum(parent == heir for parent in parents.values()))
                kept.remove(child)
        waiting += kept
    spread = replace(graph, parents=parents)
    return spread if _count_extra(spread) <= _count_extra(graph) else graph


def _can_carry(graph: PropagationGraph, sibling: str, parent: str, child: str) -> bool:
    """Whether a sibling is in every group whose messages the parent sends to the child."""
    return all(sibling in graph.groups[group] for group, route in graph.routes.items() if route.get(child) == parent)
