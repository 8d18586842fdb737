"""A world in which protocol cores can be watched: hosts joined by a list of what is in flight, and a clock that the test moves.

Nothing happens by itself. A test broadcasts, loses, duplicates and hands over packets, lets timers expire, and restarts hosts.
Every message goes through the wire format, and every stored value through MessagePack, as on a real host.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import msgspec

from hostagent.contract.core import Core, Environment
from hostagent.contract.messages import Message, Purpose
from hostagent.contract.wire import Codec


class Packet(NamedTuple):
    sender: str
    to: str
    message: Message
    purpose: Purpose


class Host(Environment):
    """The environment of one core: what it did is there to be looked at."""

    def __init__(self, world: "World", host: str) -> None:
        self.world = world
        self.host = host
        self.hosts = world.hosts
        self.delivered: list[tuple[str, int, bytes]] = []
        self.stored: dict[str, Any] = {}
        self.traced: list[tuple[str, dict[str, object]]] = []
        self.incarnation = 0
        self.broadcasts = 0
        self.start()

    def start(self) -> None:
        """Start or restart: all is forgotten but what was stored."""
        self.incarnation += 1
        self.random = Random(f"{self.world.seed}/{self.host}/{self.incarnation}")
        self.timers: dict[str, float] = {}
        self.core = self.world.core(self, self.world.parameters)
        self.core.on_start(dict(self.stored))

    def now(self) -> float:
        return self.world.now_s

    def send(self, to: str, message: Message, purpose: Purpose) -> None:
        self.world.send(self.host, to, message, purpose)

    def set_timer(self, name: str, after_s: float) -> None:
        self.timers[name] = self.world.now_s + after_s

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def deliver(self, origin: str, sequence: int, payload: bytes) -> None:
        self.delivered.append((origin, sequence, payload))

    def store(self, key: str, value: object) -> None:
        if value is None:
            self.stored.pop(key, None)
        else:
            self.stored[key] = msgspec.msgpack.decode(msgspec.msgpack.encode(value))

    def trace(self, event: str, **details: object) -> None:
        self.traced.append((event, details))


class World:
    """Hosts h1, h2, ... that run one protocol."""

    def __init__(self, core: type[Core], size: int, seed: int = 1, **parameters: object) -> None:
        self.core = core
        self.hosts = tuple(f"h{n}" for n in range(1, size + 1))
        self.seed = seed
        self.parameters = msgspec.convert(parameters, core.Parameters)
        self.now_s = 0.0
        self.sent: list[Packet] = []
        """Every packet ever sent."""
        self.in_flight: list[Packet] = []
        self._codec = Codec(core.number, core.messages, 1, {host: n for n, host in enumerate(self.hosts, start=1)})
        self._hosts: dict[str, Host] = {}
        for host in self.hosts:
            self._hosts[host] = Host(self, host)

    def __getitem__(self, host: str) -> Host:
        return self._hosts[host]

    def send(self, sender: str, to: str, message: Message, purpose: Purpose) -> None:
        datagram = self._codec.encode(self.hosts.index(sender) + 1, len(self.sent), message, purpose, int(self.now_s * 1e9))
        packet = Packet(sender, to, *self._codec.decode(datagram).messages, purpose)
        self.sent.append(packet)
        self.in_flight.append(packet)

    def broadcast(self, host: str, payload: bytes = b"hello") -> None:
        self[host].broadcasts += 1
        self[host].core.on_broadcast(self[host].broadcasts, payload)

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
        self[packet.to].core.on_message(packet.sender, packet.message, expensive=False)

    def settle(self) -> None:
        """Hand over everything in flight, and what is sent in answer."""
        while self.in_flight:
            self.hand_over()

    def expire(self) -> float:
        """Move the clock to the next timer of all and fire it; how long that took."""
        at, host, name = min((at, host, name) for host in self.hosts for name, at in self[host].timers.items())
        waited, self.now_s = at - self.now_s, at
        del self[host].timers[name]
        self[host].core.on_timer(name)
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
