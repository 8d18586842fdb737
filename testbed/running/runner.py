"""Runs a scenario with one protocol on an emulated network, and writes the result directory."""

import dataclasses
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from hostagent.contract.environment import NS_PER_MS
from hostagent.contract.wire import PORT
from hostagent.runtime.agent import Setting
from runfiles.format import CaptureRecord, CountersFile, LinkDrops, RunRecord, write
from scenarios.faults import Fault, LinkChange, late_hosts, name_of
from scenarios.scenario import FollowUps, Sending, catching_up_ms
from testbed.errors import CannotRun
from testbed.network import record, shaping
from testbed.network.doctor import Machine
from testbed.network.emulation import Emulation, emulate
from testbed.network.emulation import refuse_impossible as refuse_network
from testbed.network.memberships import refuse_impossible as refuse_groups
from testbed.network.shaping import Drops
from testbed.running.agents import Agents
from testbed.running.captures import Captures
from testbed.running.faults import Injector, own_crashes
from testbed.running.faults import refuse_impossible as refuse_faults
from testbed.running.growing_logs import EventLogs
from testbed.running.tasks import Task, described, never_fired, result_directory, versions, write_record
from testbed.terminal import Progress
from topologies.network import Link, Network, group_address

# If no packet arrives for this time, plus the delays of links, no packet is in flight.
QUIET_S = 0.3
# The longest time for which packets that are in flight are waited for: queues are short, and agents send nothing any more.
QUIET_WITHIN_S = 60.0
# The size of the longest packet on a link.
FRAME_BITS = 1514 * 8
# The period of reading event logs while a fault waits for an event.
WATCH_S = 0.005
# Messages that are due within this time are offered together: a wake-up for each would take longer than to broadcast them.
TURN_S = 0.001
# How often the progress of a stream is shown: to show each message would take longer than to send it.
SHOWN_TIMES = 200
# The period of checking that all child processes run: each check asks the kernel about every tcpdump.
LOOK_S = 0.25
# How often logs are read for deliveries that think time counts from: what a think time may be too long by.
THINK_LOOK_S = 0.005
# The largest difference between two readings of the clock offset that is not a clock that was set.
STEP_NS = 1_000_000


@dataclass
class Stage:
    """A network with its captures, agents and faults, ready for broadcasts."""

    task: Task
    machine: Machine
    emulation: Emulation
    captures: Captures
    agents: Agents
    injector: Injector
    problems: list[str] = field(default_factory=list)
    """A sentence for each thing that has died or gone wrong so far. Problems do not end the run; any problem makes its verdict unknown."""
    _next_look: float = 0.0

    def watch(self, most_s: float) -> None:
        """Wait up to `most_s` for agents, inject the faults that are due, and every LOOK_S check all child processes."""
        longest = WATCH_S if self.injector.is_watching else LOOK_S
        self.agents.notice(wait_s=max(0.0, min(most_s, longest, self.injector.next_due - time.monotonic())))
        self.attempt(self.injector.inject_due)
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_S
            self.notice()

    def attempt(self, action: Callable[[], object]) -> None:
        """Call an action; if it fails, that is a problem of the run."""
        try:
            action()
        except CannotRun as failure:
            self._write_down(str(failure))

    def notice(self) -> None:
        """Add what has died or gone wrong since the last call to the problems."""
        watched = self.agents, self.captures, self.emulation.controller, self.emulation.vswitch
        for one in watched:
            one.notice()
        self._write_down(*(death for one in watched for death in one.deaths), *self.injector.problems)

    def _write_down(self, *problems: str) -> None:
        self.problems += [problem for problem in dict.fromkeys(problems) if problem not in self.problems]


def refuse_impossible(task: Task, machine: Machine) -> None:
    """Raise an error, before anything is made, if this machine cannot emulate the network of a task or inject its faults."""
    if task.own is not None and task.own.is_guest and task.medium == "multicast":
        raise CannotRun(f"{task.protocol} is a guest, which sends to each host by itself: run it without --medium multicast")
    refuse_network(task.scenario.network, machine)
    refuse_groups(task.routed_groups)
    refuse_faults(task.scenario.faults, machine)


