"""One life of a host, from its start to its crash: what every driver does with a core, whatever carries out its effects.

A life numbers the broadcasts, durably; hands each event to the part of the core that it is for; and holds the faults that wait in the
agent. Those end with it:

* at the door: the n-th message of a kind is dropped or received twice;
* its own crash: at the n-th event that fits. A crash at an event of the log comes when the call that logged it is committed, before
  anything that the call sent leaves; a crash at `send` comes when a datagram that carries the message has left, before the next one.
  The trigger of a crash that has not happened is set again at the next start, and counts from there.

The clock, and the faults of the clock, belong to the machine: whoever starts a life hands the clock over.
"""

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, Generic, TypeVar

from hostagent.contract.core import Core
from hostagent.contract.environment import Clock, Effects, Environment, decode_value, encode_value
from hostagent.contract.messages import Message
from hostagent.contract.wire import Codec
from hostagent.contract.wire import Part as Encoded
from hostagent.runtime.control import AtDoor, CrashWhen

Fault = TypeVar("Fault")
LAST_BROADCAST: Final = "host/last broadcast"
"""A key outside the spaces of all parts: the number of the last message broadcast here."""


class Life:
    """The core of a host, what it asked for, and the faults that wait in it."""

    def __init__(
        self,
        core: type[Core],
        parameters: Any,
        *,
        host: str,
        hosts: tuple[str, ...],
        seed: int,
        incarnation: int,
        clock: Clock,
        codec: Codec,
        crashes: Iterable[CrashWhen] = (),
    ) -> None:
        assert incarnation > 0, incarnation
        random = Random(f"{seed}/{host}/{incarnation}")  # noqa: S311 - protocols need repeatable randomness, not secrets
        self._env = Environment(host, hosts, random, clock, codec)
        self.effects: Effects = self._env.effects
        self.incarnation = incarnation
        self.core = core(self._env, parameters)
        self._env.own(self.core)
        self._at_door: list[_Countdown[AtDoor]] = []
        self.crashes = [_Countdown(crash, crash.nth) for crash in crashes]
        """The crashes that wait for an event."""
        self.crash_due: int | None = None
        """The number of the crash whose event has come, in the order in which they were given."""
        self._seen = 0

    @property
    def is_over(self) -> bool:
        """Whether a crash is due."""
        return self.crash_due is not None

    def start(self, stored: Mapping[str, bytes]) -> None:
        """Start the core with what the storage kept."""
        self._last_broadcast = decode_value(stored[LAST_BROADCAST]) if LAST_BROADCAST in stored else 0
        self._env.log("start", details={"incarnation": self.incarnation})
        kept: dict[str, dict[str, Any]] = {}
        for key, value in stored.items():
            space, _, name = key.partition("/")
            kept.setdefault(space, {})[name] = decode_value(value)
        for space, part in list(self._env.parts.items()):
            part.on_start(kept.get(space, {}))
        self._notice()

    def broadcast(self, payload: bytes) -> None:
        """Number a message of the application, durably, and hand it to the core."""
        sequence = self._last_broadcast = self._last_broadcast + 1
        self.effects.stored[LAST_BROADCAST] = encode_value(sequence)
        self._env.log("broadcast", self._env.host, sequence)
        self.core.on_broadcast(sequence, payload)
        self._notice()

    def receive(self, sender: str, messages: Sequence[Message], *, expensive: bool) -> bool:
        """Hand the messages of a datagram to the core; whether the datagram counts as received. Without its only message it does not."""
        if self._at_door:
            copies = [self._copies(message) for message in messages]
            messages = [message for message, times in zip(messages, copies, strict=True) for _ in range(times)]
            if copies == [0]:
                return False
        for message in messages:
            self.core.on_message(sender, message, expensive)
        if self.crashes:
            self._notice()
        return True

    def fire(self, timer: str) -> None:
        """A timer has expired."""
        space, _, name = timer.partition("/")
        self._env.parts[space].on_timer(name)
        self._notice()

    def log(self, event: str, **details: object) -> None:
        """Add a line of the driver's own to the event log."""
        self._env.log(event, details=details)
        self._notice()

    def sent(self, parts: Iterable[Encoded]) -> None:
        """A datagram with these messages has left."""
        for part in parts:
            self._count("send", part.message.origin, part.message.sequence)

    def fault_at_door(self, fault: AtDoor) -> None:
        """Let a fault wait at the door."""
        self._at_door.append(_Countdown(fault, fault.nth))

    def forgive(self) -> None:
        """Forget all faults that wait."""
        self._at_door.clear()
        self.crashes.clear()

    def committed(self) -> None:
        """Everything that was asked for is carried out, or on its way."""
        effects = self.effects
        effects.stored.clear()
        effects.events.clear()
        effects.deliveries.clear()
        effects.timers.clear()
        effects.sends.clear()
        self._seen = 0

    def _copies(self, message: Message) -> int:
        """How often a message is to be received: once, unless a fault waits for it. Every fault counts every message of its kind."""
        kind = type(message).__name__
        due = [waiting for waiting in self._at_door if waiting.fault.kind == kind and waiting.counts_down()]
        self._at_door = [waiting for waiting in self._at_door if waiting not in due]
        return due[0].fault.copies if due else 1

    def _notice(self) -> None:
        """Show what was logged since the last call to the crashes that wait for it."""
        if self.crashes:
            for event in self.effects.events[self._seen :]:
                self._count(event.event, event.origin, event.sequence)
            self._seen = len(self.effects.events)

    def _count(self, event: str, origin: str, sequence: int) -> None:
        for number, waiting in enumerate(self.crashes):
            wanted = waiting.fault
            fits = wanted.event == event and wanted.origin in {"", origin} and wanted.sequence in {0, sequence}
            if fits and waiting.counts_down() and self.crash_due is None:
                self.crash_due = number


class _Countdown(Generic[Fault]):
    """A fault that waits for its n-th occasion."""

    def __init__(self, fault: Fault, nth: int) -> None:
        assert nth > 0, nth
        self.fault = fault
        self._left = nth

    def counts_down(self) -> bool:
        """Count an occasion; whether it is the n-th."""
        self._left -= 1
        return self._left == 0
