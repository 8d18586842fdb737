"""The graphs of a run as one host knows them: numbered from 0, each with its groups."""

from collections.abc import Mapping

from hostagent.protocols.propagation_graph.generator import Distance, Method, alike, generate, joined
from hostagent.protocols.propagation_graph.graph import PropagationGraph as Graph

Members = Mapping[int, tuple[str, ...]]
"""The members of each group, by its number."""


class Graphs:
    """The members of every group in every graph so far."""

    def __init__(self, groups: Members, hosts: tuple[str, ...], method: Method, distance: Distance = alike) -> None:
        self._changes: dict[int, list[tuple[int, tuple[str, ...]]]] = {group: [(0, members)] for group, members in groups.items()}
        self._hosts = hosts
        self._method: Method = method
        self._distance = distance
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

    def tree(self, graph: int) -> Graph:
        """The tree of a graph: the forest that the generator makes of its groups, with the roots joined."""
        groups = {group: self.members(group, graph) for group in self._changes if group}
        return tree(groups, self._hosts, self._method, self._distance)


def tree(groups: Members, hosts: tuple[str, ...], method: Method, distance: Distance = alike) -> Graph:
    """The tree of these hosts: the forest that the generator makes of their groups, with the roots joined."""
    inside = {str(group): tuple(host for host in members if host in hosts) for group, members in groups.items()}
    peopled = {group: members for group, members in inside.items() if members}
    return Graph(peopled, joined(generate(peopled, hosts, method, distance).parents), {})
