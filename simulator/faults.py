"""Faults in virtual time: all kinds of faults, each at a set time or at a trigger."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from hostagent.contract.environment import NS_PER_MS
from hostagent.contract.messages import EVERYBODY
from hostagent.runtime.control import AtDoor, CrashWhen
from runfiles.format import LATE, TREE, FaultRecord
from scenarios import faults as vocabulary
from scenarios.faults import Fault, Waiting, healed, is_own_crash, late_hosts, link_named, name_of, refuse_unknown, steps
from scenarios.membership import Trees
from simulator.host import SimulatedHost
from simulator.world import REROUTING_NS, World
from topologies.network import group_name

KNOWN: frozenset[type[Fault]] = frozenset(
    (
        *(vocabulary.LinkDown, vocabulary.LinkUp, vocabulary.LinkChange, vocabulary.Flap, vocabulary.Partition, vocabulary.Heal),
        *(vocabulary.SwitchStop, vocabulary.SwitchStart, vocabulary.ControllerStop, vocabulary.ControllerStart),
        *(vocabulary.Crash, vocabulary.Restart, vocabulary.Pause, vocabulary.Resume, vocabulary.Clock),
        *(vocabulary.DropMessage, vocabulary.DuplicateMessage, vocabulary.CutOff),
        *(vocabulary.Join, vocabulary.Leave, vocabulary.Arrive, vocabulary.Depart),
    )
)
"""The faults that this engine knows: `FaultPlayer._do` has a line for each, and `steps` splits flaps, partitions and cut-offs."""


def crash_when(fault: Fault) -> CrashWhen:
    """A crash that a host can do to itself (`is_own_crash`), as its agent is told."""
    when = fault.when
    assert when is not None, fault
    return CrashWhen(when.event, when.origin, when.sequence, when.nth, dict(when.details))


@dataclass(frozen=True)
class Healing:
    """How faults end: how long the run goes on after them, and what is not healed."""

    for_ms: float
    dead: tuple[str, ...] = ()
    """Hosts that stay dead."""
    cut_off: tuple[str, ...] = ()
    """Switches that stay cut off from the others."""


class FaultPlayer:
    """Injects faults into a world and keeps the record of what was injected."""

    def __init__(
        self, world: World, faults: tuple[Fault, ...], groups: Mapping[str, int] = MappingProxyType({"everybody": 0})
    ) -> None:
        """`groups` has the number of each group by its name."""
        refuse_unknown(faults, KNOWN, "the simulator")
        self._world = world
        self._groups = groups
        self._trees = Trees({EVERYBODY: world.network.hosts, **world.groups}, self._set_tree)
        world.on_view = self._trees.notice
        self.absent = set(late_hosts(faults))
        """The hosts that have not arrived, or have departed: they do not run, and neither restarts nor healing start them."""
        self._pulled: set[str] = set()
        self._stopped: set[str] = set()
        self._healed = False
        self._waiting = [Waiting(fault, fault.when) for fault in faults if fault.when is not None and not is_own_crash(fault)]
        self._own = [fault for fault in faults if is_own_crash(fault)]
        self.records: list[FaultRecord] = []
        for name in (host for host in world.hosts if host in self.absent):
            self.records.append(FaultRecord(fault=LATE, target=name, asked_ns=world.now_ns, applied_ns=world.now_ns))
        for name, host in world.hosts.items():
            self._arm(name, host)
        if self._waiting:
            world.on_event = self._notice
        for fault in faults:
            if fault.at_ms is not None:
                world.after(round(fault.at_ms * NS_PER_MS), self.inject, fault)

    @property
    def unfired(self) -> list[Fault]:
        """The faults that did not happen: their trigger never came, or the run ended before they were due."""
        return [*(waiting.fault for waiting in self._waiting), *self._own]

    def inject(self, fault: Fault) -> None:
        """Let a fault happen now, or step by step from now on."""
        for offset_ms, step in steps(fault, self._world.network):
            if offset_ms:
                self._world.after(round(offset_ms * NS_PER_MS), self._apply, step)
            else:
                self._apply(step)

    def heal(self, healing: Healing) -> None:
        """End all faults: links are up and lose nothing; switches, controller and hosts are up; no fault waits for a trigger.

        Only the hosts and switches that `healing` names are dead and cut off from now on, whatever their state was before. Hosts that
        have not arrived or have departed stay away.
        """
        self._waiting.clear()
        self._own.clear()
        self._world.on_event = None
        self._apply(vocabulary.ControllerStart())
        for switch in sorted(self._stopped):
            self._apply(vocabulary.SwitchStart(switch=switch))
        self._apply(vocabulary.Heal())
        if healing.cut_off:
            self.inject(vocabulary.Partition(sides=(healing.cut_off,)))
        for name, host in self._world.hosts.items():
            if name in self.absent:
                continue
            self._arm(name, host)
            host.life.forgive()
            if name in healing.dead:
                if host.alive:
                    self._apply(vocabulary.Crash(host=name))
                continue
            if not host.alive:
                self._apply(vocabulary.Restart(host=name))
            self._apply(vocabulary.Resume(host=name))
        for pipe in self._world.pipes.values():
            pipe.change(replace(pipe.properties, loss=0.0, burst=1.0, duplicate=0.0, reorder=0.0))
        self._healed = True

    def _arm(self, name: str, host: SimulatedHost) -> None:
        """Have a host crash itself, in this life or a later one, at the events that its crashes wait for."""
        own = [fault for fault in self._own if fault.target == name]
        host.crashes = tuple(crash_when(fault) for fault in own)

        def crash(number: int) -> None:
            self._own.remove(own[number])
            self._arm(name, host)
            self._apply(own[number])

        host.on_own_crash = crash

    def _notice(self, host: str, event: str, origin: str, sequence: int, details: Mapping[str, Any]) -> None:
        for waiting in [waiting for waiting in self._waiting if waiting.fires_at(host, event, origin, sequence, details)]:
            if waiting.trigger.after_ms:
                self._world.after(round(waiting.trigger.after_ms * NS_PER_MS), self._fire, waiting)
            else:
                self._fire(waiting)

    def _fire(self, waiting: Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            self.inject(waiting.fault)

    def _apply(self, fault: Fault) -> None:
        if self._healed:
            return
        now_ns = self._world.now_ns
        record = FaultRecord(fault=name_of(fault), target=fault.target, asked_ns=now_ns, applied_ns=now_ns, details=fault.details)
        # Recorded before it happens: a host that restarts may send at once, and thereby trigger the next fault.
        self.records.append(record)
        self._do(fault)

    def _do(self, fault: Fault) -> None:  # noqa: C901, PLR0912 - one line for each word of the vocabulary
        world = self._world
        match fault:
            case vocabulary.LinkDown(link=link):
                self._pulled.add(link_named(world.network, link).name)
                self._settle_links()
            case vocabulary.LinkUp(link=link):
                self._pulled.discard(link_named(world.network, link).name)
                self._settle_links()
            case vocabulary.LinkChange():
                self._change_link(fault)
            case vocabulary.Heal():
                for trunk in healed(fault, world.network):
                    self._pulled.discard(trunk.name)
                    for pair in ((trunk.a, trunk.b), (trunk.b, trunk.a)):
                        world.pipes[pair].change(trunk)
                self._settle_links()
            case vocabulary.SwitchStop(switch=switch):
                self._stopped.add(switch)
                self._settle_links()
            case vocabulary.SwitchStart(switch=switch) if switch in self._stopped:
                self._stopped.discard(switch)
                world.blank.add(switch)
                self._settle_links()
            case vocabulary.ControllerStop():
                world.controller_alive = False
            case vocabulary.ControllerStart() if not world.controller_alive:
                world.start_controller()
            case vocabulary.Crash(host=host):
                world.hosts[host].crash()
            case vocabulary.Restart(host=host, storage=storage) if host not in self.absent:
                if storage == "lost" and not world.hosts[host].alive:
                    world.hosts[host].lose_storage()
                world.hosts[host].start()
            case vocabulary.Pause(host=host):
                world.hosts[host].pause()
            case vocabulary.Resume(host=host):
                world.hosts[host].resume()
            case vocabulary.Clock(host=host, offset_ms=offset_ms, drift_ppm=drift_ppm):
                world.hosts[host].set_clock(round(offset_ms * NS_PER_MS), 1 + drift_ppm / 1e6)
            case vocabulary.DropMessage(host=host, kind=kind, nth=nth):
                self._put_at_door(host, AtDoor(kind, nth, copies=0))
            case vocabulary.DuplicateMessage(host=host, kind=kind, nth=nth):
                self._put_at_door(host, AtDoor(kind, nth, copies=2))
            case vocabulary.Join() | vocabulary.Leave() | vocabulary.Arrive() | vocabulary.Depart():
                self._change_membership(fault)

    def _change_membership(self, change: vocabulary.Join | vocabulary.Leave | vocabulary.Arrive | vocabulary.Depart) -> None:
        host = self._world.hosts[change.host]
        match change:
            case vocabulary.Join(group=group):
                is_new = self._trees.join(self._groups[group], change.host)
                # The application is told when the new tree is in force.
                self._world.after(
                    REROUTING_NS if is_new and self._world.multicasts else 0, host.do, host.join, self._groups[group]
                )
            case vocabulary.Leave(group=group):
                if host.alive:
                    self._trees.leave(self._groups[group], change.host, self._world.now_ns)
                host.do(host.leave, self._groups[group])
            case vocabulary.Arrive() if change.host in self.absent:
                self.absent.discard(change.host)
                host.start()
            case vocabulary.Depart():
                self.absent.add(change.host)
                host.stop()

    def _set_tree(self, group: int, members: tuple[str, ...]) -> None:
        world = self._world
        world.set_members(group, members)
        if world.multicasts:
            details = {"group": group, "members": members}
            in_force_ns = world.now_ns + REROUTING_NS
            self.records.append(
                FaultRecord(fault=TREE, target=group_name(group), asked_ns=world.now_ns, applied_ns=in_force_ns, details=details)
            )

    def _put_at_door(self, host: str, fault: AtDoor) -> None:
        """Inject the fault into the agent, if the agent runs; the fault ends with the agent."""
        if self._world.hosts[host].alive:
            self._world.hosts[host].life.fault_at_door(fault)

    def _settle_links(self) -> None:
        """A link is up unless it is pulled or a switch at its end is stopped."""
        world = self._world
        for link in world.network.links:
            up = link.name not in self._pulled and link.a not in self._stopped and link.b not in self._stopped
            if world.pipes[link.a, link.b].up != up:
                world.set_link(link.a, link.b, up=up)

    def _change_link(self, fault: vocabulary.LinkChange) -> None:
        link = link_named(self._world.network, fault.link)
        for source, target in ((link.a, link.b), (link.b, link.a)):
            if fault.towards in {"", target}:
                pipe = self._world.pipes[source, target]
                pipe.change(replace(pipe.properties, **fault.properties))
