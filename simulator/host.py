"""A host in virtual time: it drives one life of a core after another.

The host keeps the promises of `hostagent.contract.core`: all that a call stored, logged and delivered takes effect when the call ends; then
the datagrams leave, one by one, packed as the agent packs them. A crash may come before each datagram, and at no other point of a call.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.environment import Clock, Receiver, decode_value
from hostagent.contract.messages import EVERYBODY
from hostagent.contract.wire import Part, Refused
from hostagent.runtime.control import CrashWhen
from hostagent.runtime.life import Life, named
from hostagent.runtime.memory import retained_items
from hostagent.runtime.packing import Datagram, Packer

if TYPE_CHECKING:
    from simulator.world import World


class SimulatedHost:
    """One host: its clock, storage and timers, and the current life of its core. A restart after a crash begins a new life."""

    def __init__(self, world: "World", name: str, core: type[Core], parameters: Any, pack_ms: float | None) -> None:
        self.host = name
        self.number = world.network.numbers[name]
        self.life: Life
        self._world = world
        self._core_type = core
        self._parameters = parameters
        self._storage: dict[str, bytes] = {}
        self.counters = dict.fromkeys(world.counter_names, 0)
        self.incarnation = 0
        self.alive = False
        self.paused = False
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.clock = Clock(lambda: world.now_ns, lambda: world.now_ns)
        self.crashes: tuple[CrashWhen, ...] = ()
        """The crashes that every life inflicts on itself, each at an event of the host."""
        self.on_own_crash: Callable[[int], None] = lambda _number: self.crash()
        self._packet = 0
        self._packer = Packer(pack_ms)
        self.hushed = False
        self._alarm_ns: int | None = None
        self._outbox: deque[Datagram] = deque()
        self._timers: dict[str, int] = {}
        self._joined: set[int] = set()

    @property
    def core(self) -> Core:
        """The core of the host's current or last life."""
        return self.life.core

    @property
    def stored(self) -> dict[str, Any]:
        """What the storage holds."""
        return {key: decode_value(value) for key, value in self._storage.items()}

    def start(self) -> None:
        """Start the agent, or start it again with what the storage kept."""
        if self.alive:
            return
        self.alive = True
        self.incarnation += 1
        self._packet = self.incarnation << 32
        self.life = Life(
            self._core_type,
            self._parameters,
            host=self.host,
            hosts=self._world.network.hosts,
            seed=self._world.seed,
            incarnation=self.incarnation,
            clock=self.clock,
            codec=self._world.codec,
            groups=self._world.groups,
            multicasts=self._world.multicasts,
            crashes=self.crashes,
        )
        self._joined.clear()
        self.life.start(self._storage)
        self._end_call()

    def crash(self) -> None:
        """Die at once: timers, unsent datagrams, waiting calls and everything that was not stored are lost."""
        self.alive = self.paused = False
        self._timers.clear()
        self._packer.clear()
        self._outbox.clear()
        self._waiting.clear()

    def stop(self) -> None:
        """End cleanly, also if the host was paused: log it, and send nothing more."""
        if self.paused:
            self.resume()
        if self.alive:
            self.life.log("stop")
            self._commit()
            self.crash()
            self._world.notify()

    def lose_storage(self) -> None:
        """Forget everything that was stored."""
        assert not self.alive, "the storage of a host that runs cannot be lost"
        self._storage.clear()

    def pause(self) -> None:
        """Stop until `resume`; calls meanwhile wait."""
        self.paused = self.alive

    def resume(self) -> None:
        """Continue: first send the datagrams that had not left, then make the calls that waited."""
        self.paused = False
        self._leave()
        while self._waiting and not self.paused:
            call, arguments = self._waiting.popleft()
            self.do(call, *arguments)

    def hush(self) -> None:
        """Send nothing more. Datagrams are still received, also by a host that was paused until now."""
        if self.alive:
            self.life.hush()
        self.hushed = True
        self.resume()

    def set_clock(self, offset_ns: int, rate: float) -> None:
        """From now on the clock is off by `offset_ns` and runs at `rate`."""
        self.clock.put_off(offset_ns, rate, self._world.now_ns)

    def do(self, call: Callable[..., None], *arguments: Any) -> None:
        """Make a call to this host, now or when the host is no longer paused."""
        if not self.alive:
            return
        if self.paused:
            self._waiting.append((call, arguments))
            return
        call(*arguments)
        self._end_call()

    def broadcast(self, payload: bytes, to: int | tuple[str, ...] = EVERYBODY, due_ns: int = 0) -> None:
        """The application wants to broadcast a message to a group or to some hosts."""
        self.life.offer(payload, to, due_ns)

    def hears(self, to: Receiver) -> bool:
        """Whether datagrams to this host or group get to the agent: it must run, and have joined the group."""
        return self.alive and (isinstance(to, str) or to in self._joined)

    def join(self, group: int) -> None:
        """The application asks to be in a group."""
        self.life.join(group)

    def leave(self, group: int) -> None:
        """The application asks to leave a group."""
        self.life.leave(group)

    def receive(self, sender: str, parts: Sequence[Part], expensive: bool) -> None:
        """Take a datagram that has arrived."""
        messages = (parts[0].message,) if len(parts) == 1 else [part.message for part in parts]
        taken = self.life.receive(sender, messages, expensive=expensive)
        self.counters["received" if taken else "refused_injected"] += 1

    def sample(self) -> None:
        """Log how much was sent and how much is kept, as a real agent does. A sample sends nothing."""
        self.life.log("sample", sent=self.counters["sent"], items=retained_items(self.core))
        self._commit()
        if self.life.crash_due is not None:
            self.on_own_crash(self.life.crash_due)

    def _expire(self, name: str, due_ns: int) -> None:
        """A timer expires, unless it was moved or cancelled since it was set."""
        if self._timers.get(name) == due_ns:
            self.do(self._fire, name, due_ns)

    def _fire(self, name: str, due_ns: int) -> None:
        if self._timers.get(name) == due_ns:
            del self._timers[name]
            self.life.fire(name)

    def _end_call(self) -> None:
        """Admit and commit what a call asked for; then fire the faults that its events trigger, and let the datagrams leave."""
        if self.life.door:
            self.counters["broadcast"] += self.life.admit()
        self._commit()
        if self.life.crash_due is not None:
            self.on_own_crash(self.life.crash_due)
        if self._world.on_event is not None:
            self._world.notify()
        self._leave()

    def _commit(self) -> None:
        """Store and log, set the timers, and hand the messages sent to the packer."""
        life, world = self.life, self._world
        effects = life.effects
        # Most calls ask for little.
        if effects.stored:
            self._store(effects.stored)
        for event in effects.events:
            world.log(self, event)
        if effects.deliveries:
            self.counters["delivered"] += len(effects.deliveries)
        for name, due_ns in effects.timers.items():
            if due_ns is None:
                self._timers.pop(name, None)
            else:
                self._timers[name] = due_ns
                world.after(due_ns - world.now_ns, self._expire, name, due_ns)
        for to, part in effects.sends:
            try:
                received = world.as_received(part)
            except (Refused, msgspec.MsgspecError) as error:
                sending = f"when it had sent {named(part.message)} to {to}, with a field that its type does not allow"
                raise life.failed(error, sending) from error
            self._packer.add(to, received)
        if effects.memberships:
            for group, is_member in effects.memberships.items():
                (self._joined.add if is_member else self._joined.discard)(group)
        life.committed()

    def _store(self, values: Mapping[str, bytes | None]) -> None:
        for key, value in values.items():
            if value is None:
                self._storage.pop(key, None)
            else:
                self._storage[key] = value

    def _leave(self) -> None:
        """Let the datagrams that are due leave, one by one; a fault may crash or pause the host before each of them."""
        if self.hushed:
            self._packer.clear()
            self._outbox.clear()
        if self.paused:
            return
        if self._packer.is_empty and not self._outbox:
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
        """An empty call: the end of every call sends the datagrams that are due."""
