"""Injects faults into a running network. Each fault is requested, applied, observed and recorded at once, with both times.

The testbed injects most faults, at their times or when it reads the event that they wait for in an event log. A fault that must happen at
the very moment of an event of the same host, such as dying between two datagrams, is carried out by the agent itself.
"""

import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from hostagent.contract.messages import EVERYBODY
from hostagent.runtime.control import AtDoor, CrashWhen, GroupRequest, JoinRequest, LeaveRequest
from runfiles.format import LATE, TREE, FaultRecord, encoded
from scenarios import faults as vocabulary
from scenarios.faults import Fault, Waiting, healed, is_own_crash, link_named, name_of, refuse_unknown, steps
from scenarios.membership import Trees
from simulator.faults import crash_when
from testbed.errors import CannotRun
from testbed.network import shaping, shell
from testbed.network.doctor import Machine
from testbed.network.emulation import Emulation
from testbed.network.shaping import Drops
from testbed.running.agents import Agents
from testbed.running.growing_logs import EventLogs
from topologies import Link
from topologies.network import group_address, group_name
from topologies.properties import told

# The time in which a fault must show: a process that is to be paused, for example, must be scheduled once.
PATIENCE_S = 2.0
KNOWN: frozenset[type[Fault]] = frozenset(
    (
        *(vocabulary.LinkDown, vocabulary.LinkUp, vocabulary.LinkChange, vocabulary.Flap, vocabulary.Partition, vocabulary.Heal),
        *(vocabulary.SwitchStop, vocabulary.SwitchStart, vocabulary.ControllerStop, vocabulary.ControllerStart),
        *(vocabulary.Crash, vocabulary.Restart, vocabulary.Pause, vocabulary.Resume, vocabulary.Clock),
        *(vocabulary.DropMessage, vocabulary.DuplicateMessage, vocabulary.CutOff),
        *(vocabulary.Join, vocabulary.Leave, vocabulary.Arrive, vocabulary.Depart),
    )
)
"""The faults that `Injector._do` can inject; `steps` splits flaps, partitions and cut-offs."""


def refuse_impossible(faults: tuple[Fault, ...], machine: Machine) -> None:
    """Raise an error, before anything is made, if a fault cannot be injected on this machine."""
    refuse_unknown(faults, KNOWN, "Mininet")
    for fault in faults:
        if isinstance(fault, vocabulary.LinkChange) and not machine.netem and (fault.delay_ms or fault.duplicate):
            raise CannotRun(
                f"fault link-change {fault.link}: this kernel has no netem, so it cannot delay or duplicate packets; "
                "run with ./castbed vm run, or --on simulator"
            )
        if isinstance(fault, vocabulary.LinkChange) and (fault.burst or 1) > 1:
            raise CannotRun(f"fault link-change {fault.link}: bursts of loss need --on simulator")
        if fault.when is not None and fault.when.event == "send" and not is_own_crash(fault):
            raise CannotRun(
                f"fault {name_of(fault)} {fault.target}: only a crash of the sending host itself can wait for a send; "
                "use another event, or --on simulator"
            )


def own_crashes(faults: Iterable[Fault]) -> dict[str, tuple[CrashWhen, ...]]:
    """For each host, the crashes that its agent carries out itself."""
    crashes: dict[str, tuple[CrashWhen, ...]] = {}
    for fault in filter(is_own_crash, faults):
        crashes[fault.target] = (*crashes.get(fault.target, ()), crash_when(fault))
    return crashes


