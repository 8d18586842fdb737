"""The graphs of a run as one host knows them: numbered from 0, each with its groups."""

from collections.abc import Callable, Mapping

from hostagent.contract.environment import Environment
from hostagent.protocols.propagation_graph.generator import Distance, Method, alike, generate, improved, joined
from hostagent.protocols.propagation_graph.graph import NOBODY
from hostagent.protocols.propagation_graph.graph import PropagationGraph as Graph

Members = Mapping[int, tuple[str, ...]]
"""The members of each group, by its number."""
MakeTree = Callable[[Members, tuple[str, ...]], Graph]
"""The tree of some hosts with some groups, the same at every host."""


class Graphs:
    """The members of every group in every graph so far. The first graph may have a shape of its own."""

    def __init__(self, groups: Members, hosts: tuple[str, ...], make_tree: MakeTree, make_first: MakeTree) -> None:
        self._changes: dict[int, list[tuple[int, tuple[str, ...]]]] = {group: [(0, members)] for group, members in groups.items()}
        self._hosts = hosts
        self._make_tree, self._make_first = make_tree, make_first
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
        """The tree of a graph."""
        groups = {group: self.members(group, graph) for group in self._changes if group}
        return (self._make_tree if graph else self._make_first)(groups, self._hosts)


def tree(
    groups: Members,
    hosts: tuple[str, ...],
    method: Method,
    distance: Distance = alike,
    children: int = 0,
    *,
    independent: bool = False,
) -> Graph:
    """The tree of these hosts: the forest that the generator makes of their groups, changed as asked for, with the roots joined."""
    inside = {str(group): tuple(host for host in members if host in hosts) for group, members in groups.items()}
    peopled = {group: members for group, members in inside.items() if members}
    forest = improved(generate(peopled, hosts, method, distance), children, independent=independent)
    return Graph(peopled, joined(forest.parents), forest.bypasses)


def log_parent(env: Environment, tree: Graph, before: tuple[str, str]) -> tuple[str, str]:
    """Log the parent of a host if it is not the one of before. Returns the root of the tree, and the parent there."""
    now = tree.roots[0], tree.parents.get(env.host, NOBODY)
    if now != before:
        # The tree is drawn and looked up under its root; under a former root this host has no parent any more.
        for source, parent in {before[0]: NOBODY, now[0]: now[1]}.items():
            if source:
                env.trace("parent", source=source, parent=parent)
    return now


class Place:
    """The place of a host in the tree of a graph: where messages enter the tree, and to whom this host passes them on.

    A message to a group takes the group's route, which may bypass hosts; any other message takes the edges of the tree.
    """

    def __init__(self, tree: Graph, host: str) -> None:
        self.tree, self.host = tree, host
        self.below = tree.below(host)
        """For each child, the hosts below the child and the child itself."""
        self._primaries: dict[tuple[int, tuple[str, ...]], str] = {}

    @property
    def senders(self) -> set[str]:
        """The hosts that pass messages on to this one."""
        past = {sender for (_, receiver), sender in self.tree.bypasses.items() if receiver == self.host}
        return past | ({self.tree.parents[self.host]} - {NOBODY})

    @property
    def receivers(self) -> tuple[str, ...]:
        """The hosts that this one passes messages on to."""
        past = [receiver for (_, receiver), sender in self.tree.bypasses.items() if sender == self.host]
        return tuple(dict.fromkeys((*self.below, *past)))

    def primary(self, group: int, hosts: tuple[str, ...]) -> str:
        """The primary destination of messages to these hosts. There are few sets of hosts, and many messages."""
        key = group, hosts
        if key not in self._primaries:
            routed = self._has_route(group, hosts)
            self._primaries[key] = self.tree.primary(str(group)) if routed else self.tree.common_ancestor(hosts)
        return self._primaries[key]

    def next_hosts(self, group: int, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """The hosts to which this one passes a message on: those that are or lead to its destinations."""
        if self._has_route(group, hosts):
            return self.tree.receivers(self.host, str(group))
        return tuple(child for child, below in self.below.items() if not below.isdisjoint(hosts))

    def _has_route(self, group: int, hosts: tuple[str, ...]) -> bool:
        return bool(self.tree.bypasses) and self.tree.groups.get(str(group)) == hosts
