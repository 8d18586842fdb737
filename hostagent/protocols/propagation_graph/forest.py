"""The graphs of a run as one host knows them: numbered from 0, each with its groups and its forest."""

from collections.abc import Mapping

from hostagent.protocols.propagation_graph.generator import Blind, generate, joined
from hostagent.protocols.propagation_graph.graph import NOBODY

Members = Mapping[int, tuple[str, ...]]
"""The members of each group, by its number."""


class Forest:
    """The tree of one graph: the forest that the generator makes of the groups, with its roots joined."""

    def __init__(self, groups: Members, hosts: tuple[str, ...], method: Blind) -> None:
        named = {str(number): members for number, members in groups.items() if number}
        self.parents = joined(generate(named, hosts, method).parents)

    @property
    def root(self) -> str:
        """The host above all others."""
        return next(host for host, parent in self.parents.items() if parent == NOBODY)

    def path(self, host: str) -> list[str]:
        """A host, its parent, and so on up to the root."""
        found = [host]
        while (parent := self.parents[found[-1]]) != NOBODY:
            found.append(parent)
        return found

    def primary(self, hosts: tuple[str, ...]) -> str:
        """The lowest host that is above all these hosts or one of them."""
        common = self.path(hosts[0])
        for host in hosts[1:]:
            above = set(self.path(host))
            common = [site for site in common if site in above]
        return common[0]

    def below(self, host: str) -> dict[str, frozenset[str]]:
        """For each child of a host, the hosts below the child and the child itself."""
        below: dict[str, set[str]] = {child: set() for child, parent in self.parents.items() if parent == host}
        for other in self.parents:
            for site in self.path(other):
                if site in below:
                    below[site].add(other)
        return {child: frozenset(hosts) for child, hosts in below.items()}


class Graphs:
    """The members of every group in every graph so far, and the forests of graphs."""

    def __init__(self, groups: Members, hosts: tuple[str, ...], method: Blind) -> None:
        self._changes: dict[int, list[tuple[int, tuple[str, ...]]]] = {group: [(0, members)] for group, members in groups.items()}
        self._hosts = hosts
        self._method = method
        self.last = 0
        """The number of the last graph."""

    def members(self, group: int, graph: int) -> tuple[str, ...]:
        """The members of a group in a graph; nobody in a group that does not exist."""
        known = [members for since, members in self._changes.get(group, ()) if since <= graph]
        return known[-1] if known else ()

    def add(self, group: int, members: tuple[str, ...]) -> int:
        """The next graph, in which a group has other members. Returns its number."""
        self.last += 1
        self._changes.setdefault(group, []).append((self.last, members))
        return self.last

    def forest(self, graph: int) -> Forest:
        """The forest of a graph."""
        return Forest({group: self.members(group, graph) for group in self._changes}, self._hosts, self._method)