class Injector:
    """Injects faults into a run, and records them."""

    def __init__(
        self, emulation: Emulation, agents: Agents, faults: tuple[Fault, ...], groups: Mapping[str, int], log: Path
    ) -> None:
        """`groups` has the number of each group by its name."""
        self.groups = dict(groups)
        self._emulation = emulation
        self._log = log
        log.touch()
        self._network = emulation.network
        self._agents = agents
        self.current = {(link.a, link.b): link for link in self._network.links} | {
            (link.b, link.a): link for link in self._network.links
        }
        """The properties that each direction should have now, by (from, to)."""
        self.pulled: set[str] = set()
        """The links that are down, by name."""
        self._due: list[tuple[float, Fault]] = []
        self._trees = Trees({EVERYBODY: self._network.hosts, **agents.setting.groups}, self._set_tree)
        self._logs_of_members = EventLogs(agents)
        self._watch = _Watch(agents, [fault for fault in faults if fault.when is not None and not is_own_crash(fault)])
        self._own = [fault for fault in faults if is_own_crash(fault)]
        self._corrections: dict[tuple[str, str], Drops] = {}
        """What to add to the kernel's count of drops, by (from, to): counts that were reset, minus the packets that a failed link lost."""
        self._before_failing: dict[tuple[str, str], Drops] = {}
        """For each direction of a link that is down, the kernel's counts when the link went down."""
        self.problems: list[str] = []
        """A sentence for each fault that the machine does not show."""
        self.records: list[FaultRecord] = []
        """What has been injected so far."""
        agents.on_own_crash = self._own_crash
        for host in agents.absent:
            self._append(FaultRecord(fault=LATE, target=host, asked_ns=agents.started_ns, applied_ns=agents.started_ns))

    @property
    def next_due(self) -> float:
        """When the next step of a fault is due, on the monotonic clock; infinity if there is none."""
        return min((moment for moment, _ in self._due), default=float("inf"))

    def inject_due(self) -> None:
        """Inject the faults that are due, and those whose trigger has fired."""
        now = time.monotonic()
        for item in sorted((item for item in self._due if item[0] <= now), key=lambda item: item[0]):
            self._due.remove(item)
            # This may be a flap or a partition with `after_ms`, which has steps of its own.
            self.inject(item[1])
        for fault, after_ms in self._watch.fired():
            if after_ms:
                self._due.append((now + after_ms / 1000, fault))
            else:
                self.inject(fault)
        if self._trees.is_waiting:
            for host, event in self._logs_of_members.news():
                self._trees.notice(host, event.event, event.at_ns, event.details)

    @property
    def is_watching(self) -> bool:
        """Whether a fault or a tree waits for an event, so that event logs must be read often."""
        return bool(self._watch.waiting) or self._trees.is_waiting

    def inject(self, fault: Fault) -> list[FaultRecord]:
        """Inject a fault now, or its steps from now on. Returns the records of what has been injected already."""
        now, happened = time.monotonic(), []
        for offset_ms, step in steps(fault, self._network):
            if offset_ms:
                self._due.append((now + offset_ms / 1000, step))
            else:
                asked_ns = time.time_ns()
                self._do(step)
                happened.append(self._write_down(step, asked_ns, time.time_ns()))
        return happened

    def make_group(self, name: str, members: tuple[str, ...]) -> None:
        """Make a new group: in the switches' trees on a network that multicasts, then at every agent."""
        number = self.groups[name] = len(self.groups)
        self._trees.add(number, members)
        address = group_address(number) if self._agents.setting.group_addresses else ""
        self._agents.make_group(GroupRequest(number, members, address))

    def _set_tree(self, group: int, members: tuple[str, ...]) -> None:
        asked_ns = time.time_ns()
        self._emulation.set_members(group, members)
        if self._agents.setting.group_addresses:
            details = {"group": group, "members": members}
            target = group_name(group)
            self._append(FaultRecord(fault=TREE, target=target, asked_ns=asked_ns, applied_ns=time.time_ns(), details=details))

    def unfired(self) -> list[Fault]:
        """The faults whose trigger has not fired."""
        return [*self._watch.waiting, *self._own]

    def pending(self) -> list[Fault]:
        """The faults and steps that are not due yet."""
        return [fault for _, fault in self._due]

    def heal_everything(self) -> None:
        """Let paused agents continue, since they could not stop otherwise."""
        for host in self._agents.running:
            self._agents.signal(host, signal.SIGCONT)

    def _own_crash(self, host: str, crash: CrashWhen) -> None:
        """Record that an agent kills itself, and forget that crash, so that the agent does not repeat it after a restart."""
        fault = next(fault for fault in self._own if fault.target == host and crash_when(fault) == crash)
        self._own.remove(fault)
        self._agents.crashes = own_crashes(self._own)
        now_ns = time.time_ns()
        self._write_down(fault, now_ns, now_ns)

    def _write_down(self, fault: Fault, asked_ns: int, applied_ns: int) -> FaultRecord:
        record = FaultRecord(
            fault=name_of(fault),
            target=fault.target,
            asked_ns=asked_ns,
            applied_ns=applied_ns,
            details=fault.details,
            observed=self._observe(fault),
        )
        self._append(record)
        return record

    def _append(self, record: FaultRecord) -> None:
        self.records.append(record)
        with self._log.open("ab") as log:
            log.write(encoded(record) + b"\n")

    def _observe(self, fault: Fault) -> str:
        """What the machine shows of a fault. A fault that it does not show in time is a problem of the run."""

        def differing(signs: list[tuple[str, str, str]]) -> bool:
            return any(seen != expected for _, seen, expected in signs)

        deadline = time.monotonic() + PATIENCE_S
        while differing(signs := list(self._signs(fault))) and time.monotonic() < deadline:
            time.sleep(0.001)
        shown = "; ".join(f"{what} {seen}" for what, seen, _ in signs)
        if differing(signs):
            self.problems.append(f"the fault {name_of(fault)} {fault.target} was injected, but the machine shows: {shown}")
        return shown

    def _signs(self, fault: Fault) -> Iterator[tuple[str, str, str]]:  # noqa: C901 - one part for each kind of thing
        """Each thing that a fault changes, with the state that is seen and the state that is expected."""
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
                        # `_reshape` has read the properties back from the kernel.
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
            case (
                vocabulary.Crash(host=host)
                | vocabulary.Restart(host=host)
                | vocabulary.Arrive(host=host)
                | vocabulary.Depart(host=host)
            ):
                starts = isinstance(fault, vocabulary.Restart | vocabulary.Arrive) and host not in agents.absent
                yield host, "up" if host in agents.running else "down", "up" if starts else "down"
            case vocabulary.Pause(host=host) | vocabulary.Resume(host=host) if host in agents.running:
                state = "paused" if agents.is_paused(host) else "up"
                yield host, state, "paused" if isinstance(fault, vocabulary.Pause) else "up"
            case (
                vocabulary.Clock(host=host)
                | vocabulary.DropMessage(host=host)
                | vocabulary.DuplicateMessage(host=host)
                | vocabulary.Join(host=host)
                | vocabulary.Leave(host=host)
            ):
                expected = self._expected_of_agent(fault, host)
                yield host, expected if agents.has_confirmed(host) or agents.is_paused(host) else "does not answer", expected

    def _expected_of_agent(self, fault: Fault, host: str) -> str:
        """The expected state after a fault that an agent carries out itself and confirms."""
        if host not in self._agents.running:
            return "down"
        if self._agents.is_paused(host):
            return "paused, and gets the request when it continues"
        match fault:
            case vocabulary.DropMessage(kind=kind, nth=nth):
                return f"drops {kind} number {nth} from now on"
            case vocabulary.DuplicateMessage(kind=kind, nth=nth):
                return f"receives {kind} number {nth} from now on twice"
            case vocabulary.Join(group=group) | vocabulary.Leave(group=group):
                return f"asks to {name_of(fault)} {group}"
            case _:
                return "has set its clock"

    def _do(self, fault: Fault) -> None:  # noqa: C901, PLR0912 - one case for each kind of fault
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
            case vocabulary.Join() | vocabulary.Leave() | vocabulary.Arrive() | vocabulary.Depart():
                self._change_membership(fault)

    def _change_membership(self, change: vocabulary.Join | vocabulary.Leave | vocabulary.Arrive | vocabulary.Depart) -> None:
        agents, host = self._agents, change.host
        match change:
            case vocabulary.Join(group=group):
                self._trees.join(self.groups[group], host)
                agents.ask(host, JoinRequest(self.groups[group]))
            case vocabulary.Leave(group=group):
                if host in agents.running:
                    self._trees.leave(self.groups[group], host, time.time_ns())
                agents.ask(host, LeaveRequest(self.groups[group]))
            case vocabulary.Arrive():
                agents.arrive(host)
            case vocabulary.Depart():
                agents.depart(host)

    def drops(self) -> dict[tuple[str, str], Drops]:
        """The packets that were dropped and duplicated in each direction since the network was made, by (from, to)."""
        totals = {}
        for way, now in shaping.read_drops(self._emulation.plan).items():
            is_down = way in self._before_failing
            counted = self._before_failing[way] + Drops(overrun=now.overrun) if is_down else now
            totals[way] = counted + self._corrections.get(way, Drops())
        return totals

    def _start_from_zero(self, way: tuple[str, str], counted: Drops) -> None:
        """Keep the counts of a direction whose counters in the kernel were reset."""
        if way in self._before_failing:
            counted, self._before_failing[way] = self._before_failing[way], Drops()
        self._correct(way, counted)

    def _correct(self, way: tuple[str, str], drops: Drops) -> None:
        self._corrections[way] = self._corrections.get(way, Drops()) + drops

    def _set_link(self, link: Link, *, up: bool) -> None:
        """Take a link down or up at its end `a`; see testbed.running.captures for why that end.

        Packets that wait for a link that goes down, or are sent while it is down, enter the filter and never reach the queue, like lost
        packets. The link's loss is not their cause, so they are not counted as loss.
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
        """The packets that the shaping of one direction has dropped so far, without those that its switch did not read fast enough."""
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
        """Shape one direction with the properties of `link`, and read them back."""
        way, before = (source, target), self._drops_of((source, target))
        if shaping.reshape(link, self._emulation.plan.end(*way)):
            self._start_from_zero(way, before)
        self.current[way] = link

    def _stop_switch(self, switch: str) -> None:
        """Remove a switch's bridge. Its count of packets that it did not read fast enough is lost with it; its links go on counting."""
        for way, drops in shaping.read_drops(self._emulation.plan).items():
            if way[0] == switch:
                self._correct(way, Drops(overrun=drops.overrun))
        self._emulation.net[switch].stop(deleteIntfs=False)

    def _start_switch(self, switch: str) -> None:
        """Make a switch's bridge again. Open vSwitch removes the shaping of the ports that it adds, with its counts."""
        ways = [(switch, neighbour) for neighbour in self._network.neighbours[switch]]
        before = {way: self._drops_of(way) for way in ways}
        self._emulation.net[switch].start([])
        for way, drops in before.items():
            self._start_from_zero(way, drops)
            if shaping.has_chain(self.current[way], self._network):
                shaping.reshape(self.current[way], self._emulation.plan.end(*way))


def _has_carrier(interface: str) -> bool:
    """Whether both an interface and the other end of its link are up."""
    try:
        return Path("/sys/class/net", interface, "carrier").read_text().strip() == "1"
    except OSError:
        # The kernel refuses to read the carrier of an interface that is down.
        return False


class _Watch:
    """Watches the event logs for the triggers of faults."""

    def __init__(self, agents: Agents, faults: list[Fault]) -> None:
        self._waiting = [Waiting(fault, fault.when) for fault in faults if fault.when is not None]
        self._logs = EventLogs(agents)

    @property
    def waiting(self) -> list[Fault]:
        """The faults whose trigger has not fired."""
        return [waiting.fault for waiting in self._waiting]

    def fired(self) -> list[tuple[Fault, float]]:
        """The faults whose trigger has fired since the last call, each with its `after_ms`."""
        if not self._waiting:
            return []
        fired = [
            waiting
            for host, event in self._logs.news()
            for waiting in self._waiting
            if waiting.fires_at(host, event.event, event.origin, event.sequence, event.details)
        ]
        self._waiting = [waiting for waiting in self._waiting if waiting not in fired]
        return [(waiting.fault, waiting.trigger.after_ms) for waiting in fired]
