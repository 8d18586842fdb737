"""A stage for protocols: the test world of the cores with a clock, crashes and cut-off hosts, that writes down a history and its faults.

Every host has a switch of its own, hi at si, and all switches are joined to s0. Packets arrive one
by one, a millisecond each; the one sent first arrives first, unless `choose` says otherwise. Every second each host is sampled, as an agent
does it.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from analysis.judging.connectivity import Connectivity
from analysis.judging.history import History, Transit, make
from hostagent.contract.core import Core
from hostagent.contract.events import Event
from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Carrier, Promise
from hostagent.contract.wire import Part
from hostagent.runtime.memory import retained_items
from runfiles.format import FaultRecord
from tests.hostagent.world import Packet, World
from topologies.network import Link, Network

SECOND = 10**9


def star(size: int) -> Network:
    """The network of a stage."""
    numbers = range(1, size + 1)
    trunks = (Link("s0", f"s{n}") for n in numbers)
    return Network(
        name="star",
        hosts=tuple(f"h{n}" for n in numbers),
        switches=("s0", *(f"s{n}" for n in numbers)),
        links=(*(Link(f"h{n}", f"s{n}") for n in numbers), *trunks),
    )


def numbered(*events: tuple) -> list[tuple]:
    """Events as logs have them, each with its line."""
    return [(host, line, *event) for line, (host, *event) in enumerate(events, start=1)]


def promise(patience_ms=5000.0, carrier=Carrier.ORIGIN, background=0.0, retained=12) -> Promise:
    return Promise(guarantees=(), carrier=carrier, patience_ms=patience_ms, background_per_second=background, retained=retained)


class Stage(World):
    """Hosts h1, h2, ... that run one protocol, and what is done to them."""

    def __init__(
        self,
        core: type[Core],
        size: int = 3,
        *,
        choose: Callable[[int], int] = lambda _: 0,
        groups: int = 1,
        members: Mapping[int, tuple[str, ...]] | None = None,
    ) -> None:
        self.events, self.faults = [], []
        self.away, self.held = set(), []
        self.sent_by = Counter()
        self.choose, self.group_count = choose, groups
        # Packets with the time when they left and their kind, by identity, and when they arrived: a duplicate is the same object.
        self.left, self.arrived_ns = {}, {}
        super().__init__(core, size, groups=members)
        self.network = star(size)

    def log(self, host: str, event: Event) -> None:
        """Write an event down. With `groups`, the n-th broadcast of a host goes to group n modulo `groups`."""
        if event.event != "start":
            in_turn = self.group_count > 1 and event.event == "broadcast"
            details = {"group": event.sequence % self.group_count} if in_turn else event.details
            self.events.append((host, event.at_ns, event.event, event.origin, event.sequence, details))

    def send(self, sender: str, to: str, part: Part) -> None:
        self.sent_by[sender] += 1
        before = len(self._in_flight)
        super().send(sender, to, part)
        self.left |= {id(packet): (self.now_ns, packet, part.kind) for packet in self._in_flight[before:]}

    def hold(self, sender: str, to: str) -> None:
        """Keep back what is in flight between two hosts, until `release`."""
        self.held += [packet for packet in self.in_flight if (packet.sender, packet.to) == (sender, to)]
        self.in_flight = [packet for packet in self.in_flight if packet not in self.held]

    def release(self) -> None:
        self.in_flight += self.held
        self.held = []

    def hand_over(self) -> None:
        packet: Packet = self.in_flight.pop(self.choose(len(self.in_flight)))
        self.now_s += 0.001
        if self.away.isdisjoint({packet.sender, packet.to}):
            self.arrived_ns.setdefault(id(packet), self.now_ns)
            self[packet.to].life.receive(packet.sender, [packet.message], expensive=False)
            self[packet.to].carry_out()

    def run(self, seconds: float) -> None:
        """Let time pass, and sample the hosts at the end of each second."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self._run_until(min(self.now_s + 1, end_s))
            for host in self.hosts:
                if self[host].life is not None:
                    self[host].life.log("sample", sent=self.sent_by[host], items=retained_items(self[host].core))
                    self[host].carry_out()

    def _run_until(self, end_s: float) -> None:
        while self.now_s < end_s:
            due_s = min((at for host in self.hosts for at in self[host].timers.values()), default=end_s)
            if self.in_flight:
                self.hand_over()
            elif due_s < end_s:
                self.expire()
            else:
                self.now_s = end_s

    def crash(self, host: str) -> None:
        self._inject("crash", host)
        self.away.add(host)
        self[host].timers.clear()
        self[host].life = None

    def restart(self, host: str, storage: str = "kept") -> None:
        self._inject("restart", host, storage=storage)
        if storage == "lost":
            self[host].storage.clear()
        self.away.discard(host)
        super().restart(host)

    def isolate(self, host: str) -> None:
        self._inject("link-down", f"s0-s{host[1:]}")
        self.away.add(host)

    def rejoin(self, host: str) -> None:
        self._inject("link-up", f"s0-s{host[1:]}")
        self.away.discard(host)

    def _inject(self, fault: str, target: str, **details: object) -> None:
        self.faults.append(FaultRecord(fault=fault, target=target, asked_ns=self.now_ns, applied_ns=self.now_ns, details=details))

    def history(self, damage: tuple[str, ...] = ()) -> History:
        return make(self.hosts, numbered(*self.events), self.now_ns, damage, tuple(map(self._transit, self.left)))

    def _transit(self, number: int) -> Transit:
        left_ns, packet, kind = self.left[number]
        about, carries = packet.message, packet.purpose is not Purpose.CONTROL
        return Transit(
            *(left_ns, self.arrived_ns.get(number), packet.sender, packet.to, about.origin, about.sequence, kind, carries)
        )

    def join(self, host: str, group: int) -> None:
        self[host].life.join(group)
        self[host].carry_out()

    def leave(self, host: str, group: int) -> None:
        self[host].life.leave(group)
        self[host].carry_out()

    def connectivity(self) -> Connectivity:
        return Connectivity(self.network, self.faults, self.now_ns)