def run(
    task: Task,
    machine: Machine,
    progress: Progress,
    before_traffic: Callable[[], object] = lambda: None,
    play: Callable[[Stage, Progress], None] | None = None,
) -> None:
    """Run a task and leave its result directory.

    `before_traffic` is called when the network is ready and still silent. After that, `play` is called; by default it plays the scenario.
    """
    with result_directory(task):
        setting, measured = _on_network(task, machine, progress, before_traffic, play or play_scenario)
        write(task.output / "counters.json", CountersFile(measured.counters))
        write_record(_record(task, machine, setting, measured), task.output)


def _on_network(
    task: Task,
    machine: Machine,
    progress: Progress,
    before_traffic: Callable[[], object],
    play: Callable[[Stage, Progress], None],
) -> tuple[Setting, "_Measured"]:
    """Make the network, run the scenario on it, and remove the network."""
    network = task.scenario.network
    with record.claim() as private, ExitStack() as stack:
        emulation = stack.enter_context(
            emulate(network, machine, private, task.output / "controller.jsonl", progress, task.routed_groups)
        )
        before_traffic()
        guest = task.own is not None and task.own.is_guest
        live = play is not play_scenario
        captures = Captures(
            emulation.plan, task.output / "captures", private, everything=guest, full=task.full_packets, at_once=live
        )
        stack.callback(captures.kill)
        setting = _setting(task, private)
        # Drops are read before the agents start, as some agents send at once.
        drops_before = shaping.read_drops(emulation.plan)
        scenario = task.scenario
        agents = Agents(emulation.plan, setting, own_crashes(scenario.faults), late_hosts(scenario.faults))
        stack.callback(agents.kill)
        injector = Injector(emulation, agents, scenario.faults, scenario.group_numbers, task.output / "faults.jsonl")
        stage = Stage(task, machine, emulation, captures, agents, injector)
        measured = _measure(stage, drops_before, play, progress)
    return setting, measured


@dataclass(frozen=True)
class _Measured:
    """The results of a run other than the files that were written during it."""

    started_ns: int
    ended_ns: int
    counters: dict[str, dict[str, int]]
    captures: tuple[CaptureRecord, ...]
    drops: tuple[LinkDrops, ...]
    problems: tuple[str, ...]


def _measure(
    stage: Stage, drops_before: dict[tuple[str, str], Drops], play: Callable[[Stage, Progress], None], progress: Progress
) -> _Measured:
    """Play the scenario, wait until no packet is in flight, stop everything, and read all counters."""
    agents, captures, injector = stage.agents, stage.captures, stage.injector
    started_ns, clock_ns = time.time_ns(), _clock_ns()
    play(stage, progress)
    progress("waiting until nothing is in flight")
    undone = never_fired(injector.unfired())
    undone += [
        f"the fault {name_of(fault)} {fault.target} was still pending when the run ended: set a longer settle"
        for fault in injector.pending()
    ]
    injector.heal_everything()
    # The time after this does not count as time that the protocol had.
    ended_ns = time.time_ns()
    agents.hush()
    _wait_until_quiet(stage)
    # Agents are stopped before their counters are read: an agent that was delayed may still count datagrams.
    agents.stop()
    counters = agents.counters()
    misshapen = _misshapen(stage.emulation, injector)
    captured = captures.stop()
    drops = _drops_since(stage.emulation, drops_before, injector.drops())
    stage.notice()
    if abs(stepped_ns := _clock_ns() - clock_ns) > STEP_NS:
        undone.append(
            f"the machine's clock was set by {stepped_ns / 1e6:+.1f} ms during the run, so its times cannot be compared"
        )
    return _Measured(started_ns, ended_ns, counters, captured, drops, (*stage.problems, *misshapen, *undone))


def _clock_ns() -> int:
    """Offset between the wall clock and the monotonic clock. It changes only if somebody sets the wall clock."""
    readings = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(10)]
    # The reading that took the least time is the most precise.
    before, now, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return now - (before + after) // 2


