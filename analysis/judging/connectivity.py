"""Which hosts could have had which message: the network as the injected faults made it, over time.

Time is divided into intervals in which nothing changes. Two hosts are connected as long as both run and the routes join them, over any
number of intervals. A protocol must have used a way that stays open for its *patience*; for a way that the end of the run cut shorter,
nothing can be said. `analysis.judging.network_state` says which links and hosts count.

Hosts. A host that crashes and does not come back is not correct, and nothing is asked of it. A host that comes back with its storage is
correct, and so is a paused one. A host that comes late counts as one that was down until then: it must get what a way that stays open can
still bring it, also messages from before it came. A host that departs, or never comes, is not correct. A host that comes back without its
storage does not count in promises to deliver: nothing is asked of it, and no other host relies on it. Its deliveries are judged by all
rules on what may be delivered, but each life apart from the lives before.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import compress
from typing import NamedTuple

from analysis.judging.history import BroadcastEvent
from analysis.judging.network_state import Ground, timeline
from hostagent.contract.promises import Carrier, Promise
from runfiles.format import FaultRecord
from topologies.network import Network

Connected = tuple[int, int]
"""From when until when two hosts are connected without interruption."""


class Interval(NamedTuple):
    """A time in which nothing changes, and for each live host the number of the part of the network that it is in."""

    start_ns: int
    end_ns: int
    part_of: Mapping[str, int]


class Reach(NamedTuple):
    """The hosts that must have a message before the end, each with the time when; and the hosts for which the run was too short."""

    by_ns: Mapping[str, int]
    too_soon: frozenset[str]


class Connectivity:
    """Who was connected with whom and when, in a run of a network with faults."""

    def __init__(
        self, network: Network, faults: Iterable[FaultRecord] = (), ended_ns: int = 2**63 - 1, started_ns: int = 0
    ) -> None:
        faults = tuple(faults)
        self.hosts = network.hosts
        self.ended_ns = ended_ns
        self.last_fault_ns = max((fault.applied_ns for fault in faults), default=None)
        self.restarts: dict[str, list[int]] = defaultdict(list)
        self.crashes: dict[str, list[Connected]] = defaultdict(list)
        """For each host that crashed, from when until when it may have died: when each crash was asked for and when it was in force."""
        self.deaf_since: dict[str, int] = {}
        """For each host that was to throw messages away on arrival, since when; which ones and when it did is not recorded."""
        self._losses: dict[str, list[int]] = defaultdict(list)
        self._stretch = max((1 / _clock_rate(fault) for fault in faults if fault.fault == "clock"), default=1.0)
        self.intervals = tuple(self._cut(network, faults, started_ns))
        self._kinds = _Kinds(network.hosts, self.intervals)

    def _cut(self, network: Network, faults: Iterable[FaultRecord], started_ns: int) -> Iterator[Interval]:
        """The intervals. As a side effect, notes restarts and losses of storage, and the correct hosts and clusters at the end."""
        ground = Ground(network)
        since_ns, part_of = started_ns, _live_parts(ground)
        for at_ns, fault, ground in timeline(network, faults):
            self._remember(fault, ground)
            after = _live_parts(ground)
            if at_ns >= self.ended_ns:
                break
            if after != part_of:
                if at_ns > since_ns:
                    yield Interval(since_ns, at_ns, part_of)
                since_ns, part_of = max(at_ns, since_ns), after
        self.correct = frozenset(network.hosts) - ground.crashed - ground.amnesic - ground.absent
        self.clusters = ground.clusters()
        """The clusters at the end."""
        yield Interval(since_ns, max(self.ended_ns, since_ns), part_of)

    def _remember(self, fault: FaultRecord, after: Ground) -> None:
        if fault.fault == "crash":
            self.crashes[fault.target].append((fault.asked_ns, fault.applied_ns))
        elif fault.fault == "drop-message":
            self.deaf_since.setdefault(fault.target, fault.asked_ns)
        elif fault.fault == "restart":
            self.restarts[fault.target].append(fault.applied_ns)
            if fault.details.get("storage") == "lost" and fault.target in after.amnesic:
                self._losses[fault.target].append(fault.asked_ns)

    @property
    def amnesic(self) -> frozenset[str]:
        """The hosts that ever lost their storage."""
        return frozenset(self._losses)

    def away(self, host: str) -> list[Connected]:
        """When a host that never lost its storage did not run, because it was down or paused."""
        return self._kinds.away(host)

    def kind(self, host: str) -> int:
        """A number that hosts share if they were up and connected with the same others at all times."""
        return self._kinds.kind_of[host]

    @property
    def is_whole(self) -> bool:
        """Whether at the end every host ran and all were connected."""
        part_of = self.intervals[-1].part_of
        return len(part_of) == len(self.hosts) and len(set(part_of.values())) == 1

    def parts_at_end(self, quorum: int) -> dict[str, int]:
        """The part of the network that each host is in at the end, without the hosts of parts that have fewer correct hosts than this."""
        part_of = self.intervals[-1].part_of
        sizes = Counter(part for host, part in part_of.items() if host in self.correct)
        return {host: part for host, part in part_of.items() if sizes[part] >= quorum}

    @property
    def faults_ended_ns(self) -> int:
        """Since when nothing has changed and no fault was injected."""
        return max(self.intervals[-1].start_ns, self.last_fault_ns or 0)

    def patience_ns(self, promise: Promise) -> int:
        """How long a way must be open; longer if a clock runs slow, since its host waits longer before it tries again."""
        return round(promise.patience_ms * 1e6 * max(self._stretch, 1.0))

    def life(self, host: str, at_ns: int) -> int:
        """How often a host had lost its storage by `at_ns`."""
        return bisect_right(self._losses[host], at_ns) if host in self._losses else 0

    def connected_with(self, host: str, at_ns: int) -> tuple[str, ...]:
        """The other hosts that `host` was connected with at `at_ns`, or, if it was down by then, just before its crash."""
        until = bisect_right([interval.start_ns for interval in self.intervals], at_ns)
        for interval in reversed(self.intervals[:until]):
            part = interval.part_of.get(host)
            if part is not None:
                return tuple(other for other, its_part in interval.part_of.items() if its_part == part and other != host)
        return ()

    def together(self, one: str, other: str) -> list[Connected]:
        """When two hosts both ran and were connected."""
        return self._kinds.between(one, other)

    def could_reach(self, broadcast: BroadcastEvent, carrier: Carrier, patience_ns: int) -> Reach:
        """The hosts that a message could have reached by the end, and by when."""
        return self.reach({broadcast.origin: broadcast.at_ns}, carrier, patience_ns, broadcast.to or ())

    def reach(self, holders: Mapping[str, int], carrier: Carrier, patience_ns: int, among: Iterable[str] = ()) -> Reach:
        """The hosts that a message could have reached if several hosts have it, each from its own time on.

        Only the hosts in `among`, by default all, get the message and pass it on.
        """
        arrival, has = self._kinds.spread(holders, carrier, patience_ns, among)
        by_ns = {host: at_ns for kind, at_ns in arrival.items() for host in self._kinds.members[kind]}
        open_to = {kind for holder in has for kind in self._kinds.open_at_end(holder)} - arrival.keys()
        return Reach(by_ns, frozenset(host for kind in open_to for host in self._kinds.members[kind]))


class _Kinds:
    """Classes of hosts that are in the same part in every interval: what is true of one host of a kind is true of all.

    A run without faults has one kind, however many hosts it has. So ways are computed between kinds.
    """

    def __init__(self, hosts: tuple[str, ...], intervals: tuple[Interval, ...]) -> None:
        self._intervals = intervals
        kinds: dict[tuple[int | None, ...], list[str]] = {}
        for host in hosts:
            kinds.setdefault(tuple(interval.part_of.get(host) for interval in intervals), []).append(host)
        self._parts = list(kinds)
        self.members = list(kinds.values())
        self.kind_of = {host: kind for kind, members in enumerate(self.members) for host in members}
        self._runs: dict[tuple[int, int], list[Connected]] = {}

    def between(self, one: str, other: str) -> list[Connected]:
        """When two hosts are connected."""
        return self.runs(self.kind_of[one], self.kind_of[other])

    def runs(self, one: int, other: int) -> list[Connected]:
        """When hosts of two kinds, or two of one kind, are connected."""
        key = min(one, other), max(one, other)
        if key not in self._runs:
            self._runs[key] = self._find_runs(*key)
        return self._runs[key]

    def _find_runs(self, one: int, other: int) -> list[Connected]:
        parts = zip(self._parts[one], self._parts[other], strict=True)
        return self._joined(part is not None and part == its_part for part, its_part in parts)

    def away(self, host: str) -> list[Connected]:
        """When a host is in no part of the network."""
        return self._joined(part is None for part in self._parts[self.kind_of[host]])

    def _joined(self, chosen: Iterable[bool]) -> list[Connected]:
        """The chosen intervals, adjacent ones merged."""
        found: list[Connected] = []
        for interval in compress(self._intervals, chosen):
            if found and found[-1][1] == interval.start_ns:
                found[-1] = found[-1][0], interval.end_ns
            else:
                found.append((interval.start_ns, interval.end_ns))
        return found

    def open_at_end(self, kind: int) -> list[int]:
        """The kinds that are connected with this one when the run ends."""
        part = self._parts[kind][-1]
        return [other for other, parts in enumerate(self._parts) if part is not None and parts[-1] == part]

    def spread(
        self, holders: Mapping[str, int], carrier: Carrier, patience_ns: int, among: Iterable[str]
    ) -> tuple[dict[int, int], set[int]]:
        """By when each kind must have a message, and the kinds that had the message and could pass it on.

        Only the kinds of the hosts in `among`, by default all, get the message.

        Dijkstra's algorithm finds the earliest arrival over ways that open and close: the kind that has the message first goes first.
        """
        arrival: dict[int, int] = {}
        heap: list[tuple[int, int]] = []
        for host, since_ns in holders.items():
            heappush(heap, (since_ns, self.kind_of[host]))
        passed_on: set[int] = set()
        getting = sorted({self.kind_of[host] for host in among}) or range(len(self.members))
        while heap:
            since_ns, holder = heappop(heap)
            if holder in passed_on:
                continue
            passed_on.add(holder)
            for kind in getting:
                at_ns = self._arrives(holder, kind, since_ns, patience_ns)
                if at_ns is not None and at_ns < arrival.get(kind, at_ns + 1):
                    arrival[kind] = at_ns
                    if carrier is Carrier.ANYONE:
                        heappush(heap, (at_ns, kind))
        return arrival, passed_on

    def _arrives(self, holder: int, kind: int, since_ns: int, patience_ns: int) -> int | None:
        for start_ns, end_ns in self.runs(holder, kind):
            at_ns = max(start_ns, since_ns)
            if at_ns < end_ns and at_ns + patience_ns <= end_ns:
                return at_ns + patience_ns
        return None


def _live_parts(ground: Ground) -> dict[str, int]:
    part_of = ground.parts()
    return {host: part_of[host] for host in ground.alive}


def _clock_rate(fault: FaultRecord) -> float:
    return 1 + float(fault.details.get("drift_ppm") or 0) / 1e6
