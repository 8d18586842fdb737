"""One life of a host, from its start to its crash: what all drivers do with a core in the same way.

A life numbers the broadcasts, durably; hands each event to the part of the core that handles it; and holds the faults that are pending in
the agent. These faults end with the life:

* at the door: the n-th message of a kind is dropped or received twice;
* own crash: the agent kills itself at the n-th event that fits. A crash at a logged event comes after the commit of the call that logged
  the event, before anything that the call sent leaves; a crash at `send` comes when a datagram with the message has left, before the next.
  A crash that has not happened is set again at the next start, and counts its events from there.

Load. What the application wants to broadcast waits at the door (`offer`) until the core has room for it (`admit`): a source that is asked
for more than the network carries slows down there. The driver admits after each call, and says what was due when. Nothing at the door
survives a crash.

The clock, and the faults of the clock, belong to the machine: the driver passes the clock to each life.

An exception in a core becomes a `CoreFailed` with the event that led there, and ends the run.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, Generic, TypeVar

from hostagent.contract.core import Core
from hostagent.contract.environment import NS_PER_MS, Clock, Effects, Environment, decode_value, encode_value
from hostagent.contract.messages import EVERYBODY, LISTED, Destination, Message, slots
from hostagent.contract.wire import Codec
from hostagent.contract.wire import Part as Encoded
from hostagent.runtime.control import AtDoor, CrashWhen
from hostagent.runtime.failures import USERS_FAULT, CoreFailed, failure_of

Fault = TypeVar("Fault")
LAST_BROADCAST: Final = "host/last broadcast"
"""A key outside the spaces of all parts: the number of the last message broadcast here."""
MOST_UNFINISHED: Final = 256
"""While a core has so many messages of the application unfinished, further ones wait at the door: on one LAN, the messages of 30 ms."""
ADMITTED_TOGETHER: Final = 32
"""What waits is admitted when there is room for so many, an eighth of that. They share datagrams: if each acknowledgement let one message
in, each would have a datagram of its own, just where the network is busy."""
SENT_TO: Final = "host/sent to "
"""The start of a key for each group other than everybody: how many messages were broadcast here to the group."""


class Life:
    """The core of a host, the effects that it asked for, and the pending faults."""

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
        groups: Mapping[int, tuple[str, ...]],
        multicasts: bool,
        crashes: Iterable[CrashWhen] = (),
    ) -> None:
        assert incarnation > 0, incarnation
        random = Random(f"{seed}/{host}/{incarnation}")  # noqa: S311 - protocols need repeatable randomness, not secrets
        self._env = Environment(host, hosts, random, clock, codec, groups, multicasts=multicasts)
        self.effects: Effects = self._env.effects
        self.incarnation = incarnation
        self._clock, self._core_type = clock, core
        try:
            self.core = core(self._env, parameters)
        except USERS_FAULT as error:
            raise self.failed(error, f"when its {_nth(incarnation)} life began") from error
        self._env.own(self.core)
        self._everybody = Destination(EVERYBODY, hosts)
        self.door: deque[tuple[bytes, int | tuple[str, ...], int]] = deque()
        """The messages of the application that wait to be broadcast: payload, destination, and when each was due."""
        self._at_door: list[_Countdown[AtDoor]] = []
        self.crashes = [_Countdown(crash, crash.nth) for crash in crashes]
        """The crashes that wait for an event."""
        self.crash_due: int | None = None
        """The index, in the given order, of the crash whose event has come."""
        self._seen = 0

    @property
    def is_over(self) -> bool:
        """Whether a crash is due."""
        return self.crash_due is not None

    def start(self, stored: Mapping[str, bytes]) -> None:
        """Start the core with what the storage kept."""
        self._last_broadcast = decode_value(stored[LAST_BROADCAST]) if LAST_BROADCAST in stored else 0
        self._sent_to = {
            int(key.removeprefix(SENT_TO)): decode_value(value) for key, value in stored.items() if key.startswith(SENT_TO)
        }
        self._env.log("start", details={"incarnation": self.incarnation})
        kept: dict[str, dict[str, Any]] = {}
        for key, value in stored.items():
            space, _, name = key.partition("/")
            kept.setdefault(space, {})[name] = decode_value(value)
        try:
            for space, part in list(self._env.parts.items()):
                part.on_start(kept.get(space, {}))
        except USERS_FAULT as error:
            raise self.failed(error, f"when its {_nth(self.incarnation)} life began") from error
        self._notice()

    def offer(self, payload: bytes, to: int | tuple[str, ...] = EVERYBODY, due_ns: int = 0) -> None:
        """The application has a message to broadcast, which was due then: it waits at the door until it is admitted."""
        self.door.append((payload, to, due_ns))

    def admit(self) -> int:
        """Broadcast what waits at the door while the core has room for it. Returns how many messages were admitted."""
        waiting, door = len(self.door), self.door
        while door and not self.is_over:
            room = MOST_UNFINISHED - self.core.unfinished
            if room < min(len(door), ADMITTED_TOGETHER):
                break
            # A broadcast leaves at most so much more unfinished.
            while room > 0 and door and not self.is_over:
                payload, to, due_ns = door.popleft()
                room -= slots(payload)
                self.broadcast(payload, to, due_ns)
        return waiting - len(door)

    def hush(self, held_back: int = 0) -> None:
        """The run ends: log how many messages the application could not broadcast, at the door or before it, and forget them."""
        if held_back := held_back + len(self.door):
            self.log("held-back", messages=held_back)
        self.door.clear()

    def broadcast(self, payload: bytes, to: int | tuple[str, ...], due_ns: int) -> None:
        """Number a message of the application for a group or for some hosts, durably, and hand it to the core.

        The log says whom the message is for, unless it is for every host of the run, and how late it is, from a millisecond on.
        """
        sequence = self._last_broadcast = self._last_broadcast + 1
        self.effects.stored[LAST_BROADCAST] = encode_value(sequence)
        details: dict[str, Any] = {}
        if to == EVERYBODY and not self._sent_to and self._env.groups[EVERYBODY] is self._env.hosts:
            destination = self._everybody
        else:
            destination = self._destination(to, sequence)
            if destination[:2] != self._everybody[:2]:
                details |= {"group": destination.group, "to": destination.hosts}
        if due_ns and (late_ms := (self._clock.wall_ns() - due_ns) // NS_PER_MS) > 0:
            details["late_ms"] = late_ms
        self._env.log("broadcast", self._env.host, sequence, details)
        try:
            self.core.on_multicast(destination, sequence, payload)
        except USERS_FAULT as error:
            raise self.failed(error, f"when the application broadcast {self._env.host}:{sequence}") from error
        self._notice()

    def _destination(self, to: int | tuple[str, ...], sequence: int) -> Destination:
        """Whom a message is for, and which of the messages to its group it is."""
        group = to if isinstance(to, int) else LISTED
        if group != EVERYBODY:
            self._sent_to[group] = self._sent_to.get(group, 0) + 1
            self.effects.stored[f"{SENT_TO}{group}"] = encode_value(self._sent_to[group])
        if isinstance(to, tuple):
            return Destination(LISTED, tuple(host for host in self._env.hosts if host in to))
        nth = self._sent_to[group] if group != EVERYBODY else sequence - sum(self._sent_to.values())
        return Destination(group, self._env.groups[group], 0 if nth == sequence else nth)

    def define(self, group: int, members: Collection[str]) -> None:
        """There is a new group."""
        self._env.define(group, members)
        self._notice()

    def join(self, group: int) -> None:
        """The application wants to be in a group."""
        self._env.log("join", details={"group": group})
        try:
            self.core.on_join(group)
        except USERS_FAULT as error:
            raise self.failed(error, f"when the application asked to join group {group}") from error
        self._notice()

    def leave(self, group: int) -> None:
        """The application wants to leave a group."""
        self._env.log("leave", details={"group": group})
        try:
            self.core.on_leave(group)
        except USERS_FAULT as error:
            raise self.failed(error, f"when the application asked to leave group {group}") from error
        self._notice()

    def receive(self, sender: str, messages: Sequence[Message], *, expensive: bool) -> bool:
        """Hand the messages of a datagram to the core. Returns whether it counts as received: not if its only message is dropped."""
        if self._at_door:
            copies = [self._copies(message) for message in messages]
            messages = [message for message, times in zip(messages, copies, strict=True) for _ in range(times)]
            if copies == [0]:
                return False
        self.effects.datagrams += 1
        try:
            for message in messages:
                self.core.on_message(sender, message, expensive)
        except USERS_FAULT as error:
            raise self.failed(error, f"when {named(message)} arrived from {sender}") from error
        if self.crashes:
            self._notice()
        return True

    def fire(self, timer: str) -> None:
        """A timer has expired."""
        space, _, name = timer.partition("/")
        try:
            self._env.parts[space].on_timer(name)
        except USERS_FAULT as error:
            raise self.failed(error, f"when the timer {name!r} of its {space} expired") from error
        self._notice()

    def tell(self, call: Callable[[], None], event: str) -> None:
        """Something else has happened that the core is told of by a call; `event` says what, if it fails."""
        try:
            call()
        except USERS_FAULT as error:
            raise self.failed(error, event) from error
        self._notice()

    def log(self, event: str, **details: object) -> None:
        """Add a line to the event log, for the driver."""
        self._env.log(event, details=details)
        self._notice()

    def sent(self, parts: Iterable[Encoded]) -> None:
        """A datagram with these messages has left."""
        for part in parts:
            self._count("send", part.message.origin, part.message.sequence, {})

    def fault_at_door(self, fault: AtDoor) -> None:
        """Add a fault at the door."""
        self._at_door.append(_Countdown(fault, fault.nth))

    def forgive(self) -> None:
        """Forget all pending faults."""
        self._at_door.clear()
        self.crashes.clear()

    def committed(self) -> None:
        """The driver has carried out all effects, or queued them: forget them."""
        effects = self.effects
        for kind in (effects.stored, effects.events, effects.deliveries, effects.timers, effects.memberships, effects.sends):
            if kind:
                kind.clear()
        self._seen = 0

    def failed(self, error: BaseException, event: str) -> CoreFailed:
        """What to raise in place of an exception of the core."""
        core = self._core_type
        return CoreFailed(failure_of(error, core.name, core.file, self._env.host, self._clock.wall_ns(), event))

    def _copies(self, message: Message) -> int:
        """How often to receive a message: once, unless a fault at the door says otherwise. Every fault counts all messages of its kind."""
        kind = type(message).__name__
        due = [waiting for waiting in self._at_door if waiting.fault.kind == kind and waiting.counts_down()]
        self._at_door = [waiting for waiting in self._at_door if waiting not in due]
        return due[0].fault.copies if due else 1

    def _notice(self) -> None:
        """Compare the events logged since the last time with the triggers of the crashes."""
        if self.crashes:
            for event in self.effects.events[self._seen :]:
                self._count(event.event, event.origin, event.sequence, event.details)
            self._seen = len(self.effects.events)

    def _count(self, event: str, origin: str, sequence: int, details: Mapping[str, Any]) -> None:
        for number, waiting in enumerate(self.crashes):
            wanted = waiting.fault
            fits = wanted.event == event and wanted.origin in {"", origin} and wanted.sequence in {0, sequence}
            fits = fits and all(details.get(name) == value for name, value in wanted.details.items())
            if fits and waiting.counts_down() and self.crash_due is None:
                self.crash_due = number


def named(message: Message) -> str:
    """A message in the words of a user: its kind, and which message of the application it is about."""
    kind = type(message).__name__
    return f"{kind} {message.origin}:{message.sequence}" if message.sequence else kind


def _nth(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


class _Countdown(Generic[Fault]):
    """A fault that happens at the n-th event that fits."""

    def __init__(self, fault: Fault, nth: int) -> None:
        assert nth > 0, nth
        self.fault = fault
        self._left = nth

    def counts_down(self) -> bool:
        """Count an event that fits, and say whether it is the n-th."""
        self._left -= 1
        return self._left == 0
