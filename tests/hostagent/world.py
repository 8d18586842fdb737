"""A world in which protocol cores can be watched: hosts joined by a list of what is in flight, and a clock that the test moves.

Nothing happens by itself. A test broadcasts, loses, duplicates and hands over packets, lets timers expire, and restarts hosts.
Every message goes through the wire format, and every stored value through MessagePack, as on a real host.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.environment import NS_PER_S, Clock
from hostagent.contract.events import Event
from hostagent.contract.messages import Message, Purpose
from hostagent.contract.wire import Codec, Part
from hostagent.runtime.control import CrashWhen
from hostagent.runtime.life import Life


class Packet(NamedTuple):
    sender: str
    to: str | int
    message: Message
    purpose: Purpose


class Host:
    """Drives one life of a core after another: what each asked for is carried out at once, and is there to be looked at."""

    def __init__(self, world: "World", host: str) -> None:
        self.world = world
        self.host = host
        self._delivered: list[tuple[str, int, bytes]] = []
        self.storage: dict[str, bytes] = {}
        self._timers: dict[str, float] = {}
        self._traced: list[tuple[str, dict[str, object]]] = []
        self.clock = Clock(lambda: world.now_ns, lambda: world.now_ns)
        self.life: Life | None = None
        """None while the host is down."""
        self.incarnation = 0
        self.broadcasts = 0
        """Messages broadcast here, in all lives."""
        self.start()

    @property
    def core(self) -> Core | None:
        return self.life.core if self.life else None

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(host for host in self.world.hosts if host != self.host)

    @property
    def delivered(self) -> list[tuple[str, int, bytes]]:
        self.carry_out()
        return self._delivered

    @property
    def timers(self) -> dict[str, float]:
        """When each timer that is set expires."""
        self.carry_out()
        return self._timers

    @property
    def traced(self) -> list[tuple[str, dict[str, object]]]:
        self.carry_out()
        return self._traced

    @property
    def stored(self) -> dict[str, Any]:
        """What the core itself has on stable storage; `kept` has what one of its parts has."""
        return self.kept("core")

    def kept(self, space: str) -> dict[str, Any]:
        """What a part has on stable storage, by the keys that the part uses."""
        self.carry_out()
        keys = {key.partition("/")[2]: key for key in self.storage if key.startswith(f"{space}/")}
        return {name: msgspec.msgpack.decode(self.storage[key]) for name, key in keys.items()}

    def start(self, crashes: tuple[CrashWhen, ...] = ()) -> None:
        """Start or restart: all is forgotten but what was stored."""
        self.carry_out()
        self.incarnation += 1
        self._timers.clear()
        self.life = Life(
            self.world.core,
            self.world.parameters,
            host=self.host,
            hosts=self.world.hosts,
            seed=self.world.seed,
            incarnation=self.incarnation,
            clock=self.clock,
            codec=self.world.codec,
            groups=self.world.groups,
            multicasts=self.world.multicasts,
            crashes=crashes,
        )
        self.life.start(self.storage)
        self.carry_out()

    def carry_out(self) -> None:
        """Commit what the core asked for, and then let its messages leave, unless a crash is due before one does."""
        if self.life is None:
            return
        self.life.admit()
        effects = self.life.effects
        for key, value in effects.stored.items():
            if value is None:
                self.storage.pop(key, None)
            else:
                self.storage[key] = value
        for event in effects.events:
            self.world.log(self.host, event)
        self._traced += [(e.event, e.details) for e in effects.events if e.event not in {"start", "broadcast", "deliver"}]
        self._delivered += effects.deliveries
        for name, due_ns in effects.timers.items():
            self._timers.pop(name, None)
            if due_ns is not None:
                self._timers[name] = due_ns / NS_PER_S
        sends = list(effects.sends)
        self.life.committed()
        for to, part in sends:
            if self.life.is_over:
                return
            self.world.send(self.host, to, part)
            self.life.sent((part,))


class World:
    """Hosts h1, h2, ... that run one protocol."""

    def __init__(
        self,
        core: type[Core],
        size: int,
        seed: int = 1,
        groups: Mapping[int, tuple[str, ...]] | None = None,
        *,
        multicasts: bool = False,
        **parameters: object,
    ) -> None:
        self.core = core
        self.hosts = tuple(f"h{n}" for n in range(1, size + 1))
        self.groups = {0: self.hosts, **(groups or {})}
        self.multicasts = multicasts
        self.seed = seed
        self.parameters = msgspec.convert(parameters, core.Parameters)
        self.now_s = 0.0
        self._sent: list[Packet] = []
        self._in_flight: list[Packet] = []
        self.codec = Codec(core.number, core.messages, 1, {host: n for n, host in enumerate(self.hosts, start=1)})
        self._hosts: dict[str, Host] = {}
        for host in self.hosts:
            self._hosts[host] = Host(self, host)

    def __getitem__(self, host: str) -> Host:
        return self._hosts[host]

    def send(self, sender: str, to: str | int, part: Part) -> None:
        """A packet to a group counts as one that was sent, and is in flight to every other member."""
        datagram = self.codec.datagram(self.hosts.index(sender) + 1, len(self._sent), (part,), self.now_ns)
        packet = Packet(sender, to, *self.codec.decode(datagram).messages, part.purpose)
        self._sent.append(packet)
        receivers = (to,) if isinstance(to, str) else [member for member in self.groups[to] if member != sender]
        self._in_flight += [packet._replace(to=receiver) for receiver in receivers]

    def log(self, host: str, event: Event) -> None:
        """A host has logged an event."""

    @property
    def now_ns(self) -> int:
        return round(self.now_s * NS_PER_S)

    @property
    def sent(self) -> list[Packet]:
        """Every packet ever sent, also of a core that the test has called by itself."""
        self._carry_out()
        return self._sent

    @property
    def in_flight(self) -> list[Packet]:
        self._carry_out()
        return self._in_flight

    @in_flight.setter
    def in_flight(self, packets: list[Packet]) -> None:
        self._in_flight = packets

    def _carry_out(self) -> None:
        for host in self._hosts.values():
            host.carry_out()

    def broadcast(self, host: str, payload: bytes = b"hello", to: int | tuple[str, ...] = 0) -> None:
        self[host].broadcasts += 1
        self[host].life.offer(payload, to)
        self[host].carry_out()

    def lose(self, to: str | None = None, kind: type[Message] = Message) -> int:
        """Lose what is in flight: all of it, or that to a host, or of a kind; how many packets that was."""
        lost = [packet for packet in self.in_flight if to in {None, packet.to} and isinstance(packet.message, kind)]
        self.in_flight = [packet for packet in self.in_flight if packet not in lost]
        return len(lost)

    def duplicate(self) -> None:
        """Have everything in flight arrive twice."""
        self.in_flight *= 2

    def hand_over(self, choose: Callable[[int], int] = lambda _: 0) -> None:
        """Hand one packet to its receiver: the oldest, or the one that `choose` picks from that many."""
        packet = self.in_flight.pop(choose(len(self.in_flight)))
        self[packet.to].life.receive(packet.sender, [packet.message], expensive=False)
        self[packet.to].carry_out()

    def settle(self) -> None:
        """Hand over everything in flight, and what is sent in answer."""
        while self.in_flight:
            self.hand_over()

    def expire(self) -> float:
        """Move the clock to the next timer of all and fire it; how long that took."""
        at, host, name = min((at, host, name) for host in self.hosts for name, at in self[host].timers.items())
        waited, self.now_s = at - self.now_s, at
        del self[host].timers[name]
        self[host].life.fire(name)
        self[host].carry_out()
        return waited

    def restart(self, host: str) -> None:
        self[host].start()

    def suffer(self, random: Random, most_sent: int) -> None:
        """Broadcast, restart, duplicate, lose, wait and hand over, at random; then hand over what is left."""
        for _ in range(300):
            step = random.randrange(12)
            if step == 0 and len(self.sent) < most_sent:
                self.broadcast(random.choice(self.hosts))
            elif step == 1:
                self.restart(random.choice(self.hosts))
            elif step == 2 and len(self.in_flight) < 50:
                self.duplicate()
            elif step == 3:
                self.lose(to=random.choice(self.hosts))
            elif step in {4, 5} and self.timers():
                self.expire()
            elif self.in_flight:
                self.hand_over(random.randrange)
        self.settle()

    def lacking(self) -> dict[str, list[tuple[str, int]]]:
        """For hosts that have not delivered every message that was broadcast exactly once: what they have."""
        everything = sorted((host, n) for host in self.hosts for n in range(1, self[host].broadcasts + 1))
        return {host: has for host in self.hosts if (has := sorted(self.delivered(host))) != everything}

    def timers(self) -> list[str]:
        return [name for host in self.hosts for name in self[host].timers]

    def delivered(self, host: str) -> list[tuple[str, int]]:
        return [(origin, sequence) for origin, sequence, _ in self[host].delivered]
