"""The contract between a protocol and the world it runs in.

A protocol core is an event-driven state machine. It does no input or output: it is called when something happens, and it calls its
`Environment` to act. The agent (real sockets, real clock) and the simulator (virtual time) are two environments for the same core,
so a core must take time, randomness and every effect from its environment and must never iterate over a set where the order shows.

An environment promises: calls come one at a time; what a core stored, traced and delivered during a call is durable before any
message it sent during that call leaves the host. So "store, then acknowledge" holds however the lines are ordered. Messages to the same
host may share a datagram (`hostagent.runtime.packing`); they arrive as one call for each, in the order in which they were sent, or not at
all.
"""

import abc
from collections.abc import Mapping
from random import Random
from typing import Annotated, Any, ClassVar

import msgspec

from hostagent.contract.messages import Message, Purpose
from hostagent.contract.promises import Promise


class Environment(abc.ABC):
    """What a core may ask of the host it runs on."""

    host: str
    """This host."""
    hosts: tuple[str, ...]
    """Every participating host, this one included, in the static order."""
    random: Random
    """The only source of randomness."""

    @property
    def peers(self) -> tuple[str, ...]:
        """Every other host."""
        return tuple(host for host in self.hosts if host != self.host)

    @abc.abstractmethod
    def now(self) -> float:
        """This host's clock, in seconds."""

    @abc.abstractmethod
    def send(self, to: str, message: Message, purpose: Purpose) -> None:
        """Send a message to another host. Its datagram may be lost, duplicated, delayed or reordered."""

    @abc.abstractmethod
    def set_timer(self, name: str, after_s: float) -> None:
        """Call `on_timer(name)` after a while. A timer of the same name that is already set is moved."""

    @abc.abstractmethod
    def cancel_timer(self, name: str) -> None:
        """Forget a timer; nothing happens if it is not set."""

    @abc.abstractmethod
    def deliver(self, origin: str, sequence: int, payload: bytes) -> None:
        """Hand a message to the application."""

    @abc.abstractmethod
    def store(self, key: str, value: object) -> None:
        """Keep a value on stable storage under a key; `None` forgets it. Values are what MessagePack can carry."""

    @abc.abstractmethod
    def trace(self, event: str, **details: object) -> None:
        """Record an event of the protocol's own in this host's event log."""


Milliseconds = Annotated[float, msgspec.Meta(ge=0.1, le=1e8)]
"""A time in the parameters of a protocol: no timer runs more often than ten times in a millisecond, or less often than once a day."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tunable numbers of a protocol; each protocol has its own subclass with reasoned defaults."""


class Core(abc.ABC):
    """A broadcast protocol at one host. Subclasses say what they are and react to four kinds of events."""

    name: ClassVar[str]
    """What users type."""
    number: ClassVar[int]
    """The protocol's number on the wire."""
    summary: ClassVar[str]
    """One line for `castbed list`."""
    assumes: ClassVar[str]
    """What must be true of the world for the guarantees to hold, for `castbed list`."""
    beyond: ClassVar[frozenset[str]] = frozenset()
    """Kinds of trouble (see simulator/swarm.py) that the protocol does not claim to survive: after them only safety is looked at."""
    all_relay: ClassVar[bool] = False
    """Whether every host may send a message on to every other."""
    knows_groups: ClassVar[bool] = False
    """Whether a message may be for some of the hosts instead of everybody."""
    messages: ClassVar[tuple[type[Message], ...]]
    """The kinds of messages, in wire order."""
    Parameters: ClassVar[type[Parameters]] = Parameters
    """The type of this protocol's parameters."""

    def __init__(self, env: Environment, parameters: Any) -> None:
        self.env = env
        self.parameters = parameters

    def on_start(self, stored: Mapping[str, Any]) -> None:  # noqa: B027 - most protocols have nothing to do here
        """The host starts, or restarts with what its storage kept."""

    @classmethod
    @abc.abstractmethod
    def promise(cls, parameters: Any, hosts: int) -> Promise:
        """What the protocol promises with these parameters among so many hosts; the checkers hold it to exactly that."""

    @classmethod
    def most_copies(cls, hosts: int) -> int:
        """Packets that a message may take among so many hosts where none is lost. The links must have room for them."""
        return hosts * (hosts - 1) if cls.all_relay else hosts - 1

    @classmethod  # noqa: B027 - most parameters fit any hosts
    def check(cls, parameters: Any, hosts: tuple[str, ...]) -> None:
        """Raise a `ValueError` with a sentence if these parameters make no sense among these hosts."""

    @abc.abstractmethod
    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """The application broadcasts a message from this host; they are numbered 1, 2, ... also across restarts."""

    @abc.abstractmethod
    def on_message(self, sender: str, message: Any, expensive: bool) -> None:
        """A message arrived; `expensive` is the cost bit of its packet."""

    def on_timer(self, name: str) -> None:
        """A timer expired."""
        raise LookupError(f"{self.name} set a timer {name!r} that it does not handle")
