"""The ways of messages down a forest of hosts, as its hosts reported it, and the times that chapter 4 of the third paper is about."""

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from analysis.figures.measured import MeasuredRun
from analysis.judging.history import MessageId


class Way(NamedTuple):
    """The way of a message: from its source to the primary destination, and from there to all its destinations."""

    primary: str
    hosts: tuple[str, ...]
    """Every host that handles the message: the destinations, and the extra hosts on the way to them."""
    inner: int
    """How many of the hosts pass it on."""
    depth: int
    """The edges from the primary destination to the destination furthest down."""
    extra: int

    def packets(self, origin: str, *, multicasts: bool) -> int:
        """The data packets of the message: n + e, or where the network multicasts one from each host that passes it on.

        One more goes from the source to the primary destination, unless that is the source itself.
        """
        return (self.inner if multicasts else len(self.hosts) - 1) + (origin != self.primary)


def way_of(destinations: Collection[str], parents: Mapping[str, str]) -> Way:
    """The way to some destinations in a forest."""
    paths = [_path(host, parents) for host in destinations]
    primary = next(host for host in paths[0] if all(host in path for path in paths))
    ways = [path[: path.index(primary) + 1] for path in paths]
    hosts = tuple(dict.fromkeys(host for way in ways for host in reversed(way)))
    inner = {parents[host] for host in hosts if host != primary}
    return Way(primary, hosts, len(inner), max(map(len, ways)) - 1, len(hosts) - len({*destinations}))


def _path(host: str, parents: Mapping[str, str]) -> list[str]:
    """A host, its parent, and so on up to the root."""
    found = [host]
    while parent := parents.get(found[-1]):
        found.append(parent)
    return found


def ways(run: MeasuredRun) -> dict[MessageId, Way]:
    """The way of each message, in a run whose forest does not change."""
    parents = {change.host: change.parent for change in run.history.parents}
    return {message: way_of(hosts, parents) for message, hosts in run.history.destinations.items()}


class HopTimes(NamedTuple):
    """The third paper's L and P, as the longest times in a run."""

    latency_ms: float
    """L: from when a packet with a message leaves the link of its sender to when it arrives on that of a receiver."""
    process_ms: float
    """P: from when a host broadcasts, gets or sends a packet with a message to when its next packet with it leaves."""


def hop_times(run: MeasuredRun) -> HopTimes:
    """L and P, from the data packets on the links of hosts."""
    seen = run.table("packets").select(["source", "target", "sender", "packet", "purpose", "origin", "sequence", "at_ns"])
    seen = seen.filter(pc.equal(seen["purpose"], "data"))
    left = _first(seen.filter(pc.equal(seen["source"], seen["sender"])), ["sender", "packet", "origin", "sequence"], "left_ns")
    hosts = pa.array(run.network.hosts)
    arrived = _first(seen.filter(pc.is_in(seen["target"], value_set=hosts)), ["sender", "packet", "target"], "arrived_ns")
    both = left.join(arrived, ["sender", "packet"], join_type="inner")
    latency_ns = pc.max(pc.subtract(both["arrived_ns"], both["left_ns"])).as_py() or 0
    handled: dict[tuple[str, MessageId], list[tuple[int, bool]]] = {}
    for broadcast in run.broadcasts:
        handled.setdefault((broadcast.origin, broadcast.message), []).append((broadcast.at_ns, False))
    for table, host, at_ns, leaves in ((both, "target", "arrived_ns", False), (left, "sender", "left_ns", True)):
        for row in table.to_pylist():
            handled.setdefault((row[host], (row["origin"], row["sequence"])), []).append((row[at_ns], leaves))
    return HopTimes(latency_ns / 1e6, max(map(_longest_ns, handled.values()), default=0) / 1e6)


def _longest_ns(events: list[tuple[int, bool]]) -> int:
    """The longest time before a packet left, since the event before."""
    return max((at_ns - before_ns for (before_ns, _), (at_ns, leaves) in pairwise(sorted(events)) if leaves), default=0)


def _first(seen: pa.Table, keys: list[str], name: str) -> pa.Table:
    """The first sighting of each packet."""
    return seen.group_by(keys).aggregate([("at_ns", "min")]).rename_columns([*keys, name])
