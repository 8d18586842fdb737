"""One simulated run of a scenario: its timetable, and everything that is recorded of the run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hostagent.contract.core import Core
from hostagent.contract.environment import NS_PER_MS
from hostagent.contract.events import Event
from hostagent.contract.wire import COST_DSCP, PACK, leading
from runfiles.format import FaultRecord
from scenarios import Scenario
from scenarios.faults import Fault
from scenarios.scenario import FollowUps, Sending, catching_up_ms
from simulator.faults import FaultPlayer, Healing
from simulator.pipe import HEADERS_BYTES, Pipe
from simulator.world import Packet, World
from topologies.network import group_name

# With think time, how often to look whether all broadcasts were made.
LOOK_NS = 100 * NS_PER_MS
# When to look first whether the verdict on a healed network is certain; from then on whenever the time has doubled.
FIRST_VERDICT_NS = 5000 * NS_PER_MS


@dataclass
class Outcome:
    """Everything that a simulated run leaves."""

    world: World
    ended_ns: int
    faults: list[FaultRecord]
    unfired: list[Fault]
    events: list[tuple[str, Event]] = field(default_factory=list)
    """Host and event, in the order in which they happened."""
    problems: list[str] = field(default_factory=list)
    """What was asked for and not done."""
    crossings: list[tuple[Any, ...]] = field(default_factory=list)
    """Every packet on every link, if asked for: rows of the packets table, with the columns of `CROSSING`."""

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """The counters of every host."""
        return {name: host.counters for name, host in self.world.hosts.items()}


def simulate(
    scenario: Scenario,
    core: type[Core],
    parameters: Any,
    seed: int,
    *,
    healing: Healing | None = None,
    sample_ms: float = 1000.0,
    crossings: bool = False,
    on_transmit: Callable[[int, Packet], None] | None = None,
    on_crossing: Callable[[int, Pipe, Packet], None] | None = None,
    pack_ms: float | None = 0.0,
    multicasts: bool = False,
    is_certain: Callable[["Outcome"], bool] | None = None,
) -> Outcome:
    """Run a scenario in virtual time.

    With `healing`, faults end with the settling time, and the run goes on for `healing.for_ms` on the healed network. Half-way through,
    every source that is up broadcasts once more; if no source is up, the first host that is up does. Without a new message, a host that
    is level with all others would have nothing to do. With `is_certain`, which says of the run so far that more time would not change its
    verdict, both halves end as soon as it does. With `crossings`, every packet on every link is kept; for more packets than memory
    holds, `on_crossing` is called with each packet instead, and `on_transmit` with each packet that leaves its host.
    """
    groups = scenario.members
    world = World(scenario.network, core, parameters, seed, pack_ms=pack_ms, groups=groups, multicasts=multicasts)
    player = FaultPlayer(world, scenario.faults, scenario.group_numbers)
    outcome = Outcome(world, 0, player.records, [])
    world.on_log = lambda host, event: outcome.events.append((host, event))
    world.on_transmit = on_transmit
    world.on_crossing = on_crossing
    if crossings:
        world.on_crossing = lambda at_ns, pipe, packet: outcome.crossings.append(_row(at_ns, pipe, packet, core.number))
    for name, host in world.hosts.items():
        if name not in player.absent:
            host.start()
    _sample(world, round(sample_ms * NS_PER_MS))
    _play(scenario, seed, outcome)
    outcome.unfired = player.unfired
    if healing is not None:
        player.heal(healing)
        half_ns = round(healing.for_ms / 2 * NS_PER_MS)
        if is_certain is None:
            _tell_news(scenario, world, half_ns)
            world.run(world.now_ns + round(healing.for_ms * NS_PER_MS))
        else:
            _run_until_certain(outcome, is_certain, half_ns)
            _tell_news(scenario, world, 0)
            _run_until_certain(outcome, is_certain, half_ns)
    _sample_hosts(world)
    outcome.ended_ns = world.now_ns
    if crossings:
        # Packets can be compared with counters only if both are complete.
        world.settle()
    for host in world.hosts.values():
        if host.alive and not host.paused:
            host.do(host.life.log, "stop")
    return outcome


def _tell_news(scenario: Scenario, world: World, after_ns: int) -> None:
    """Plan one more broadcast of every source that is up now, or of the first host that is."""
    payload = b"healed".ljust(scenario.workload.payload, b".")[: scenario.workload.payload]
    alive = [name for name, host in world.hosts.items() if host.alive]
    for source in [source for source in dict.fromkeys(scenario.sources) if source in alive] or alive[:1]:
        host = world.hosts[source]
        world.after(after_ns, host.do, host.broadcast, payload)


def _run_until_certain(outcome: Outcome, is_certain: Callable[[Outcome], bool], most_ns: int) -> None:
    """Run until the verdict is certain, for `most_ns` at most."""
    world, began_ns = outcome.world, outcome.world.now_ns
    while world.now_ns < began_ns + most_ns:
        next_ns = max(FIRST_VERDICT_NS, 2 * (world.now_ns - began_ns))
        world.run(began_ns + min(next_ns, most_ns))
        outcome.ended_ns = world.now_ns
        if is_certain(outcome):
            return


def _play(scenario: Scenario, seed: int, outcome: Outcome) -> None:
    """Run until the time to settle ends. With think time, that begins when the last broadcast was made, or at the latest time for it."""
    world, waiting = outcome.world, _plan(scenario, seed, outcome)
    ends_ns = round(scenario.ends_ms(seed) * NS_PER_MS)
    if waiting:
        settle_ns = round(scenario.workload.settle * NS_PER_MS)
        while waiting and world.now_ns < ends_ns - settle_ns:
            world.run(world.now_ns + LOOK_NS)
        outcome.problems = waiting.problems()
        last_fault_ns = round(scenario.last_fault_ms * NS_PER_MS)
        ends_ns = max(world.now_ns + round(scenario.workload.interval * NS_PER_MS), last_fault_ns) + settle_ns
    else:
        ends_ns += _catch_up(world, ends_ns - round(scenario.workload.settle * NS_PER_MS))
    world.run(ends_ns)


def _catch_up(world: World, offered_ns: int) -> int:
    """All messages are offered: let those that wait at a door be broadcast, for a bounded time. Returns how long that took."""
    world.run(offered_ns)
    most_ns = offered_ns + round(catching_up_ms(offered_ns / NS_PER_MS) * NS_PER_MS)
    while world.now_ns < most_ns and any(host.alive and host.life.door for host in world.hosts.values()):
        world.run(world.now_ns + LOOK_NS)
    return world.now_ns - offered_ns


def _plan(scenario: Scenario, seed: int, outcome: Outcome) -> FollowUps:
    """Plan the broadcasts: those of the timetable at their times, and those that wait for a delivery when it comes."""
    world, sendings = outcome.world, list(scenario.broadcasts(seed))
    waiting = FollowUps(sendings)

    def plan(sending: Sending) -> None:
        host = world.hosts[sending.source]
        after_ns = round(sending.at_ms * NS_PER_MS)
        world.after(after_ns, host.do, host.broadcast, sending.payload, sending.to, world.now_ns + after_ns)

    def log(host: str, event: Event) -> None:
        outcome.events.append((host, event))
        if sending := waiting.release(host, event.event, event.origin, event.sequence):
            plan(sending)

    for sending in sendings:
        if not sending.follows:
            plan(sending)
    world.on_log = log
    return waiting


CROSSING = (
    *("link", "source", "target", "expensive", "at_ns", "sender", "destination", "dscp", "bytes"),
    *("protocol", "kind", "purpose", "packet", "group", "origin", "sequence"),
)
"""The columns of a crossing, named as in the packets table."""


def _row(at_ns: int, pipe: Pipe, packet: Packet, protocol: int) -> tuple[Any, ...]:
    lead = leading(packet.parts)
    message, kind = lead.message, lead.kind if len(packet.parts) == 1 else PACK
    dscp = COST_DSCP if packet.expensive else 0
    return (
        *(pipe.name, pipe.source, pipe.target, pipe.expensive, at_ns, packet.sender, _destination(packet), dscp),
        *(packet.size + HEADERS_BYTES, protocol, kind, lead.purpose.name.lower(), packet.number),
        *(message.group, message.origin, message.sequence),
    )


def _destination(packet: Packet) -> str:
    return packet.destination if isinstance(packet.destination, str) else group_name(packet.destination)


def _sample(world: World, every_ns: int) -> None:
    """Have every host log periodically how much it sent and how much it keeps, as a real agent does."""
    _sample_hosts(world)
    world.after(every_ns, _sample, world, every_ns)


def _sample_hosts(world: World) -> None:
    for host in world.hosts.values():
        if host.alive and not host.paused and not host.hushed:
            host.sample()
    world.notify()