def _misshapen(emulation: Emulation, injector: Injector) -> list[str]:
    """A problem if a link is not shaped as it should be at the end of the run."""
    try:
        shaping.read_back(emulation.plan, injector.current)
    except CannotRun as difference:
        return [f"at the end of the run: {difference}"]
    return []


def play_scenario(stage: Stage, progress: Progress) -> None:
    """Make broadcasts and inject faults at their times, then wait for the rest of the settling time."""
    scenario = stage.task.scenario
    timeline: list[tuple[float, Callable[[], object]]] = [
        (fault.at_ms, partial(_inject, stage, fault)) for fault in scenario.faults if fault.at_ms is not None
    ]
    broadcasts = list(scenario.broadcasts(stage.task.seed))
    waiting = FollowUps(broadcasts)
    shown_every = max(1, len(broadcasts) // SHOWN_TIMES)

    def broadcast(number: int, sending: Sending) -> None:
        if number % shown_every == 0:
            progress("broadcasting", f"{number} of {len(broadcasts)}")
        due_ns = began_ns + round(sending.at_ms * NS_PER_MS)
        stage.agents.broadcast(sending.source, sending.payload, sending.to, due_ns, more=True)

    for number, sending in enumerate(broadcasts, start=1):
        if not sending.follows:
            timeline.append((sending.at_ms, partial(broadcast, number, sending)))
    timeline.sort(key=lambda item: item[0])
    lasts_s = scenario.ends_ms(stage.task.seed) / 1000
    began_ns, start = time.time_ns(), time.monotonic()
    if waiting:
        _play_with_think_time(stage, start, start + lasts_s, timeline, waiting)
        return
    next_turn = start
    for at_ms, action in timeline:
        if (due := start + at_ms / 1000) > time.monotonic():
            _sleep_until(max(due, next_turn), stage)
            next_turn = time.monotonic() + TURN_S
        if stage.agents.are_lost:
            return
        stage.attempt(action)
    took_s = _catch_up(stage, start, start + lasts_s - scenario.workload.settle / 1000, progress)
    progress("letting it settle")
    _sleep_until(start + lasts_s + took_s, stage)


def _inject(stage: Stage, fault: Fault) -> None:
    """Inject a fault, after all that was broadcast before it."""
    stage.agents.send_offers()
    stage.injector.inject(fault)


def _catch_up(stage: Stage, start: float, offered_s: float, progress: Progress) -> float:
    """All messages are offered: let those that still wait be broadcast, for a bounded time. Returns how long that took, in seconds."""
    _sleep_until(offered_s, stage)
    most_s = offered_s + catching_up_ms((offered_s - start) * 1000) / 1000
    while not stage.agents.have_caught_up and time.monotonic() < most_s and not stage.agents.are_lost:
        if time.monotonic() > offered_s + LOOK_S:
            # The last message is always on its way for a moment.
            progress("the sources have fallen behind: waiting for them")
        stage.watch(WATCH_S)
    return max(0.0, time.monotonic() - offered_s)


def _play_with_think_time(
    stage: Stage, start: float, end: float, timeline: list[tuple[float, Callable[[], object]]], waiting: FollowUps
) -> None:
    """Play a timeline to which each delivery at a source adds its next broadcast; then wait for the settling time."""
    logs, settle_s = EventLogs(stage.agents), stage.task.scenario.workload.settle / 1000
    longest_s = end - settle_s
    while (timeline or waiting) and time.monotonic() < longest_s and not stage.agents.are_lost:
        due_s = start + timeline[0][0] / 1000 if timeline else longest_s
        _sleep_until(min(due_s, time.monotonic() + THINK_LOOK_S) if waiting else due_s, stage)
        if timeline and time.monotonic() >= due_s:
            stage.attempt(timeline.pop(0)[1])
        now_ms = (time.monotonic() - start) * 1000
        for host, event in logs.news() if waiting else ():
            if sending := waiting.release(host, event.event, event.origin, event.sequence):
                broadcast = partial(stage.agents.broadcast, sending.source, sending.payload, sending.to)
                timeline.append((now_ms + sending.at_ms, broadcast))
        timeline.sort(key=lambda item: item[0])
    stage.problems += waiting.problems()
    _sleep_until(time.monotonic() + settle_s, stage)


def _sleep_until(moment: float, stage: Stage) -> None:
    """Wait until a moment and watch meanwhile; return at once if all agents are lost."""
    while (left := moment - time.monotonic()) > 0 and not stage.agents.are_lost:
        stage.watch(left)


def _wait_until_quiet(stage: Stage) -> None:
    """Wait until no counter has changed for longer than a packet can be in flight, and no longer than QUIET_WITHIN_S."""
    scenario, agents = stage.task.scenario, stage.agents
    quiet_s = quiet_time_s(scenario.network, (*scenario.network.links, *stage.injector.current.values()), scenario.faults)
    before: object = None
    until = time.monotonic() + max(QUIET_WITHIN_S, 10 * quiet_s)
    while before != (now := agents.counters()):
        if time.monotonic() > until:
            stage.problems.append(
                "packets were still arriving a minute after the hosts had stopped sending, so not all are counted"
            )
            return
        before = now
        agents.notice()
        time.sleep(quiet_s)


def quiet_time_s(network: Network, links: Iterable[Link], faults: Iterable[Fault]) -> float:
    """The longest time for which no counter changes while a packet is in flight: each link on its path may delay it, and must send it.

    A packet that is being delayed keeps its delay when a link changes; a packet in a queue leaves at the present bandwidth.
    """
    links, changes = list(links), [fault for fault in faults if isinstance(fault, LinkChange)]
    delays = [link.delay_ms + link.jitter_ms for link in links]
    delays += [(change.delay_ms or 0.0) + (change.jitter_ms or 0.0) for change in changes]
    sending = [FRAME_BITS / (each.bandwidth_mbit * 1000) for each in links if each.bandwidth_mbit]
    return QUIET_S + (max(delays) + max(sending, default=0.0)) * len(network.switches) / 1000


def _drops_since(
    emulation: Emulation, before: dict[tuple[str, str], Drops], now: dict[tuple[str, str], Drops]
) -> tuple[LinkDrops, ...]:
    """The drops since the start. If the switch daemon died, its counts were lost, so a difference may not be negative."""
    least = 0 if emulation.vswitch.deaths else -sys.maxsize
    return tuple(
        LinkDrops(source, target, *(max(least, drops) for drops in dataclasses.astuple(total - before[source, target])))
        for (source, target), total in now.items()
    )


def _setting(task: Task, private: Path) -> Setting:
    return Setting(
        run=secrets.randbits(32),
        protocol=task.protocol,
        parameters=task.parameters,
        # A program is started from its file.
        own=msgspec.structs.replace(task.own, source=b"") if task.own and task.own.words is not None else task.own,
        seed=task.seed,
        port=PORT,
        addresses=dict(task.scenario.network.addresses),
        groups=task.scenario.members,
        group_addresses={group: group_address(group) for group in task.routed_groups},
        events=str(task.output.absolute() / "events"),
        private=str(private),
        pack_ms=task.pack_ms,
    )


def _record(task: Task, machine: Machine, setting: Setting, measured: _Measured) -> RunRecord:
    return RunRecord(
        **described(task),
        engine="mininet",
        run=setting.run,
        udp_port=setting.port,
        started_ns=measured.started_ns,
        ended_ns=measured.ended_ns,
        versions=versions() | {"open vswitch": _vswitch_version()},
        datapath=machine.datapath,
        shaping=machine.shaping,
        captures=measured.captures,
        link_drops=measured.drops,
        problems=measured.problems,
    )


def _vswitch_version() -> str:
    shown = subprocess.run(["ovs-vsctl", "--version"], capture_output=True, text=True, check=True)
    return shown.stdout.split("\n", 1)[0].split()[-1]
