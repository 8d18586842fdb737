"""Faults on a running network: each is asked for, applied and observed, and written down at once with both times.

Most happen when the testbed says so, or when it sees the event they wait for in an event log. What must happen at the very moment of an
event of the same host, such as dying between two datagrams, is left to the agent itself.
"""

import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hostagent.runtime.control import AtDoor, CrashWhen
from runfiles.format import FaultRecord, encoded
from scenarios import faults as vocabulary
from scenarios.faults import Fault, healed, is_own_crash, link_named, name_of, refuse_unknown, steps
from testbed.errors import CannotRun
from testbed.network import shaping, shell
from testbed.network.doctor import Machine
from testbed.network.emulation import Emulation
from testbed.network.shaping import Drops
from testbed.running.agents import Agents
from testbed.running.growing_logs import EventLogs
from topologies import Link
from topologies.properties import told

# How long the kernel may take to show what it was asked for: a process that is to stand still must be scheduled once.
PATIENCE_S = 2.0
KNOWN: frozenset[type[Fault]] = frozenset(
    (
        *(vocabulary.LinkDown, vocabulary.LinkUp, vocabulary.LinkChange, vocabulary.Flap, vocabulary.Partition, vocabulary.Heal),
        *(vocabulary.SwitchStop, vocabulary.SwitchStart, vocabulary.ControllerStop, vocabulary.ControllerStart),
        *(vocabulary.Crash, vocabulary.Restart, vocabulary.Pause, vocabulary.Resume, vocabulary.Clock),
        *(vocabulary.DropMessage, vocabulary.DuplicateMessage),
    )
)
"""The faults that this engine has a line for, in `Injector._do`; flaps and partitions are split by `steps`."""


def refuse_impossible(faults: tuple[Fault, ...], machine: Machine) -> None:
    """Stop before anything is made if a fault cannot be injected here."""
    refuse_unknown(faults, KNOWN, "Mininet")
    for fault in faults:
        if isinstance(fault, vocabulary.LinkChange) and not machine.netem and (fault.delay_ms or fault.duplicate):
            raise CannotRun(
                f"fault link-change {fault.link}: this kernel has no netem, so it cannot delay or duplicate packets; "
                "run it with ./castbed vm run, or --on simulator"
            )
        if isinstance(fault, vocabulary.LinkChange) and (fault.burst or 1) > 1:
            raise CannotRun(f"fault link-change {fault.link}: bursts of loss are for --on simulator")
        if fault.when is not None and fault.when.event == "send" and not is_own_crash(fault):
            raise CannotRun(
                f"fault {name_of(fault)} {fault.target}: only a crash of the sending host itself can wait for a send; "
                "use another event, or --on simulator"
            )


def own_crashes(faults: Iterable[Fault]) -> dict[str, tuple[CrashWhen, ...]]:
    """For each host the crashes that its agent does to itself."""
    crashes: dict[str, tuple[CrashWhen, ...]] = {}
    for fault in filter(is_own_crash, faults):
        crashes[fault.target] = (*crashes.get(fault.target, ()), _crash_when(fault))
    return crashes


def _crash_when(fault: Fault) -> CrashWhen:
    assert fault.when is not None, fault
    return CrashWhen(fault.when.event, fault.when.origin, fault.when.sequence, fault.when.nth)


