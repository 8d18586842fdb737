"""The parent graph of a tree protocol over time: who was whose child, whether the graph was a cluster tree, and how long it took to form.

First paper, section 4.1. The parent graph of a source *induces a cluster tree* when in each cluster one host, the leader, has its parent
in another cluster, all other hosts of the cluster are its children, and following the parents leads from everywhere to the source, which
leads its own cluster and has no parent. The clusters are those of the instant: hosts that run and are joined by cheap links that are up.
Hosts that are cut off from the source cannot be in its tree, and are left out.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import msgspec

from analysis.judging.history import History, ParentChange
from analysis.judging.network_state import Ground, moment
from runfiles.format import FaultRecord
from topologies.network import Network

Cluster = tuple[str, ...]
Clusters = tuple[Cluster, ...]
# A sentence names this many hosts or faults, and gives the number of the others.
MOST_NAMES = 4


class Problem(NamedTuple):
    """Why a parent graph induces no cluster tree, in a sentence, and the hosts that the sentence is about."""

    sentence: str
    hosts: tuple[str, ...]


class State(NamedTuple):
    """The tree of a source at an instant: the clusters it should span, and the parent of each host that has one."""

    at_ns: int
    clusters: Clusters
    parents: Mapping[str, str]
    away: frozenset[str]
    """Hosts that do not run."""
    cause: str = ""
    """The fault or broadcast at this instant; empty if a host changed its parent."""


class Reformation(msgspec.Struct, frozen=True):
    """What a fault, or the first broadcast, did to the tree of a source until the next fault or the end."""

    at_ns: int
    cause: str
    took_ns: int | None
    """Time until the graph induced a cluster tree and kept doing so; None if it did not."""
    leader_changes: int
    parent_changes: int


class LeaderChange(msgspec.Struct, frozen=True):
    """From `at_ns` on, `leader` alone leads these hosts; before that, the host `before` did, or no host."""

    at_ns: int
    cluster: Cluster
    leader: str
    before: str


def sources(history: History) -> tuple[str, ...]:
    """The hosts that are the source of a tree, in the order of hosts."""
    known = {change.source for change in history.parents if change.parent}
    return tuple(host for host in history.hosts if host in known)


def parents_at(changes: Iterable[ParentChange], source: str, at_ns: int) -> dict[str, str]:
    """The parent graph of a source at an instant: the parent of each host that has one."""
    parents: dict[str, str] = {}
    for change in changes:
        if change.source == source and change.at_ns <= at_ns:
            _set(parents, change)
    return parents


def _set(parents: dict[str, str], change: ParentChange) -> None:
    if change.parent:
        parents[change.host] = change.parent
    else:
        parents.pop(change.host, None)


def leaders(parents: Mapping[str, str], cluster: Cluster) -> tuple[str, ...]:
    """The hosts of a cluster that have no parent, or a parent outside the cluster."""
    inside = frozenset(cluster)
    return tuple(host for host in cluster if parents.get(host) not in inside)


def cluster_tree_problems(parents: Mapping[str, str], clusters: Clusters, source: str) -> tuple[str, ...]:
    """Why the parent graph does not induce a cluster tree that is rooted at the source; nothing if it does."""
    return tuple(problem.sentence for problem in problems(parents, clusters, source))


def problems(parents: Mapping[str, str], clusters: Clusters, source: str) -> Iterator[Problem]:
    """Why the parent graph induces no cluster tree, with the hosts concerned, most important problem first."""
    hosts = [host for cluster in clusters for host in cluster]
    known = frozenset(hosts)
    if source not in known:
        yield Problem(f"{source}, the source, is down", (source,))
        return
    if source in parents:
        yield Problem(f"{source} is the source, but a child of {parents[source]}", (source,))
    for host in hosts:
        if host != source and host not in parents:
            yield Problem(f"{host} has no parent", (host,))
        elif host != source and parents[host] not in known:
            yield Problem(f"{host} is a child of {parents[host]}, which is down or cut off", (host,))
    for circle in circles(parents, hosts):
        yield Problem(f"{' is a child of '.join([*circle, circle[0]])}, in a circle", circle)
    for cluster in clusters:
        yield from _cluster_problems(parents, cluster)


def circles(parents: Mapping[str, str], hosts: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Every cycle of parents that can be reached from these hosts, once, starting with its first host."""
    done: set[str] = set()
    for start in hosts:
        way: dict[str, None] = {}
        host: str | None = start
        while host is not None and host not in done and host not in way:
            way[host] = None
            host = parents.get(host)
        if host is not None and host in way:
            names = tuple(way)
            yield names[names.index(host) :]
        done.update(way)


def _cluster_problems(parents: Mapping[str, str], cluster: Cluster) -> Iterator[Problem]:
    leading = leaders(parents, cluster)
    if len(leading) > 1:
        yield Problem(f"{named(leading)} {'both' if len(leading) == 2 else 'all'} lead the cluster {named(cluster)}", leading)
    if len(leading) == 1:
        for host in cluster:
            if host not in leading and parents[host] != leading[0]:
                sentence = f"{host} is a child of {parents[host]}, but {leading[0]} leads their cluster"
                yield Problem(sentence, (host, parents[host], leading[0]))


