"""Counts what happens in a network while it runs, from the hosts' event logs and the captures of expensive links."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hostagent.contract.events import Event
from hostagent.contract.wire import FIELDS, MAGIC
from scenarios.faults import trunks
from sparkpcap.captures import Capture, Form
from sparkpcap.files import open_source
from sparkpcap.layers import decode, fields
from testbed.live.happenings import Happenings
from testbed.live.snapshot import PURPOSES, GraphNow, HostNow, LinkNow, Snapshot
from testbed.running.growing_logs import EventLogs
from testbed.running.runner import Stage
from topologies import Link
from topologies.properties import described

_HEADER = np.dtype({"names": [f[0] for f in FIELDS], "offsets": [f[1] for f in FIELDS], "formats": [f[2] for f in FIELDS]})


class Ledger:
    """The counts of a network so far, and snapshots of them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._network = stage.emulation.network
        self._logs = EventLogs(stage.agents)
        self._began = time.monotonic()
        self._happenings = Happenings(time.time_ns())
        self._faults_told = 0
        self._broadcasts: Counter[str] = Counter()
        self._owed: Counter[str] = Counter()
        self._members = dict(stage.task.scenario.members)
        self._views: dict[int, int] = {}
        self._delivered: dict[str, set[tuple[str, int]]] = {host: set() for host in self._network.hosts}
        self._parents: dict[str, dict[str, str]] = {host: {} for host in self._network.hosts}
        self._token: tuple[int, str] | None = None
        """The newest generation of the token, and who has it; nobody while it is on its way."""
        self._committed: dict[str, str] = {}
        self._graphs: dict[str, dict[str, Any]] = {}
        """What each host has said of its propagation graph last."""
        self._tails = {
            (capture.source, capture.target): _Tail(stage.task.output / capture.file, stage.agents.setting.run)
            for capture in stage.captures.planned
            if self._network.link(capture.source, capture.target).expensive
        }
        self._crossed: Counter[str] = Counter()
        self._known: set[tuple[int, int]] = set()

    def snapshot(self, name: str, interval_ms: float, problems: Iterable[str]) -> Snapshot:
        """The state of the network now."""
        self._read()
        task = self._stage.task
        return Snapshot(
            name=name,
            network=self._network.name,
            protocol=task.protocol,
            results=str(task.output.absolute()),
            at_s=time.monotonic() - self._began,
            interval_ms=interval_ms,
            broadcasts=dict(self._broadcasts),
            expensive_packets={purpose: self._crossed[purpose] for purpose in PURPOSES},
            lower_bound=self._network.lower_bound,
            hosts=tuple(map(self._host, self._network.hosts)),
            links=tuple(map(self._link, trunks(self._network))),
            clusters=self._network.clusters,
            problems=tuple(problems),
            groups={name: self._members[group] for name, group in self._stage.injector.groups.items() if group in self._members},
            token=f"{self._token[1] or 'on its way'}, generation {self._token[0]}" if self._token else "",
            happenings=self._happenings.latest,
        )

    def _read(self) -> None:
        """Read what is new in event logs and captures."""
        news = self._logs.news()
        for host, event in news:
            self._note(host, event)
        faults = self._stage.injector.records
        self._happenings.add(news, faults[self._faults_told :])
        self._faults_told = len(faults)
        for tail in self._tails.values():
            for purpose, key in tail.news():
                tail.packets[purpose] += 1
                if key not in self._known:
                    self._known.add(key)
                    self._crossed[purpose] += 1

    def _note(self, host: str, event: Event) -> None:
        match event.event:
            case "broadcast":
                self._broadcasts[host] += 1
                self._owed.update(event.details.get("to", self._network.hosts))
            case "group" | "view" if event.details.get("view", 0) >= self._views.get(event.details["group"], 0):
                self._views[event.details["group"]] = event.details.get("view", 0)
                self._members[event.details["group"]] = tuple(event.details["members"])
            case "deliver":
                self._delivered[host].add((event.origin, event.sequence))
            case "commit":
                self._committed[host] = f"{event.origin}:{event.sequence}"
            case "token" if self._token is None or event.details["generation"] >= self._token[0]:
                self._token = event.details["generation"], host if event.details["held"] else ""
            case "start":
                self._parents[host].clear()
            case "graph":
                self._graphs[host] = event.details
            case "parent":
                self._parents[host][event.details["source"]] = event.details["parent"]

    def _host(self, host: str) -> HostNow:
        delivered = self._delivered[host]
        # Logs are read one after the other, so a delivery can be known before its broadcast.
        missing = max(0, self._owed[host] - len(delivered))
        parents = {source: parent for source, parent in self._parents[host].items() if parent}
        graph = self._graph(host, lacks=missing > 0) if host in self._graphs else None
        committed = self._committed.get(host, "")
        return HostNow(host, self._state(host), len(delivered), missing, parents, graph, committed)

    def _state(self, host: str) -> str:
        agents = self._stage.agents
        down = "departed" if host in agents.absent else "crashed"
        return down if host not in agents.running else "paused" if agents.is_paused(host) else "up"

    def _graph(self, host: str, *, lacks: bool) -> GraphNow:
        said = self._graphs[host]
        names = {number: name for name, number in self._stage.injector.groups.items()}
        primary_of = tuple(names.get(number, f"group {number}") for number in said["primary_of"])
        return GraphNow(said["number"], said["closed"], primary_of, self._nearest_down(host) if lacks else "")

    def _nearest_down(self, host: str) -> str:
        """The nearest host above a host that is not up; empty if all are. While graphs change, hosts may name each other as parents."""
        above = [host]
        while parent := next(filter(None, self._parents[above[-1]].values()), ""):
            if self._state(parent) != "up":
                return parent
            if parent in above:
                break
            above.append(parent)
        return ""

    def _link(self, link: Link) -> LinkNow:
        injector = self._stage.injector
        ways = {(a, b): injector.current[a, b] for a, b in ((link.a, link.b), (link.b, link.a))}
        changed = {f"{a}->{b}": described(now, link) for (a, b), now in ways.items() if now != link}
        both = len(changed) == len(ways) and len(set(changed.values())) == 1
        tails = {f"{a}->{b}": self._tails[a, b] for a, b in ways if (a, b) in self._tails}
        return LinkNow(
            link=link.name,
            a=link.a,
            b=link.b,
            expensive=link.expensive,
            up=link.name not in injector.pulled,
            changes=next(iter(changed.values())) if both else "; ".join(f"{way} {shape}" for way, shape in changed.items()),
            packets={way: dict(tail.packets) for way, tail in tails.items()},
        )


class _Tail:
    """A capture that is read while it grows."""

    def __init__(self, path: Path, run: int) -> None:
        self.packets: Counter[str] = Counter()
        self._path = path
        self._run = run
        self._at = 0
        self._form: Form | None = None

    def news(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """The purpose and the identity of each new packet; the identity is the packet's sender and number."""
        source = open_source(str(self._path))
        try:
            growing = Capture(source, self._at, form=self._form)
            for packets in growing:
                records, there, _ = fields(packets, decode(packets), _HEADER)
                ours = records[there & (records["magic"] == MAGIC) & (records["run"] == self._run)]
                for purpose, sender, packet in ours[["purpose", "sender", "packet"]].tolist():
                    yield PURPOSES[purpose], (sender, packet)
            self._at, self._form = growing.at, growing.form
        finally:
            source.close()