class Injector:
    """Injects faults into a run and keeps the record of what was injected."""

    def __init__(self, emulation: Emulation, agents: Agents, faults: tuple[Fault, ...], log: Path) -> None:
        self._emulation = emulation
        self._log = log
        log.touch()
        self._network = emulation.network
        self._agents = agents
        self.current = {(link.a, link.b): link for link in self._network.links} | {
            (link.b, link.a): link for link in self._network.links
        }
        """The link that each direction is to be shaped as, by (from, to)."""
        self.pulled: set[str] = set()
        """The links that are down, by name."""
        self._due: list[tuple[float, Fault]] = []
        self._watch = _Watch(agents, [fault for fault in faults if fault.when is not None and not is_own_crash(fault)])
        self._own = [fault for fault in faults if is_own_crash(fault)]
        self._corrections: dict[tuple[str, str], Drops] = {}
        """What to add to the kernel's count of drops, by (from, to): counts that were lost, without what a failed link took along."""
        self._before_failing: dict[tuple[str, str], Drops] = {}
        """For each direction of a link that is down, what the kernel had counted when it was pulled."""
        self.problems: list[str] = []
        """What was asked for and is not to be seen."""
        agents.on_own_crash = self._own_crash

    @property
    def next_due(self) -> float:
        """When a later step of a fault is due, on the monotonic clock; the end of time if none is."""
        return min((moment for moment, _ in self._due), default=float("inf"))

    def look(self) -> None:
        """Do what is due, and what has been waited for."""
        now = time.monotonic()
        for item in sorted((item for item in self._due if item[0] <= now), key=lambda item: item[0]):
            self._due.remove(item)
            # A trigger may wait before a flap or a partition, which has steps of its own.
            self.inject(item[1])
        for fault, after_ms in self._watch.fired():
            if after_ms:
                self._due.append((now + after_ms / 1000, fault))
            else:
                self.inject(fault)

    @property
    def is_watching(self) -> bool:
        """Whether the event logs must be looked at often."""
        return bool(self._watch.waiting)

    def inject(self, fault: Fault) -> list[FaultRecord]:
        """Let a fault happen now, or step by step from now on; what has happened already."""
        now, happened = time.monotonic(), []
        for offset_ms, step in steps(fault, self._network):
            if offset_ms:
                self._due.append((now + offset_ms / 1000, step))
            else:
                happened.append(self._apply(step))
        return happened

    def unfired(self) -> list[Fault]:
        """The faults whose trigger never came."""
        return [*self._watch.waiting, *self._own]

    def pending(self) -> list[Fault]:
        """What was to happen later, and has not."""
        return [fault for _, fault in self._due]

    def heal_everything(self) -> None:
        """End the faults that would keep the run from ending: agents that stand still could not stop."""
        for host in self._agents.running:
            self._agents.signal(host, signal.SIGCONT)

    def _own_crash(self, host: str, crash: CrashWhen) -> None:
        """An agent is killing itself; it must not do so again for the same reason when it is restarted."""
        fault = next(fault for fault in self._own if fault.target == host and _crash_when(fault) == crash)
        self._own.remove(fault)
        self._agents.crashes = own_crashes(self._own)
        now_ns = time.time_ns()
        self._write_down(fault, now_ns, now_ns)

    def _apply(self, fault: Fault) -> FaultRecord:
        asked_ns = time.time_ns()
        self._do(fault)
        return self._write_down(fault, asked_ns, time.time_ns())

    def _write_down(self, fault: Fault, asked_ns: int, applied_ns: int) -> FaultRecord:
        record = FaultRecord(
            fault=name_of(fault),
            target=fault.target,
            asked_ns=asked_ns,
            applied_ns=applied_ns,
            details=fault.details,
            observed=self._observe(fault),
        )
        with self._log.open("ab") as log:
            log.write(encoded(record) + b"\n")
        return record

    def _observe(self, fault: Fault) -> str:
        """What the machine shows of a fault. What it does not show in time spoils the run."""

        def differing(signs: list[tuple[str, str, str]]) -> bool:
            return any(seen != expected for _, seen, expected in signs)

        deadline = time.monotonic() + PATIENCE_S
        while differing(signs := list(self._signs(fault))) and time.monotonic() < deadline:
            time.sleep(0.001)
        shown = "; ".join(f"{what} {seen}" for what, seen, _ in signs)
        if differing(signs):
            self.problems.append(f"the fault {name_of(fault)} {fault.target} was asked for, but {shown}")
        return shown

    def _signs(self, fault: Fault) -> Iterator[tuple[str, str, str]]:  # noqa: C901 - one part for each kind of thing
        """What a fault changes, what is to be seen of it, and what should be."""
        plan, agents = self._emulation.plan, self._agents
        match fault:
            case vocabulary.LinkDown(link=name) | vocabulary.LinkUp(link=name):
                expected = "up" if isinstance(fault, vocabulary.LinkUp) else "down"
                for end in plan.ends(link_named(self._network, name)):
                    yield end.node, "up" if _has_carrier(end.interface) else "down", expected
            case vocabulary.LinkChange():
                link = link_named(self._network, fault.link)
                for source, target in ((link.a, link.b), (link.b, link.a)):
                    if fault.towards in {"", target}:
                        # Whoever shaped it has read it back.
                        shape = told(self.current[source, target], fault.properties)
                        yield f"{source}->{target}", shape, shape
            case vocabulary.Heal():
                links = healed(fault, self._network)
                mended = sum(self._is_as_built(link) for link in links)
                yield (
                    fault.target or f"{mended} links",
                    "up, as built" if mended == len(links) else "not as built",
                    "up, as built",
                )
            case vocabulary.SwitchStop(switch=switch) | vocabulary.SwitchStart(switch=switch):
                there = Path("/sys/class/net", plan.bridge(switch)).exists()
                yield switch, "up" if there else "down", "up" if isinstance(fault, vocabulary.SwitchStart) else "down"
            case vocabulary.ControllerStop() | vocabulary.ControllerStart():
                running = self._emulation.controller.is_running
                yield "controller", "up" if running else "down", "up" if isinstance(fault, vocabulary.ControllerStart) else "down"
            case vocabulary.Crash(host=host) | vocabulary.Restart(host=host):
                yield host, "up" if host in agents.running else "down", "up" if isinstance(fault, vocabulary.Restart) else "down"
            case vocabulary.Pause(host=host) | vocabulary.Resume(host=host) if host in agents.running:
                state = "stands still" if agents.stands_still(host) else "up"
                yield host, state, "stands still" if isinstance(fault, vocabulary.Pause) else "up"
            case vocabulary.Clock(host=host) | vocabulary.DropMessage(host=host) | vocabulary.DuplicateMessage(host=host):
                expected = self._expected_of_agent(fault, host)
                yield host, expected if agents.has_confirmed(host) or agents.stands_still(host) else "does not answer", expected

    def _expected_of_agent(self, fault: Fault, host: str) -> str:
        """What is to be seen of a fault that an agent does to itself, and confirms."""
        if host not in self._agents.running:
            return "down"
        if self._agents.stands_still(host):
            return "stands still, and is asked when it goes on"
        match fault:
            case vocabulary.DropMessage(kind=kind, nth=nth):
                return f"drops {kind} number {nth} from now on"
            case vocabulary.DuplicateMessage(kind=kind, nth=nth):
                return f"receives {kind} number {nth} from now on twice"
            case _:
                return "has set its clock"

    def _do(self, fault: Fault) -> None:  # noqa: C901, PLR0912 - one line for each word of the vocabulary
        agents = self._agents
        match fault:
            case vocabulary.LinkDown(link=link):
                self._set_link(link_named(self._network, link), up=False)
            case vocabulary.LinkUp(link=link):
                self._set_link(link_named(self._network, link), up=True)
            case vocabulary.LinkChange():
                self._change_link(fault)
            case vocabulary.Heal():
                self._heal_links(healed(fault, self._network))
            case vocabulary.SwitchStop(switch=switch):
                self._stop_switch(switch)
            case vocabulary.SwitchStart(switch=switch):
                self._start_switch(switch)
            case vocabulary.ControllerStop():
                self._emulation.controller.stop()
            case vocabulary.ControllerStart():
                self._emulation.controller.start()
            case vocabulary.Crash(host=host):
                agents.signal(host, signal.SIGKILL)
            case vocabulary.Restart(host=host, storage=storage):
                agents.restart(host, keep_storage=storage == "kept")
            case vocabulary.Pause(host=host):
                agents.signal(host, signal.SIGSTOP)
            case vocabulary.Resume(host=host):
                agents.signal(host, signal.SIGCONT)
            case vocabulary.Clock(host=host, offset_ms=offset_ms, drift_ppm=drift_ppm):
                agents.set_clock(host, round(offset_ms * 1e6), 1 + drift_ppm / 1e6)
            case vocabulary.DropMessage(host=host, kind=kind, nth=nth):
                agents.ask(host, AtDoor(kind, nth, copies=0))
            case vocabulary.DuplicateMessage(host=host, kind=kind, nth=nth):
                agents.ask(host, AtDoor(kind, nth, copies=2))

    def drops(self) -> dict[tuple[str, str], Drops]:
        """What was dropped and duplicated on each direction since the network was made, by (from, to)."""
        totals = {}
        for way, now in shaping.read_drops(self._emulation.plan).items():
            is_down = way in self._before_failing
            counted = self._before_failing[way] + Drops(overrun=now.overrun) if is_down else now
            totals[way] = counted + self._corrections.get(way, Drops())
        return totals

    def _start_from_zero(self, way: tuple[str, str], counted: Drops) -> None:
        """Remember what had been counted on a direction when the kernel's count was lost."""
        if way in self._before_failing:
            counted, self._before_failing[way] = self._before_failing[way], Drops()
        self._correct(way, counted)

    def _correct(self, way: tuple[str, str], drops: Drops) -> None:
        self._corrections[way] = self._corrections.get(way, Drops()) + drops

    def _set_link(self, link: Link, *, up: bool) -> None:
        """Take a link down or up at its end `a`; see testbed.running.captures for why that end.

        What waits for a link that goes down, and what is sent while it is down, never reaches the queue again, as if it had been lost. But
        the link's loss is not the cause, so it is not counted as that.
        """
        ways = (link.a, link.b), (link.b, link.a)
        if not up and link.name not in self.pulled:
            self._before_failing |= {way: self._drops_of(way) for way in ways}
        shell.ip([f"link set {self._emulation.plan.end(link.a, link.b).interface} {'up' if up else 'down'}"])
        (self.pulled.discard if up else self.pulled.add)(link.name)
        for way in ways if up else ():
            if (before := self._before_failing.pop(way, None)) is not None:
                self._correct(way, before - self._drops_of(way))

    def _drops_of(self, way: tuple[str, str]) -> Drops:
        """What the shaping of one direction has dropped so far. What its switch was too slow to take is not part of it."""
        end = self._emulation.plan.end(*way)
        return shaping.drops_at([end])[end]

    def _heal_links(self, links: list[Link]) -> None:
        for link in links:
            if link.name in self.pulled:
                self._set_link(link, up=True)
            for source, target in ((link.a, link.b), (link.b, link.a)):
                if self.current[source, target] != link:
                    self._reshape(source, target, link)

    def _is_as_built(self, link: Link) -> bool:
        ways = (link.a, link.b), (link.b, link.a)
        carriers = (_has_carrier(end.interface) for end in self._emulation.plan.ends(link))
        return all(carriers) and all(self.current[way] == link for way in ways)

    def _change_link(self, fault: vocabulary.LinkChange) -> None:
        link = link_named(self._network, fault.link)
        for source, target in ((link.a, link.b), (link.b, link.a)):
            if fault.towards in {"", target}:
                self._reshape(source, target, replace(self.current[source, target], **fault.properties))

    def _reshape(self, source: str, target: str, link: Link) -> None:
        """Shape one direction anew, and read it back."""
        way, before = (source, target), self._drops_of((source, target))
        if shaping.reshape(link, self._emulation.plan.end(*way)):
            self._start_from_zero(way, before)
        self.current[way] = link

    def _stop_switch(self, switch: str) -> None:
        """Take a switch's bridge away. The count of what it was too slow to take goes with it; its links count on."""
        for way, drops in shaping.read_drops(self._emulation.plan).items():
            if way[0] == switch:
                self._correct(way, Drops(overrun=drops.overrun))
        self._emulation.net[switch].stop(deleteIntfs=False)

    def _start_switch(self, switch: str) -> None:
        """Give a switch its bridge again. A switch that takes its ports over clears what shaped them, with its counts."""
        ways = [(switch, neighbour) for neighbour in self._network.neighbours[switch]]
        before = {way: self._drops_of(way) for way in ways}
        self._emulation.net[switch].start([])
        for way, drops in before.items():
            self._start_from_zero(way, drops)
            if shaping.has_chain(self.current[way], self._network):
                shaping.reshape(self.current[way], self._emulation.plan.end(*way))


def _has_carrier(interface: str) -> bool:
    """Whether an interface is up and so is the other end of its link."""
    try:
        return Path("/sys/class/net", interface, "carrier").read_text().strip() == "1"
    except OSError:
        # The kernel does not answer for an interface that is down.
        return False


class _Watch:
    """Watches the event logs for what faults wait for."""

    def __init__(self, agents: Agents, faults: list[Fault]) -> None:
        self.waiting = faults
        self._logs = EventLogs(agents)
        self._left = {id(fault): fault.when.nth for fault in faults if fault.when is not None}

    def fired(self) -> list[tuple[Fault, float]]:
        """The faults whose event has come since the last look, and how long after it they are due."""
        if not self.waiting:
            return []
        fired = []
        for host, event in self._logs.news():
            for fault in list(self.waiting):
                when = fault.when
                if when is not None and when.fits(host, event.event, event.origin, event.sequence):
                    self._left[id(fault)] -= 1
                    if self._left[id(fault)] == 0:
                        self.waiting.remove(fault)
                        fired.append((fault, when.after_ms))
        return fired