def named(names: Sequence[str]) -> str:
    """Names as a list in words; of many names, the first ones and the number of the others."""
    shown = list(names) if len(names) <= MOST_NAMES + 1 else [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def clusters_around(ground: Ground, source: str) -> Clusters:
    """The clusters of this instant that are connected with a source; none if the source is down."""
    part_of = ground.parts()
    if source not in ground.running:
        return ()
    return tuple(cluster for cluster in ground.clusters() if part_of[cluster[0]] == part_of[source])


def states(network: Network, faults: Iterable[FaultRecord], history: History, source: str) -> Iterator[State]:
    """The tree of a source at its first broadcast, and after every fault and every change of a parent since the run began.

    Faults at one instant, as when a partition pulls several links, are one change. All states share one mapping of parents, which changes.
    """
    parents: dict[str, str] = {}
    changes = [change for change in history.parents if change.source == source]
    now, done = _Around(Ground(network), source), 0
    marks = [*_first_broadcast(history, source), *_grounds(network, faults, source)]
    for at_ns, cause, after in sorted(marks, key=lambda mark: mark[0]):
        until = bisect_left(changes, at_ns, lo=done, key=lambda change: change.at_ns)
        yield from _apply(changes[done:until], parents, now)
        now, done = after or now, until
        yield State(at_ns, now.clusters, parents, now.away, cause)
    yield from _apply(changes[done:], parents, now)


class _Around:
    """The clusters around a source, and the hosts that do not run."""

    def __init__(self, ground: Ground, source: str) -> None:
        self.clusters = clusters_around(ground, source)
        self.away = ground.away


def _apply(changes: Iterable[ParentChange], parents: dict[str, str], now: _Around) -> Iterator[State]:
    for change in changes:
        _set(parents, change)
        yield State(change.at_ns, now.clusters, parents, now.away)


_Mark = tuple[int, str, _Around | None]
"""When something happened, what, and the new surroundings of the source, if they changed."""


def _first_broadcast(history: History, source: str) -> Iterator[_Mark]:
    for broadcast in history.broadcasts:
        if broadcast.origin == source:
            yield broadcast.at_ns, "first broadcast", None
            return


def _grounds(network: Network, faults: Iterable[FaultRecord], source: str) -> Iterator[_Mark]:
    """The ground after each fault; after several faults at one instant, only the last."""
    ordered = sorted(faults, key=moment)
    ground = Ground(network)
    for at_ns, together in groupby(ordered, key=moment):
        happened: dict[str, None] = {}
        for fault in together:
            happened[f"{fault.fault} {fault.target}".rstrip()] = None
            ground.apply(fault)
        yield at_ns, named(list(happened)), _Around(ground, source)


def state_at(network: Network, faults: Iterable[FaultRecord], history: History, source: str, at_ns: int) -> State:
    """The tree of a source at an instant."""
    around = _Around(ground_at(network, faults, at_ns), source)
    return State(at_ns, around.clusters, parents_at(history.parents, source, at_ns), around.away)


def ground_at(network: Network, faults: Iterable[FaultRecord], at_ns: int) -> Ground:
    """Links, switches and hosts at an instant."""
    ground = Ground(network)
    for fault in sorted(faults, key=moment):
        if moment(fault) <= at_ns:
            ground.apply(fault)
    return ground


def leader_changes(network: Network, faults: Iterable[FaultRecord], history: History, source: str) -> tuple[LeaderChange, ...]:
    """Every time that a host becomes the only leader of a cluster and was not before."""
    watch = _Leaders()
    return tuple(change for state in states(network, faults, history, source) for change in watch.see(state))


def reformations(network: Network, faults: Iterable[FaultRecord], history: History, source: str) -> tuple[Reformation, ...]:
    """How long it took to form the tree from the first broadcast of the source on, and to form it again after every fault."""
    windows: list[_Window] = []
    watch = _Leaders()
    for state in states(network, faults, history, source):
        led = len(watch.see(state))
        if state.cause:
            windows.append(_Window(state.at_ns, state.cause))
        for window in windows[-1:]:
            stands = next(problems(state.parents, state.clusters, source), None) is None
            window.stands_since_ns = (
                (window.stands_since_ns if window.stands_since_ns is not None else state.at_ns) if stands else None
            )
            window.leader_changes += led
            window.parent_changes += not state.cause
    return tuple(window.told() for window in windows)


@dataclass
class _Window:
    """The time from a fault, or the first broadcast, to the next fault."""

    at_ns: int
    cause: str
    stands_since_ns: int | None = None
    leader_changes: int = 0
    parent_changes: int = 0

    def told(self) -> Reformation:
        took_ns = None if self.stands_since_ns is None else self.stands_since_ns - self.at_ns
        return Reformation(self.at_ns, self.cause, took_ns, self.leader_changes, self.parent_changes)


class _Leaders:
    """The only leader of each host's cluster."""

    def __init__(self) -> None:
        self._led_by: dict[str, str] = {}

    def see(self, state: State) -> list[LeaderChange]:
        """The new leaders. A cluster with several leaders, or none, keeps its last one; for a host that is down the leader is forgotten."""
        found = []
        for host in state.away:
            self._led_by.pop(host, None)
        for cluster in state.clusters:
            leading = leaders(state.parents, cluster)
            if len(leading) == 1:
                known = {self._led_by[host] for host in cluster if host in self._led_by}
                if known != {*leading}:
                    before = known - {*leading}
                    found.append(LeaderChange(state.at_ns, cluster, leading[0], min(before, default="")))
                self._led_by |= dict.fromkeys(cluster, leading[0])
        return found
