"""The runs of a scenario as its claims use them: figures, network, faults, and queries on the tables and event logs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from analysis.figures.summary import Summary
from analysis.judging.check_run import connectivity_of, history_of
from analysis.judging.history import BroadcastEvent, History, MessageId
from analysis.judging.judge import Finding, Promised, check_of
from analysis.judging.parents import Reformation, State, circles, cluster_tree_problems, reformations, state_at, states
from hostagent.contract.promises import TimeBound
from runfiles.event_logs import read_log
from runfiles.format import FaultRecord
from runfiles.parquet import read_parquet
from runfiles.reading import RunInput
from topologies.network import Network, group_name

MOST_KEPT: Final = 2_000_000
"""The deliveries in all histories that are kept: about two gigabytes of memory."""
_kept: dict[int, tuple[RunInput, History]] = {}
"""The histories that were used last, the latest at the end. The paper with the longest runs has thirty of 600,000 deliveries each."""


def _history(run: RunInput) -> History:
    """The history of a run: one that is kept, or read anew."""
    kept = _kept.pop(id(run), None)
    _kept[id(run)] = kept or (run, history_of(run))
    while kept is None and len(_kept) > 1 and sum(len(each.deliveries) for _, each in _kept.values()) > MOST_KEPT:
        del _kept[next(iter(_kept))]
    return _kept[id(run)][1]


class MissingRun(LookupError):
    """A run that the claims are about was not made."""


class Cycle(NamedTuple):
    """A cycle of parents: its hosts, and the interval during which it existed."""

    hosts: tuple[str, ...]
    since_s: float
    until_s: float


class LogLine(NamedTuple):
    """A line of an event log."""

    host: str
    at_ns: int
    event: str
    message: MessageId
    details: dict[str, Any]


@dataclass(frozen=True)
class MeasuredRun:
    """One run. Times are in seconds since the first broadcast, as in scenarios and verdicts."""

    input: RunInput
    summary: Summary

    @property
    def label(self) -> str:
        """The name that distinguishes this run from the other runs of the scenario."""
        return self.summary.label

    @property
    def directory(self) -> Path:
        """The directory of the run."""
        return self.input.directory

    @property
    def network(self) -> Network:
        """The network as built."""
        return self.input.network

    @property
    def source(self) -> str:
        """The host that broadcast first."""
        return self.broadcasts[0].origin

    @property
    def history(self) -> History:
        """Broadcasts and deliveries in the order of time, from the event logs. It takes long to read; `broadcasts` takes a sixth."""
        history = _history(self.input)
        self._found_missing.update(dict.fromkeys(history.damage))
        return history

    @cached_property
    def broadcasts(self) -> tuple[BroadcastEvent, ...]:
        """The broadcasts in the order of time."""
        found = history_of(self.input, {"broadcast"})
        self._found_missing.update(dict.fromkeys(found.damage))
        return found.broadcasts

    @cached_property
    def _found_missing(self) -> dict[str, None]:
        return {}

    @property
    def damage(self) -> tuple[str, ...]:
        """What was missing from the logs when the run was analysed, or when they were read for claims."""
        known = self.history.damage if self.summary.damage is None else self.summary.damage
        return tuple(dict.fromkeys((*known, *self._found_missing)))

    def logged(self, *events: str) -> list[LogLine]:
        """The lines of the event logs of these kinds, also those that only this protocol has, host by host."""
        logs = {host: read_log(host, self.directory / "events" / f"{host}.jsonl", events) for host in self.network.hosts}
        self._found_missing.update((log.problem, None) for log in logs.values() if log.problem)
        return [
            LogLine(host, event.at_ns, event.event, (event.origin, event.sequence), event.details)
            for host, log in logs.items()
            for _, event in log.events
        ]

    def last_ms(self, event: str = "deliver") -> dict[MessageId, float]:
        """How long each message took until the last of its destinations logged this event; of those that all of them logged it for."""
        times: dict[MessageId, list[int]] = {}
        for line in self.logged(event):
            times.setdefault(line.message, []).append(line.at_ns)
        first = {broadcast.message: broadcast for broadcast in reversed(self.broadcasts)}
        expected = {message: len(broadcast.destinations(self.network.hosts)) for message, broadcast in first.items()}
        complete = [message for message in first if len(times.get(message, ())) >= expected[message]]
        return {message: (max(times[message]) - first[message].at_ns) / 1e6 for message in complete}

    def table(self, name: str) -> pa.Table:
        """A table of the run: `packets`, `link_costs`, `message_costs` or `deliveries`."""
        return read_parquet(self.directory / "tables" / f"{name}.parquet")

    def at_s(self, at_ns: int) -> float:
        """A time of a log or a table as seconds since the first broadcast."""
        return (at_ns - self.broadcasts[0].at_ns) / 1e9

    def at_ns(self, at_s: float) -> int:
        """Seconds since the first broadcast as a time of a log or a table."""
        return self.broadcasts[0].at_ns + round(at_s * 1e9)

    def faults(self, *names: str) -> list[tuple[float, FaultRecord]]:
        """The injected faults with these names, by default all, each with the time at which it came into force."""
        chosen = (fault for fault in self.input.faults if not names or fault.fault in names)
        return sorted(((self.at_s(fault.applied_ns), fault) for fault in chosen), key=lambda item: item[0])

    def sent_since(self, since_s: float) -> frozenset[MessageId]:
        """The messages broadcast at this time or later."""
        return frozenset(broadcast.message for broadcast in self.broadcasts if self.at_s(broadcast.at_ns) >= since_s)

    def delivered(self, until_s: float = float("inf")) -> dict[str, frozenset[MessageId]]:
        """The messages that each host had delivered by this time."""
        found: dict[str, set[MessageId]] = {host: set() for host in self.network.hosts}
        for delivery in self.history.deliveries:
            if self.at_s(delivery.at_ns) <= until_s:
                found[delivery.host].add(delivery.message)
        return {host: frozenset(messages) for host, messages in found.items()}

    def expensive_packets(self, messages: frozenset[MessageId]) -> Counter[str]:
        """Host-to-host packets about these messages that crossed an expensive link, by purpose."""
        packets = Counter[str]()
        for row in self.table("message_costs").to_pylist():
            if (row["origin"], row["sequence"]) in messages:
                packets[row["purpose"]] += row["packets"]
        return packets

    def expensive_between(self, since_s: float, until_s: float = float("inf")) -> Counter[str]:
        """All host-to-host packets that first crossed an expensive link in this interval, by purpose."""
        packets = self.table("packets").select(["sender", "packet", "purpose", "expensive", "at_ns"])
        crossed = packets.filter(pc.and_(packets["expensive"], packets["packet"].is_valid()))
        first = crossed.group_by(["sender", "packet"]).aggregate([("at_ns", "min"), ("purpose", "min")])
        there = pc.greater_equal(first["at_ns_min"], self.at_ns(since_s))
        if until_s < float("inf"):
            there = pc.and_(there, pc.less(first["at_ns_min"], self.at_ns(until_s)))
        return Counter(first.filter(there)["purpose_min"].to_pylist())

    def packets_for(self, purpose: str, until_s: float = float("inf")) -> int:
        """The number of host-to-host packets for a purpose, on any links, that were first seen by this time."""
        packets = self.table("packets").select(["sender", "packet", "purpose", "at_ns"])
        chosen = pc.equal(packets["purpose"], purpose)
        if until_s < float("inf"):
            chosen = pc.and_(chosen, pc.less_equal(packets["at_ns"], self.at_ns(until_s)))
        return int(packets.filter(chosen).group_by(["sender", "packet"]).aggregate([]).num_rows)

    def data_packets(self) -> Counter[MessageId]:
        """The number of packets with each message, on any links and without repetitions."""
        packets = self.table("packets").select(["sender", "packet", "purpose", "origin", "sequence"])
        data = (
            packets.filter(pc.equal(packets["purpose"], "data"))
            .group_by(["sender", "packet", "origin", "sequence"])
            .aggregate([])
        )
        return Counter(zip(data["origin"].to_pylist(), data["sequence"].to_pylist(), strict=True))

    def data_spans_ns(self) -> dict[MessageId, tuple[int, int]]:
        """When the first and the last packet with each message left, without repetitions."""
        packets = self.table("packets").select(["sender", "packet", "purpose", "origin", "sequence", "at_ns"])
        data = packets.filter(pc.equal(packets["purpose"], "data"))
        left = data.group_by(["sender", "packet", "origin", "sequence"]).aggregate([("at_ns", "min")])
        spans = left.group_by(["origin", "sequence"]).aggregate([("at_ns_min", "min"), ("at_ns_min", "max")]).to_pylist()
        return {(row["origin"], row["sequence"]): (row["at_ns_min_min"], row["at_ns_min_max"]) for row in spans}

    def reached(self, message: MessageId, sender: str) -> tuple[str, ...]:
        """The hosts to which `sender` sent a packet about a message, itself or in a group, as far as a capture shows the packet."""
        packets = self.table("packets").select(["sender", "destination", "origin", "sequence"])
        about = pc.and_(pc.equal(packets["origin"], message[0]), pc.equal(packets["sequence"], message[1]))
        found = set(packets.filter(pc.and_(about, pc.equal(packets["sender"], sender)))["destination"].to_pylist())
        groups = [{*members} - {sender} for number, members in self.input.members.items() if group_name(number) in found]
        return tuple(host for host in self.network.hosts if host in found.union(*groups))

    def finding(self, promised: Promised) -> Finding:
        """Whether the run kept a guarantee or an order, even one that its protocol does not promise, or a time bound that it does.

        Time bounds were judged when the run was analysed: that takes the datagrams between hosts, which only the tables have.
        """
        if isinstance(promised, TimeBound) and str(promised) in self.summary.checks:
            return self.summary.checks[str(promised)]
        return check_of(promised)(self.history, self.input.run.promise, connectivity_of(self.input))

    @property
    def stream_end_s(self) -> float:
        """When the last message was broadcast."""
        return self.at_s(self.broadcasts[-1].at_ns)

    def highest(self, host: str, at_s: float) -> int:
        """The highest sequence number of the source that a host had delivered by this time."""
        return max((sequence for origin, sequence in self.delivered(at_s)[host] if origin == self.source), default=0)

    def tree(self, at_s: float = float("inf")) -> State:
        """The tree of the source at this time, by default at the end: the clusters, and the parent of every host."""
        at_ns = self.history.ended_ns if at_s == float("inf") else self.at_ns(at_s)
        return state_at(self.network, self.input.faults, self.history, self.source, at_ns)

    def tree_problems(self, at_s: float = float("inf")) -> tuple[str, ...]:
        """Why the parent graph of the source was no cluster tree at this time, by default at the end; empty if it was one."""
        tree = self.tree(at_s)
        return cluster_tree_problems(tree.parents, tree.clusters, self.source)

    def reformations(self) -> tuple[Reformation, ...]:
        """How long the tree of the source took to form, and to form again after every fault."""
        return reformations(self.network, self.input.faults, self.history, self.source)

    def cycles(self) -> list[Cycle]:
        """The cycles of parents among hosts that were connected with the source, each with the interval in which it existed."""
        found: list[Cycle] = []
        standing: dict[frozenset[str], float] = {}
        for state in states(self.network, self.input.faults, self.history, self.source):
            at_s = self.at_s(state.at_ns)
            connected = [host for cluster in state.clusters for host in cluster]
            there = {frozenset(circle) for circle in circles(state.parents, connected) if {*circle} <= {*connected}}
            found += [Cycle(tuple(sorted(c)), since_s, at_s) for c, since_s in standing.items() if c not in there]
            standing = {circle: standing.get(circle, at_s) for circle in there}
        end_s = self.at_s(self.history.ended_ns)
        return [*found, *(Cycle(tuple(sorted(circle)), since_s, end_s) for circle, since_s in standing.items())]


class Runs:
    """The runs of a scenario by label. `used` remembers the runs that claims looked at, since a claim is only as sound as their books."""

    def __init__(self, runs: Sequence[MeasuredRun]) -> None:
        self._runs = {run.label: run for run in runs}
        self.used: dict[str, MeasuredRun] = {}

    def __getitem__(self, label: str) -> MeasuredRun:
        if label not in self._runs:
            raise MissingRun(f"the claim is about the run {label!r}, which was not made")
        return self.used.setdefault(label, self._runs[label])

    def __iter__(self) -> Iterator[MeasuredRun]:
        return (self[label] for label in self._runs)

    def __len__(self) -> int:
        return len(self._runs)
