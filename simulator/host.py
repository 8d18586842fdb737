"""A host in virtual time: the environment of one protocol core.

It keeps the promises of `hostagent.contract.core.Environment`: what a call stored, logged and delivered takes effect as a whole when the
call ends, and then the datagrams leave, one by one, packed as the agent packs them. A crash may come before each datagram, and at no
other place.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hostagent.contract.core import Core, Environment
from hostagent.contract.messages import Message, Purpose
from hostagent.contract.wire import Part
from hostagent.runtime.packing import Datagram, Packer

if TYPE_CHECKING:
    from simulator.world import World

NS_PER_S: Final = 1_000_000_000
# A key that no core uses, as in the agent: the number of the last message broadcast here.
_LAST_BROADCAST: Final = "agent/last broadcast"


class SimulatedHost(Environment):
    """One host: its core, clock, timers and storage. A crash and a restart make a new core in the same host."""

    def __init__(self, world: "World", name: str, core: type[Core], parameters: Any, pack_ms: float | None) -> None:
        self.host = name
        self.hosts = world.network.hosts
        self.number = world.network.numbers[name]
        self._world = world
        self._core_type = core
        self._parameters = parameters
        self._peers = tuple(host for host in self.hosts if host != name)
        self._storage: dict[str, bytes] = {}
        self.counters = dict.fromkeys(world.counter_names, 0)
        self.incarnation = 0
        self.alive = False
        self.paused = False
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._offset_ns, self._rate, self._set_ns = 0, 1.0, 0
        self._packet = 0
        self._packer = Packer(pack_ms)
        self.hushed = False
        self._alarm_ns: int | None = None
        self._outbox: deque[Datagram] = deque()
        self._timers: dict[str, int] = {}
        self._timer_serial = 0

    @property
    def peers(self) -> tuple[str, ...]:
        """Every other host."""
        return self._peers

    @property
    def stored(self) -> dict[str, Any]:
        """What the storage holds, as a core that starts is given it."""
        return {key: _decode(value) for key, value in self._storage.items()}

    def start(self) -> None:
        """Start the agent, or start it again with what the storage kept."""
        if self.alive:
            return
        self.alive = True
        self.incarnation += 1
        self._packet = self.incarnation << 32
        self.random = Random(f"{self._world.seed}/{self.host}/{self.incarnation}")  # noqa: S311 - repeatable, not secret
        self.core = self._core_type(self, self._parameters)
        self._world.log(self, "start", details={"incarnation": self.incarnation})
        self.core.on_start(self.stored)
        self._leave()

    def crash(self) -> None:
        """Die at once: timers, unsent datagrams, what waited and everything that was not stored are gone."""
        self.alive = self.paused = False
        self._timers.clear()
        self._packer.clear()
        self._outbox.clear()
        self._waiting.clear()

    def lose_storage(self) -> None:
        """Forget everything that was stored."""
        self._storage.clear()

    def pause(self) -> None:
        """Stand still; what happens meanwhile waits."""
        self.paused = self.alive

    def resume(self) -> None:
        """Go on: with the datagrams that had not left, then with what has waited."""
        self.paused = False
        self._leave()
        while self._waiting and not self.paused:
            call, arguments = self._waiting.popleft()
            self.do(call, *arguments)

    def hush(self) -> None:
        """Send nothing more; what arrives is still taken, also by a host that stood still until now."""
        self.hushed = True
        self.resume()

    def set_clock(self, offset_ns: int, rate: float) -> None:
        """Put the clock off by so much, and let it run at this rate from now on."""
        self._offset_ns, self._rate, self._set_ns = offset_ns, rate, self._world.now_ns

    def do(self, call: Callable[..., None], *arguments: Any) -> None:
        """Let something happen to this host, now or when it is no longer paused."""
        if not self.alive:
            return
        if self.paused:
            self._waiting.append((call, arguments))
            return
        call(*arguments)
        self._leave()

    def broadcast(self, payload: bytes) -> None:
        """Number a message of the application, durably, and hand it to the core."""
        sequence = _decode(self._storage.get(_LAST_BROADCAST, _ZERO)) + 1
        self.store(_LAST_BROADCAST, sequence)
        self.counters["broadcast"] += 1
        self._world.log(self, "broadcast", self.host, sequence)
        self.core.on_broadcast(sequence, payload)

    def receive(self, sender: str, parts: Sequence[Part], expensive: bool) -> None:
        """A datagram has arrived. At the door each of its messages may be lost or doubled by a fault."""
        copies = [self._world.at_door(self, part.message) for part in parts]
        self.counters["refused_injected" if copies == [0] else "received"] += 1
        for part, times in zip(parts, copies, strict=True):
            for _ in range(times):
                self.core.on_message(sender, part.message, expensive)

    def now(self) -> float:
        """This host's own clock."""
        since_ns = self._world.now_ns - self._set_ns
        return (self._set_ns + self._offset_ns + since_ns * self._rate) / NS_PER_S

    def send(self, to: str, message: Message, purpose: Purpose) -> None:
        """Queue a message; it leaves when the call ends, or later if it is to wait for others."""
        self._packer.add(to, self._world.on_wire(message, purpose))

    def set_timer(self, name: str, after_s: float) -> None:
        """Set or move a timer, by this host's own clock."""
        self._timer_serial += 1
        self._timers[name] = self._timer_serial
        after_ns = round(after_s * NS_PER_S / self._rate)
        self._world.after(after_ns, self.do, self._fire, name, self._timer_serial)

    def cancel_timer(self, name: str) -> None:
        """Forget a timer."""
        self._timers.pop(name, None)

    def _fire(self, name: str, serial: int) -> None:
        if self._timers.get(name) == serial:
            del self._timers[name]
            self.core.on_timer(name)

    def deliver(self, origin: str, sequence: int, payload: bytes) -> None:  # noqa: ARG002 - the log is the application
        """Log the delivery."""
        self.counters["delivered"] += 1
        self._world.log(self, "deliver", origin, sequence)

    def store(self, key: str, value: object) -> None:
        """Keep a value as storage would give it back: encoded, so that nothing is shared with the core."""
        if value is None:
            self._storage.pop(key, None)
        else:
            self._storage[key] = _encode(value)

    def trace(self, event: str, **details: object) -> None:
        """Log an event of the protocol."""
        self._world.log(self, event, details=details)

    def _leave(self) -> None:
        """Let the datagrams that are due leave, one by one; a trigger may crash or pause the host before each."""
        self._world.notify()
        if self.hushed:
            self._packer.clear()
            self._outbox.clear()
        if self.paused:
            return
        self._outbox.extend(self._packer.take(self._world.now_ns))
        while self._outbox and not self.paused:
            to, parts = self._outbox.popleft()
            self._packet += 1
            self._world.transmit(self, to, parts, self._packet)
        due_ns = self._packer.due_ns
        if due_ns is not None and due_ns != self._alarm_ns:
            self._alarm_ns = due_ns
            self._world.after(due_ns - self._world.now_ns, self.do, self._wake_up)

    def _wake_up(self) -> None:
        """Nothing but what every call does when it ends: let what is due leave."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_ZERO: Final = _encode(0)
