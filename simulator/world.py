"""The network in virtual time: a heap of events, packets that hop from switch to switch, and faults.

Everything follows from one seed. Events at the same instant happen in the order in which they were planned. Routing is the controller's
own function; after a change of a link it takes `REROUTING_NS` until the new routes are in force, and packets follow the old ones.
"""

import hashlib
import heapq
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from random import Random
from types import MappingProxyType
from typing import Any, Final

from controller.routes import Port, every_port, routes
from hostagent.contract.core import Core
from hostagent.contract.environment import Receiver
from hostagent.contract.events import Event
from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.contract.wire import PURPOSE_AT, Codec, Part
from hostagent.runtime.counters import NAMES
from simulator.host import SimulatedHost
from simulator.pipe import Pipe
from topologies import Network

# Measured: the time that a controller takes on two cores for a grid of 16 switches.
REROUTING_NS: Final = 20_000_000
# A packet with more hops than this is in a loop, which can exist while routes change.
MOST_HOPS: Final = 255


class Packet:
    """A datagram on its way."""

    __slots__ = ("destination", "expensive", "hops", "last", "leg", "number", "parts", "sender", "size", "waited_since_ns")

    def __init__(self, sender: str, destination: Receiver, last: str, parts: Sequence[Part], number: int, size: int) -> None:
        self.sender = sender
        self.destination = destination
        """A host, or a group by its number."""
        self.last = last
        """The switch of the destination; empty for a group."""
        self.parts = parts
        self.number = number
        self.size = size
        self.expensive = False
        self.hops = 0
        self.leg = 0
        """Counts the arrivals planned for this packet. Only the last one counts: earlier ones were postponed or cancelled."""
        self.waited_since_ns: int | None = None
        """When the packet entered the queue of its current pipe."""


