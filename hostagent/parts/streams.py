"""Streams from this host to each other host, over which items arrive in the order in which they were sent, each once.

Model. Datagrams are lost, duplicated and reordered; hosts crash, and restart with their storage.

Guarantees. An item arrives if sender and receiver are connected for long enough. The items of a stream arrive in order and once, also
across restarts of either host.

Messages. One `Item` to the receiver (data, or repair when it was asked for), or where the network multicasts one datagram to several
receivers, and nothing else while all goes well and items follow each other. After a silence of delta, `Null` says how many items there are,
as long as the receiver has not said that it has them all; the receiver answers with `Have`, and asks for what it lacks
(`hostagent.parts.in_order`). It also says what it has every `WINDOW / 2` items.

What is kept. The sender keeps an item, on stable storage, until the receiver has it. The third paper knows no acknowledgements and keeps
all items for ever; the few `Have` end the null messages and free the memory.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

import msgspec

from hostagent.contract.core import Milliseconds, Parameters, Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose, SequenceNumber
from hostagent.contract.promises import TimeBound, Timing
from hostagent.parts.in_order import WINDOW, InOrder, Null, Request, asked_for

# The receiver says what it has after this many items, so a sender keeps about as many.
EVERY: Final = WINDOW // 2
SHORTEST: Final = 0.8
"""Null messages follow each other after between this share of delta and all of it: hosts that keep step meet in the same queue each time,
and the last of them is lost there each time."""

BYTES_PER_NUMBER: Final = 9
"""The most that one of several numbers takes in a datagram."""
Numbers = Annotated[
    tuple[tuple[Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)], SequenceNumber], ...], msgspec.Meta(max_length=400)
]
"""For each receiver its place in the static order of hosts, from 0, and the number of the item on the stream to it."""


class Item(Message, frozen=True):
    """What travels on a stream: a protocol declares its own kinds of items, and the stream numbers them."""

    number: SequenceNumber | Numbers
    """One number, or several where an item goes to several receivers at once."""


class Have(Message, frozen=True):
    """The sender of this message has all items of the origin's stream up to `sequence`."""


class StreamParameters(Parameters, frozen=True, kw_only=True):
    """The times that the third paper's bounds are made of."""

    process_ms: Milliseconds = 20.0
    """phi_P: within this time a host handles an event."""
    network_ms: Milliseconds = 150.0
    """phi_N: within this time a datagram arrives, or it is lost; more than a queue of 100 packets on a 10 Mbit/s link (120 ms)."""
    silence_ms: Milliseconds = 500.0
    """delta: after this time without an item, a host sends a null message."""

    @property
    def bound_ms(self) -> float:
        """Delta of the third paper's Protocol 4, rho of its Protocol 3: within this time an item arrives at a host that can be reached."""
        return self.silence_ms + 3 * (self.process_ms + self.network_ms)

    def time_bound(self, timing: Timing, bound_ms: float, silence_ms: float = 0.0) -> TimeBound:
        """A promise for hosts and a network that are as fast as these parameters say."""
        return TimeBound(
            timing=timing, bound_ms=bound_ms, process_ms=self.process_ms, network_ms=self.network_ms, silence_ms=silence_ms
        )


