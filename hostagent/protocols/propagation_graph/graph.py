"""Propagation graphs: the paths that the messages of each group take, so that all sites deliver them in one order.

Third paper, chapter 3. The graph is a forest of sites. A source sends a message to one site, the *primary destination* of its group, and
each site sends it on into those subtrees that hold members. Messages of different groups that meet at a site are merged there, and every
edge keeps the order of what is sent over it. So two sites that both get two messages get them in the order of the site where the messages
first met.

    PG1   every group has exactly one primary destination
    PG2   there is exactly one path from the primary destination to every member
    PG3   the primary destination is a member
    PG4   all sites on these paths are members; others are *extra sites*

PG1 and PG2 are needed, PG3 and PG4 save messages: a message to n members takes n + e packets where e is the number of extra sites.

With edges that bypass an extra site (section 3.5), the graph is no longer a forest. `one_order` checks what must hold then: all sites that
deliver messages of two groups get these messages merged by the same site.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

Groups = Mapping[str, tuple[str, ...]]
"""The members of every group."""
NOBODY = ""
"""Stands for the parent of a root, and for the sender of a group's messages to its primary destination."""


@dataclass(frozen=True)
class PropagationGraph:
    """A forest over sites, edges that bypass sites of the forest, and the routes of all groups that follow from both."""

    groups: Groups
    parents: Mapping[str, str]
    """The parent of every site in the forest; that of a root is `NOBODY`."""
    bypasses: Mapping[tuple[str, str], str]
    """By group and site: the sender of the group's messages to the site, if that is not the site's parent."""

    @cached_property
    def routes(self) -> Mapping[str, Mapping[str, str]]:
        """For every group, the sender of its messages to each site on its paths; `NOBODY` for the primary destination."""
        return {group: self._route(group, members) for group, members in self.groups.items()}

    def _route(self, group: str, members: tuple[str, ...]) -> dict[str, str]:
        primary = self.common_ancestor(members)
        route = {primary: NOBODY}
        for member in members:
            site = member
            while site not in route:
                route[site] = self.bypasses.get((group, site), self.parents[site])
                site = route[site]
        # Where bypasses leave one edge below an extra site at the top, all members get the messages over it.
        while primary not in members and len(below := [site for site, sender in route.items() if sender == primary]) == 1:
            del route[primary]
            primary = below[0]
            route[primary] = NOBODY
        return route

    def common_ancestor(self, members: tuple[str, ...]) -> str:
        """The lowest site of the forest that is above all members or one of them."""
        common = self.ancestors(members[0])
        for member in members[1:]:
            above = set(self.ancestors(member))
            common = [site for site in common if site in above]
        return common[0]

    def ancestors(self, site: str) -> list[str]:
        """A site, its parent, and so on up to its root."""
        found = [site]
        while parent := self.parents[found[-1]]:
            found.append(parent)
        return found

    def below(self, site: str) -> dict[str, frozenset[str]]:
        """For each child of a site, the sites below the child and the child itself."""
        below: dict[str, set[str]] = {child: set() for child in self.children(site)}
        for other in self.parents:
            for above in self.ancestors(other):
                if above in below:
                    below[above].add(other)
        return {child: frozenset(sites) for child, sites in below.items()}

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The sites without a parent."""
        return tuple(site for site, parent in self.parents.items() if not parent)

    def children(self, site: str) -> tuple[str, ...]:
        """The children of a site in the forest."""
        return tuple(child for child, parent in self.parents.items() if parent == site)

    def primary(self, group: str) -> str:
        """The site to which sources send the messages of a group."""
        return next(site for site, sender in self.routes[group].items() if not sender)

    def receivers(self, site: str, group: str) -> tuple[str, ...]:
        """The sites to which a site sends the messages of a group on."""
        return tuple(receiver for receiver, sender in self.routes[group].items() if sender == site)

    def extra_sites(self, group: str) -> tuple[str, ...]:
        """The sites that handle the messages of a group without being members."""
        return tuple(site for site in self.routes[group] if site not in self.groups[group])

    def depth(self, group: str) -> int:
        """The edges from the primary destination to the member furthest away."""
        return max(len(self.path(group, member)) - 1 for member in self.groups[group])

    def path(self, group: str, member: str) -> list[str]:
        """The sites that a message of a group passes on its way from the primary destination to a member, both included."""
        way = [member]
        while sender := self.routes[group][way[-1]]:
            way.append(sender)
        return way[::-1]

    @cached_property
    def load(self) -> Mapping[str, int]:
        """The number of messages that each site sends and receives if one message is sent to each group (section 4.1.2)."""
        count = Counter(dict.fromkeys(self.parents, 0))
        for route in self.routes.values():
            count.update(route.keys())
            count.update(sender for sender in route.values() if sender)
        return count

    def merge_site(self, site: str, one: str, other: str) -> str:
        """The site that merges the messages of two groups for a site: the top of the common path on which both reach that site."""
        while (sender := self.routes[one][site]) and sender == self.routes[other][site]:
            site = sender
        return site

    def merge_sites(self, one: str, other: str) -> dict[str, str]:
        """For every member of two groups, the site that merged their messages for it."""
        return {site: self.merge_site(site, one, other) for site in self.groups[one] if site in self.groups[other]}

    def one_order(self) -> Iterator[str]:
        """Why sites could deliver messages in different orders; nothing if they cannot."""
        for one, other in combinations(self.groups, 2):
            merging = self.merge_sites(one, other)
            if len(set(merging.values())) > 1:
                told = ", ".join(f"for {site} by {merger}" for site, merger in merging.items())
                yield f"groups {one} and {other} are merged at several sites: {told}"


def check(graph: PropagationGraph) -> dict[str, str]:
    """For each of PG1 to PG4 and the one order: empty if the graph has the property, and otherwise the first counterexample."""
    return {
        "PG1": next(_without_primary(graph), ""),
        "PG2": next(_without_path(graph), ""),
        "PG3": next((f"{graph.primary(name)} is not in {name}" for name in graph.groups if _is_outside(graph, name)), ""),
        "PG4": next((f"{site} is an extra site of {name}" for name in graph.groups for site in graph.extra_sites(name)), ""),
        "one order": next(graph.one_order(), ""),
    }


def _is_outside(graph: PropagationGraph, group: str) -> bool:
    return graph.primary(group) not in graph.groups[group]


def _without_primary(graph: PropagationGraph) -> Iterator[str]:
    for group, route in graph.routes.items():
        primaries = [site for site, sender in route.items() if not sender]
        if len(primaries) != 1:
            yield f"{group} has {len(primaries)} primary destinations"


def _without_path(graph: PropagationGraph) -> Iterator[str]:
    """Every site of a route has one sender, so it has exactly one path, unless the senders form a cycle."""
    for group, route in graph.routes.items():
        for member in graph.groups[group]:
            seen, site = {member}, member
            while sender := route.get(site, NOBODY):
                if sender in seen:
                    yield f"the messages of {group} for {member} go in circles"
                    break
                seen.add(sender)
                site = sender