class World:
    """Hosts, pipes and events of one simulated run."""

    counter_names = (*NAMES, "overflowed", "unreachable")

    def __init__(
        self,
        network: Network,
        core: type[Core],
        parameters: Any,
        seed: int,
        *,
        pack_ms: float | None = 0.0,
        groups: Mapping[int, tuple[str, ...]] = MappingProxyType({}),
        multicasts: bool = False,
    ) -> None:
        self.network = network
        self.groups = groups
        """The members of each group at the start of the run, by number."""
        self.multicasts = multicasts
        """Whether the switches carry a packet to a group to all of its members."""
        self.seed = seed
        self.now_ns = 0
        self.events_done = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = 0
        self._random = Random(f"{seed}/network")  # noqa: S311 - repeatable, not secret
        self._trace = hashlib.sha256()
        self.codec = Codec(core.number, core.messages, run=0, numbers=network.numbers)
        self._received: tuple[Part, Part] | None = None
        self._noticed: deque[tuple[str, Event]] = deque()
        self.pipes = {
            (source, link.other(source)): Pipe(link, source, self._random)
            for link in network.links
            for source in (link.a, link.b)
        }
        self._last_switch = {host: network.access_switch(host) for host in network.hosts}
        self._up = every_port(network)
        self._routed_groups = {EVERYBODY: network.hosts, **groups} if multicasts else {}
        self._routes = routes(network, self._up, groups=self._routed_groups)
        self._regrouped = False
        self.controller_alive = True
        self.blank: set[str] = set()
        """Switches that have restarted and have no flows yet."""
        self.hosts = {host: SimulatedHost(self, host, core, parameters, pack_ms) for host in network.hosts}
        self.on_event: Callable[[str, str, str, int, Mapping[str, Any]], None] | None = None
        """Called with the host, name, origin, sequence and details of each event."""
        self.on_view: Callable[[str, str, int, Mapping[str, Any]], None] = lambda *_: None
        """Called with the host, name, time and details of each view that is installed."""
        self.on_log: Callable[[str, Event], None] | None = None
        self.on_transmit: Callable[[int, Packet], None] | None = None
        self.on_crossing: Callable[[int, Pipe, Packet], None] | None = None
        self.vanished: Counter[str] = Counter()
        self._under_way = 0

    def after(self, delay_ns: int, call: Callable[..., None], *arguments: Any) -> None:
        """Plan an event."""
        self._serial += 1
        heapq.heappush(self._heap, (self.now_ns + delay_ns, self._serial, call, arguments))

    def run(self, until_ns: int) -> None:
        """Run all events that are due until `until_ns`."""
        heap = self._heap
        while heap and heap[0][0] <= until_ns:
            self.now_ns, _, call, arguments = heapq.heappop(heap)
            self.events_done += 1
            call(*arguments)
        self.now_ns = until_ns

    def settle(self) -> None:
        """Hush all hosts, and let all packets under way arrive."""
        for host in self.hosts.values():
            host.hush()
        while self._under_way:
            assert self._heap, "something is under way and nothing will happen"
            self.run(self._heap[0][0])
        assert self._under_way == 0, self._under_way
        self.run(self.now_ns)

    @property
    def trace_hash(self) -> str:
        """A hash of everything that was logged, sent and received: the same seed gives the same hash."""
        return self._trace.hexdigest()

    def log(self, host: SimulatedHost, event: Event) -> None:
        """A line in a host's event log."""
        self._trace.update(f"{event.at_ns} {host.host} {event.event} {event.origin} {event.sequence} {event.details}\n".encode())
        if self.on_log is not None:
            self.on_log(host.host, event)
        if event.event == "view":
            self.on_view(host.host, event.event, event.at_ns, event.details)
        if self.on_event is not None:
            self._noticed.append((host.host, event))

    def notify(self) -> None:
        """Report what was logged to `on_event`, now that the call that logged it has ended."""
        while self._noticed:
            host, event = self._noticed.popleft()
            if self.on_event is not None:
                self.on_event(host, event.event, event.origin, event.sequence, event.details)

    def as_received(self, part: Part) -> Part:
        """A message as a receiver decodes it, so that nothing is shared with the sender."""
        # A message to many hosts is one object, so it is decoded once.
        if self._received is None or self._received[0] is not part:
            self._received = part, self.codec.as_received(part)
        return self._received[1]

    def transmit(self, host: SimulatedHost, to: Receiver, parts: Sequence[Part], number: int) -> None:
        """A datagram leaves its host."""
        datagram = self.codec.datagram(host.number, number, parts, self.now_ns)
        host.counters["sent"] += 1
        host.counters[_SENT[datagram[PURPOSE_AT]]] += 1
        host.counters["messages"] += len(parts)
        # Sender and time are in the datagram itself.
        if isinstance(to, str):
            self._trace.update(b"%d " % self.network.numbers[to] + datagram)
            packet = Packet(host.host, to, self._last_switch[to], parts, number, len(datagram))
        else:
            self._trace.update(b"group %d " % to + datagram)
            packet = Packet(host.host, to, "", parts, number, len(datagram))
        if self.on_transmit is not None:
            self.on_transmit(self.now_ns, packet)
        self._cross(packet, self.pipes[host.host, self._last_switch[host.host]])
        if host.life.crashes or self.on_event is not None:
            self._notify_sent(host, parts)

    def _notify_sent(self, host: SimulatedHost, parts: Sequence[Part]) -> None:
        """Report the messages that have left, one by one, until the host dies: first to the host's own crashes, then to `on_event`."""
        life = host.life
        for part in parts:
            if host.life is not life or not host.alive:
                return
            life.sent((part,))
            if life.crash_due is not None:
                host.on_own_crash(life.crash_due)
            if self.on_event is not None:
                self.on_event(host.host, "send", part.message.origin, part.message.sequence, {})

    def _cross(self, packet: Packet, pipe: Pipe) -> None:
        """Send a packet over one pipe, and on over further pipes as far as it gets without delay."""
        following: Pipe | None = pipe
        while following is not None:
            pipe = following
            arrivals = pipe.offer(self.now_ns, packet.size)
            if not arrivals:
                self.vanished["cut" if not pipe.up else "dropped"] += 1
                return
            packet.expensive |= pipe.expensive
            if arrivals != (self.now_ns,):
                self._plan_arrivals(packet, pipe, arrivals)
                return
            if self.on_crossing is not None:
                self.on_crossing(self.now_ns, pipe, packet)
            following = self._onward(packet, pipe)

    def _plan_arrivals(self, packet: Packet, pipe: Pipe, arrivals: tuple[int, ...]) -> None:
        """Plan the arrivals of a packet and its duplicate, which may have to wait in the queue before."""
        if pipe.dropped is not None:
            self._move_up(pipe)
        waiting = pipe.waiting
        waits = bool(waiting) and waiting[-1].arrivals is arrivals
        packet.waited_since_ns = self.now_ns if waits else None
        # From here on packet and duplicate are separate objects.
        packets = (packet,) if len(arrivals) == 1 else (packet, copy(packet))
        if waits:
            waiting[-1].packets = packets
        elif self.on_crossing is not None:
            for one in packets:
                self.on_crossing(self.now_ns, pipe, one)
        self._under_way += len(packets)
        self._plan_arrival(packet, pipe, arrivals[0])
        if len(packets) > 1:
            self._plan_arrival(packets[1], pipe, arrivals[1])

    def _plan_arrival(self, packet: Packet, pipe: Pipe, at_ns: int) -> None:
        assert at_ns >= self.now_ns, (at_ns, self.now_ns)
        leg = packet.leg = packet.leg + 1
        self._serial += 1
        heapq.heappush(self._heap, (at_ns, self._serial, self._arrive, (packet, pipe, pipe.epoch, leg)))

    def _move_up(self, pipe: Pipe) -> None:
        """A full queue dropped its oldest packet: cancel its arrival, and let all packets behind it arrive earlier."""
        assert pipe.dropped is not None
        for packet in pipe.dropped.packets:
            packet.leg += 1
            self._under_way -= 1
        self.vanished["dropped"] += 1
        pipe.dropped = None
        for turn in pipe.waiting:
            for packet, at_ns in zip(turn.packets, turn.arrivals, strict=False):
                self._plan_arrival(packet, pipe, at_ns)

    def _arrive(self, packet: Packet, pipe: Pipe, epoch: int, leg: int) -> None:
        if packet.leg != leg:
            return
        self._under_way -= 1
        if pipe.epoch != epoch:
            pipe.counts.carried -= 1
            pipe.counts.cut += 1
            self.vanished["cut"] += 1
            return
        if self.on_crossing is not None and packet.waited_since_ns is not None:
            self.on_crossing(packet.waited_since_ns, pipe, packet)
        following = self._onward(packet, pipe)
        if following is not None:
            self._cross(packet, following)

    def _onward(self, packet: Packet, pipe: Pipe) -> Pipe | None:
        """The next pipe of a packet that has crossed one; None if the packet has arrived, or if the switch has no flow for it.

        Of a packet to a group, copies for all branches of the tree but the last are sent off here.
        """
        node = pipe.target
        if node in self.hosts:
            # Scheduled as a separate event, so that the sender's call finishes before the receiver's begins.
            self.after(0, self._into_host, packet, self.hosts[node])
            return None
        packet.hops += 1
        following = self._next_nodes(packet, pipe)
        if not following or packet.hops > MOST_HOPS or node in self.blank:
            self.vanished["no route"] += 1
            return None
        for branch in following[:-1]:
            self._cross(copy(packet), self.pipes[node, branch])
        return self.pipes[node, following[-1]]

    def _next_nodes(self, packet: Packet, pipe: Pipe) -> Sequence[str]:
        """Where a switch sends a packet: to one node, or, for a group, along its tree and not back to where the packet came from."""
        node = pipe.target
        if isinstance(packet.destination, int):
            return [branch for branch in self._routes.group_trees[packet.destination].get(node, ()) if branch != pipe.source]
        following = packet.destination if node == packet.last else self._routes.trees[packet.last].get(node)
        return () if following is None else (following,)

    def _into_host(self, packet: Packet, host: SimulatedHost) -> None:
        self._trace.update(b"%d %d %d %s\n" % (self.now_ns, host.number, packet.number, packet.sender.encode()))
        if not host.hears(packet.destination):
            host.counters["unreachable"] += 1
        elif host.host == packet.sender:
            # A packet to a group that was under way while the trees changed may come back.
            host.counters["refused_from_itself"] += 1
        else:
            host.do(host.receive, packet.sender, packet.parts, packet.expensive)

    def set_link(self, a: str, b: str, *, up: bool) -> None:
        """Pull a link or plug it in; the routes follow later."""
        for source, target in ((a, b), (b, a)):
            pipe = self.pipes[source, target]
            if up:
                pipe.up = True
            elif pipe.up:
                pipe.pull()
        self.after(REROUTING_NS, self.reroute)

    def set_members(self, group: int, members: tuple[str, ...]) -> None:
        """On a network that multicasts, have the controller send packets to a group to these hosts; the routes follow later."""
        if self.multicasts:
            self._routed_groups = {**self._routed_groups, group: members}
            self._regrouped = True
            self.after(REROUTING_NS, self.reroute)

    def start_controller(self) -> None:
        """Start a controller. Its routes are in force after `REROUTING_NS`, as after a change of a link."""
        self.controller_alive = True
        self.after(REROUTING_NS, self.reroute)

    def reroute(self) -> None:
        """Compute the routes over the links that are up, if the controller runs."""
        if not self.controller_alive:
            return
        self.blank.clear()
        up = frozenset(
            Port(switch, number)
            for switch, ports in self.network.ports.items()
            for neighbour, number in ports.items()
            if self.pipes[switch, neighbour].up
        )
        if up != self._up or self._regrouped:
            self._routes = routes(self.network, up, self._routes, self._routed_groups)
            self._up, self._regrouped = up, False


_SENT: Final = [f"sent_{purpose.name.lower()}" for purpose in Purpose]
