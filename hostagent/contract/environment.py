"""What a core may ask of its host. Every request is recorded as data, and nothing happens before the driver carries it out.

A driver calls a core (`hostagent.runtime.life` has the calls), then takes what the core asked for from `Effects`, makes it durable, and
only then lets the messages leave. There are three drivers: the agent on real sockets (`hostagent.runtime.agent`), the host in virtual time
(`simulator.host`), and the world of the tests.

Values are encoded when they are recorded, so later changes to a list that a core stored, sent or traced have no effect.

Each part of a protocol has its own name space for storage keys and timers: `core`, `core.links`, `core.links.received`. Outside the part, a
key or timer is named `SPACE/NAME`. The name of a space contains no slash, so no two keys or timers collide.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hostagent.contract.events import Event
from hostagent.contract.messages import EVERYBODY, LISTED, Destination, Message, Purpose
from hostagent.contract.wire import Codec
from hostagent.contract.wire import Part as Encoded

if TYPE_CHECKING:
    from hostagent.contract.core import Part

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000

Receiver = str | int
"""Where a datagram goes: to a host, or on a network that multicasts to a group, by its number."""


class Effects:
    """What was asked for since the last commit, by kind, in the order in which it was asked for; and the number of the last datagram."""

    __slots__ = ("datagrams", "deliveries", "events", "memberships", "sends", "stored", "timers")

    def __init__(self) -> None:
        self.sends: list[tuple[Receiver, Encoded]] = []
        """Receiver and message."""
        self.stored: dict[str, bytes | None] = {}
        """Key and encoded value; `None` where the key is to be forgotten."""
        self.events: list[Event] = []
        """Lines for the event log."""
        self.deliveries: list[tuple[str, int, bytes]] = []
        """Origin, sequence and payload of each message for the application. Each delivery is also one of the events."""
        self.timers: dict[str, int | None] = {}
        """When each timer that was set or moved expires, on the machine's monotonic clock; `None` if the timer was cancelled."""
        self.memberships: dict[int, bool] = {}
        """For each group that this host installed a view of: whether it is a member. At its start, the groups that it is a member of."""
        self.datagrams = 0
        """The datagrams that have arrived in this life: while messages of one datagram are handed to the core, it stays the same."""


class Clock:
    """The clock of a host: the machine's clock, unless a fault sets it wrong. It belongs to the machine and outlives the agent."""

    def __init__(self, wall_ns: Callable[[], int], steady_ns: Callable[[], int]) -> None:
        self.wall_ns = wall_ns
        """Nanoseconds since 1970 on the machine, which all hosts share and no fault changes: the time in event logs."""
        self.steady_ns = steady_ns
        """Nanoseconds of the monotonic clock: for timers."""
        self.rate = 1.0
        self._set_ns, self._offset_ns = 0, 0

    def put_off(self, offset_ns: int, rate: float, since_ns: int) -> None:
        """Inject a fault: from `since_ns` of the machine's clock, this clock is off by `offset_ns` and runs at `rate`."""
        assert rate > 0, rate
        self._set_ns, self._offset_ns, self.rate = since_ns, offset_ns, rate

    def now(self) -> float:
        """This clock, in seconds since 1970."""
        since_ns = self.wall_ns() - self._set_ns
        return (self._set_ns + self._offset_ns + since_ns * self.rate) / NS_PER_S