class Streams(Part):
    """All streams from and to one host. `on_item` is called with the sender and the item.

    A subclass has the protocol's kinds of items in front of the messages below.
    """

    messages: ClassVar[tuple[type[Message], ...]] = (Null, Have, Request)

    def __init__(self, env: Environment, parameters: StreamParameters, on_item: Callable[[str, Any], None]) -> None:
        super().__init__(env)
        self._silence_s = parameters.silence_ms / 1000
        wait_ms = 2 * (parameters.process_ms + parameters.network_ms)
        self._received = self.add("received", lambda own: InOrder(own, lambda sender, _, item: on_item(sender, item), wait_ms))
        self._place = env.hosts.index(env.host)
        self._places = {host: place for place, host in enumerate(env.hosts)}
        self._sent: dict[str, int] = {}
        """The number of the last item to each receiver."""
        self._kept: dict[str, dict[int, Item]] = {}
        """The items that each receiver may lack."""
        self._silent: set[str] = set()
        """The receivers that have not answered the last sign of life."""

    @property
    def unfinished(self) -> int:
        """The most items that one receiver may lack, of those that answer."""
        return max((len(kept) for to, kept in self._kept.items() if to not in self._silent), default=0)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore what receivers may lack, and tell them of it."""
        for key, value in stored.items():
            match key.split("/"):
                case ["sent", to]:
                    self._sent[to] = value
                case ["item", to, number]:
                    self._kept.setdefault(to, {})[int(number)] = self.decoded(value)
        for to in self._kept:
            self._kept[to] = dict(sorted(self._kept[to].items()))
            self.env.set_timer(to, self._silence_s)

    def send(self, to: str, item: Item, purpose: Purpose = Purpose.DATA) -> None:
        """Send an item to a host; whatever number it has is replaced."""
        number = self._put(to, item)
        self.env.send(to, self._kept[to][number], purpose)

    def send_to_all(self, receivers: Sequence[str], item: Item, most: int) -> None:
        """Send an item to several hosts: if the network multicasts, to at most `most` of them in one datagram."""
        for start in range(0, len(receivers), most):
            some = receivers[start : start + most]
            numbers = tuple((self._places[to], self._put(to, item)) for to in some)
            if len(some) == 1:
                self.env.send(some[0], msgspec.structs.replace(item, number=numbers[0][1]), Purpose.DATA)
            else:
                self.env.send_to_some(some, item.group, msgspec.structs.replace(item, number=numbers), Purpose.DATA)

    def _put(self, to: str, item: Item) -> int:
        """Put an item at the end of the stream to a host. Returns its number there."""
        number = self._sent[to] = self._sent.get(to, 0) + 1
        item = msgspec.structs.replace(item, number=number)
        self._kept.setdefault(to, {})[number] = item
        self.env.store(f"sent/{to}", number)
        self.env.store(f"item/{to}/{number}", self.encoded(item))
        self.env.set_timer(to, self._silence_s)
        return number

    def encoded(self, item: Item) -> tuple[Any, ...]:
        """An item as it is stored."""
        return self.messages.index(type(item)), *msgspec.structs.astuple(item)

    def decoded(self, stored: Sequence[Any]) -> Any:
        """An item from the storage."""
        kind, *fields = stored
        return self.messages[kind](*fields)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """An item or a sign of life of a stream to this host, or what the receiver of a stream of this host has or lacks."""
        match message:
            case Item(number=int(number)):
                self._take(sender, number, message)
            case Item(number=tuple(numbers)):
                if number := dict(numbers).get(self._place, 0):
                    self._take(sender, number, msgspec.structs.replace(message, number=number))
            case Null(origin=origin, sequence=number) if origin == sender:
                self._received.hear(sender, number)
                self._say_what_arrived(sender)
            case Have(origin=self.env.host, sequence=number):
                self._silent.discard(sender)
                self._forget_up_to(sender, number)
            case Request(origin=self.env.host):
                for number in asked_for(message, self._sent.get(sender, 0)):
                    if number in self._kept.get(sender, {}):
                        self.env.send(sender, self._kept[sender][number], Purpose.REPAIR)

    def _take(self, sender: str, number: int, item: Item) -> None:
        self._received.take(sender, number, item)
        if number % EVERY == 0:
            self._say_what_arrived(sender)

    def on_timer(self, name: str) -> None:
        """Nothing was sent to a host for delta, and it may lack items."""
        if name not in self._kept:
            super().on_timer(name)
        self._silent.add(name)
        self.env.send(name, Null(EVERYBODY, self.env.host, self._sent[name]), Purpose.CONTROL)
        self.env.set_timer(name, self._silence_s * self.env.random.uniform(SHORTEST, 1.0))

    def _say_what_arrived(self, sender: str) -> None:
        self.env.send(sender, Have(EVERYBODY, sender, self._received.last(sender)), Purpose.CONTROL)

    def _forget_up_to(self, to: str, number: int) -> None:
        kept = self._kept.get(to, {})
        for old in [old for old in kept if old <= number]:
            del kept[old]
            self.env.store(f"item/{to}/{old}", None)
        if not kept and self._kept.pop(to, None) is not None:
            self.env.cancel_timer(to)
