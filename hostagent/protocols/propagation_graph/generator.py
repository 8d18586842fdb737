"""Building propagation graphs: a pure function of the groups and, for the methods that look at the network, of the distances between sites.

Third paper, section 3.3 and appendix I; section 4.3 for random graphs, 4.4 for the methods that look at the network, 3.5 for independence.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
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