class Environment:
    """The host, as a core or a part of one sees it."""

    def __init__(
        self,
        host: str,
        hosts: tuple[str, ...],
        random: Random,
        clock: Clock,
        codec: Codec,
        groups: Mapping[int, tuple[str, ...]],
        *,
        multicasts: bool,
    ) -> None:
        self.host = host
        """This host."""
        self.hosts = hosts
        """Every host of the run, this one included, in the static order; also those that come late or leave."""
        self.groups = {EVERYBODY: hosts, **groups}
        """The members of each group as this host knows them, by number and in the static order: see `install`."""
        self.peers = tuple(other for other in hosts if other != host)
        """Every other host."""
        self.random = random
        """The only source of randomness."""
        self.effects = Effects()
        self.effects.memberships |= {group: True for group, members in self.groups.items() if host in members}
        """For the driver: the effects that are not carried out yet."""
        self.parts: dict[str, Part] = {}
        """The parts by the names of their spaces. The parts of a part come before it."""
        self.kinds: dict[type[Message], list[Part]] = {}
        """For each kind of message, those parts of the owner of this environment that take it."""
        self._clock = clock
        self._codec = codec
        self.multicasts = multicasts
        """Whether a message to a group is one datagram."""
        self._last: Encoded | None = None
        self._space = "core"

    def part(self, name: str) -> "Environment":
        """The same host, with a space of its own for storage keys and timer names."""
        assert "/" not in name, name
        space = f"{self._space}.{name}"
        if space in self.parts:
            raise ValueError(f"there is a part {space} already; give this one another name")
        made = copy(self)
        made._space, made._last, made.kinds = space, None, {}  # noqa: SLF001 - of the same class
        return made

    def own(self, part: "Part") -> None:
        """Name the owner of this space: the part that is called when the host starts and when a timer of this space expires."""
        self.parts[self._space] = part

    def now(self) -> float:
        """This host's clock, in seconds."""
        return self._clock.now()

    def send(self, to: str, message: Message, purpose: Purpose) -> None:
        """Send a message to another host. Its datagram may be lost, duplicated, delayed or reordered.

        A message that is sent to several hosts in a row is encoded once: a change to a list in it after the first send has no effect.
        """
        last = self._last
        if last is None or last.message is not message or last.purpose is not purpose:
            last = self._last = self._codec.part(message, purpose)
        self.effects.sends.append((to, last))

    def send_to_each(self, hosts: Iterable[str], message: Message, purpose: Purpose) -> None:
        """Send a message to several other hosts."""
        encoded = self._codec.part(message, purpose)
        self.effects.sends += [(host, encoded) for host in hosts]

    def multicast(self, group: int, message: Message, purpose: Purpose, turn: int = 0) -> None:
        """Send a message to all other members of a group: in one datagram if the network multicasts, else in one to each member.

        Each copy may be lost by itself. A host need not be a member of a group to send to it. With datagrams to each member, `turn` says
        which member is the first: of a burst that is longer than a queue, always the same places are dropped, so what is sent again and
        again should begin with another member each time.
        """
        others = [member for member in self.groups[group] if member != self.host]
        start = turn % len(others) if others else 0
        others = others[start:] + others[:start]
        encoded = self._codec.part(message, purpose)
        receivers: list[Receiver] = [group] if self.multicasts and others else [*others]
        self.effects.sends += [(receiver, encoded) for receiver in receivers]

    def shuffled(self, hosts: Sequence[str]) -> list[str]:
        """Hosts in another order each time, for what is sent to each of them again and again: `multicast` says why."""
        return self.random.sample(hosts, len(hosts))

    def multicast_to(self, to: Destination, message: Message, purpose: Purpose) -> None:
        """Send a message of the application to its destinations: as `multicast` to a group, or to each of the hosts that were listed."""
        if to.group != LISTED:
            self.multicast(to.group, message, purpose)
            return
        for host in to.hosts:
            if host != self.host:
                self.send(host, message, purpose)

    def send_to_some(self, hosts: Collection[str], group: int, message: Message, purpose: Purpose) -> None:
        """Send a message to some other hosts: in one datagram to each or, if the network multicasts, in one to a group.

        That is the group that is named if it has all of them, else everybody. The other members hear the message too, so it must tell
        whom it is for.
        """
        if not self.multicasts or len(hosts) == 1:
            for host in hosts:
                self.send(host, message, purpose)
            return
        members = self.groups.get(group, ())
        self.multicast(group if all(host in members for host in hosts) else EVERYBODY, message, purpose)

    def set_timer(self, name: str, after_s: float) -> None:
        """Call `on_timer(name)` after `after_s` seconds of this host's clock. A timer of this name that is already set is moved."""
        clock = self._clock
        self.effects.timers[f"{self._space}/{name}"] = clock.steady_ns() + round(after_s * NS_PER_S / clock.rate)

    def cancel_timer(self, name: str) -> None:
        """Forget a timer; nothing happens if it is not set."""
        self.effects.timers[f"{self._space}/{name}"] = None

    def receive(self, origin: str, sequence: int) -> None:
        """Mark a message as received: this host has it, and need not have delivered it."""
        self.log("receive", origin, sequence)

    def deliver(self, origin: str, sequence: int, payload: bytes, *, ordinal: int = 0) -> None:
        """Hand a message to the application. `ordinal` is its number, from 1, in the order of its group, if the protocol has such numbers.

        A message may be delivered again only after it was taken back.
        """
        effects = self.effects
        effects.deliveries.append((origin, sequence, payload))
        details = {"ordinal": ordinal} if ordinal else {}
        effects.events.append(
            Event(at_ns=self._clock.wall_ns(), event="deliver", origin=origin, sequence=sequence, details=details)
        )

    def commit(self, origin: str, sequence: int) -> None:
        """Tell the application that a message which was delivered here will not be taken back."""
        self.log("commit", origin, sequence)

    def take_back(self, origin: str, sequence: int) -> None:
        """Tell the application to undo the delivery of a message."""
        self.log("take-back", origin, sequence)

    def install(self, group: int, members: Collection[str], view: int) -> None:
        """From now on the group has these members, as far as this host is concerned. Hosts that install the same view give it one number.

        A host that restarts begins with the groups of the scenario, and installs what its protocol stored.
        """
        self._set_members(group, members)
        self.log("view", details={"group": group, "view": view, "members": self.groups[group]})

    def define(self, group: int, members: Collection[str]) -> None:
        """For the driver: there is a new group with these members, which was not among those at the start of the run."""
        self._set_members(group, members)
        self.log("group", details={"group": group, "members": self.groups[group]})

    def _set_members(self, group: int, members: Collection[str]) -> None:
        self.groups[group] = tuple(host for host in self.hosts if host in members)
        self.effects.memberships[group] = self.host in members

    def store(self, key: str, value: object) -> None:
        """Keep a value on stable storage under a key; `None` removes the key. Values are those that MessagePack can encode."""
        self.effects.stored[f"{self._space}/{key}"] = None if value is None else encode_value(value)

    def trace(self, event: str, about: tuple[str, int] = ("", 0), **details: object) -> None:
        """Record an event that only this protocol has in this host's event log; `about` is the origin and sequence of a message."""
        self.log(event, *about, details)

    def log(self, event: str, origin: str = "", sequence: int = 0, details: dict[str, Any] | None = None) -> None:
        """Add a line to the event log."""
        kept = _as_logged(details) if details else {}
        self.effects.events.append(
            Event(at_ns=self._clock.wall_ns(), event=event, origin=origin, sequence=sequence, details=kept)
        )


encode_value = msgspec.msgpack.Encoder().encode
decode_value = msgspec.msgpack.Decoder().decode
_CANNOT_CHANGE: Final = frozenset({str, int, float, bool, type(None)})


def _as_logged(details: dict[str, Any]) -> dict[str, Any]:
    """A copy of the details as a reader of the log finds them, so that later changes have no effect."""
    if all(type(value) in _CANNOT_CHANGE for value in details.values()):
        return details
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(details))
    return decoded
