"""The contract between a protocol and the world it runs in.

A protocol core is an event-driven state machine. It does no input or output: a driver calls the core when something happens, and the core
asks its `Environment` for effects, which the environment records. The agent (real sockets, real clock) and the simulator (virtual time) are
drivers of the same core and carry the effects out. So a core must take time, randomness and every effect from its environment, and must
never iterate over a set where the order shows.

A driver promises: calls come one at a time; what a core stored, traced and delivered during a call is durable before any message it sent
during that call leaves the host. So "store, then acknowledge" holds however the lines are ordered. Messages to the same host may share a
datagram (`hostagent.runtime.packing`); they arrive as one call for each, in the order in which they were sent, or not at all.

Some lines of the log are read by checkers. The environment writes most of them (`receive`, `deliver`, `commit`, `take_back`, `install`); a
protocol that has a tree, a token or recovery work traces the others itself:

    env.trace("parent", source=..., parent=...)       the host has a new parent in the tree of a source; empty for none
    env.trace("graph", number=2, closed=False, primary_of=[1, 3])
                                                      the host is in this propagation graph, which lets nothing through while it is
                                                      closed, and is the primary destination of these groups
    env.trace("token", generation=3, held=True)       the host holds the token from now on; held=False before it hands the token on
    env.trace("accepted", graph=4)                    the host takes part in graph 4, or whatever the protocol numbers
    env.trace("excluded", host=..., graph=4)          a host is not in graph 4: if a majority has accepted it, the host counts as failed
    env.trace("failed")                               the host knows that others treat it as failed
    env.trace("recovered")                            the host has finished the recovery work that followed its restart or failure

A core is made of parts, such as links and a failure detector. Each part has its own storage keys and timers, and is called when the host
starts and when one of the part's timers expires. A message goes to the core, which by default hands it to the part for its kind of message.
"""

import abc
from collections.abc import Callable, Mapping
from random import Random
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec

from hostagent.contract.advice import ADVICE, Surroundings
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Destination, Message
from hostagent.contract.promises import Promise

Milliseconds = Annotated[float, msgspec.Meta(ge=0.1, le=1e8)]
"""A time in the parameters of a protocol: no timer runs more often than ten times in a millisecond, or less often than once a day."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tunable numbers of a protocol; each protocol has its own subclass with reasoned defaults."""


class Part:
    """A piece of a protocol at one host, with storage keys and timers of its own."""

    messages: ClassVar[tuple[type[Message], ...]] = ()
    """The kinds of messages that the part takes."""

    def __init__(self, env: Environment) -> None:
        self.env = env

    def add(self, name: str, make: Callable[[Environment], "P"]) -> "P":
        """Make a part that belongs to this one. Its keys and timers carry its name, so two parts of the same kind can be added."""
        env = self.env.part(name)
        part = make(env)
        env.own(part)
        for kind in part.messages:
            self.env.kinds.setdefault(kind, []).append(part)
        return part

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """The host starts, or restarts with what its storage kept under this part's keys. A part is called after its own parts."""

    def on_message(self, sender: str, message: Any, expensive: bool) -> None:
        """A message arrived; `expensive` is the cost bit of its packet. By default the one part for this kind of message gets it."""
        takers = self.env.kinds.get(type(message), ())
        if len(takers) != 1:
            raise LookupError(
                f"{len(takers)} parts of {type(self).__name__} take a {type(message).__name__}: it must say which one"
            )
        takers[0].on_message(sender, message, expensive)

    def on_timer(self, name: str) -> None:
        """A timer expired."""
        raise LookupError(f"{type(self).__name__} set a timer {name!r} that it does not handle")


P = TypeVar("P", bound=Part)


class Core(Part, abc.ABC):
    """A broadcast protocol at one host. Subclasses describe the protocol and react to events."""

    name: ClassVar[str]
    """What users type. A protocol in a file of a user is called as the file is."""
    number: ClassVar[int]
    """The protocol's number on the wire."""
    file: ClassVar[str] = ""
    """The file of a user's protocol; empty for those of Castbed."""
    summary: ClassVar[str]
    """One line for `castbed list`."""
    assumes: ClassVar[str]
    """What must be true of the world for the guarantees to hold, for `castbed list`."""
    beyond: ClassVar[frozenset[str]] = frozenset()
    """Kinds of trouble (see simulator/swarm.py) that the protocol does not claim to survive: after them only safety is looked at."""
    waits: ClassVar[tuple[str, ...]] = ()
    """The parameters that say for how long a host waits for others at most: with less than a round trip it would always wait in vain."""
    all_relay: ClassVar[bool] = False
    """Whether every host may send a message on to every other."""
    knows_groups: ClassVar[bool] = False
    """Whether a message may be for some of the hosts instead of everybody. Such a protocol has `on_multicast`."""
    knows_membership: ClassVar[bool] = False
    """Whether hosts may join and leave groups. Such a protocol has `on_join` and `on_leave`, and installs views."""
    messages: ClassVar[tuple[type[Message], ...]]
    """The kinds of messages of all parts, in wire order."""
    Parameters: ClassVar[type[Parameters]] = Parameters
    """The type of this protocol's parameters."""

    def __init__(self, env: Environment, parameters: Any) -> None:
        super().__init__(env)
        self.parameters = parameters

    @classmethod
    @abc.abstractmethod
    def promise(cls, parameters: Any, hosts: int) -> Promise:
        """What the protocol promises with these parameters and this number of hosts; checkers hold the protocol to exactly that."""

    @classmethod
    def beyond_with(cls, parameters: Any) -> frozenset[str]:  # noqa: ARG003 - for protocols to use
        """The kinds of trouble that the protocol does not claim to survive with these parameters."""
        return cls.beyond

    @classmethod
    def most_lost(cls, parameters: Any, hosts: int) -> int:  # noqa: ARG003 - for protocols to use
        """How many of the hosts may be dead or cut off for good while the others go on. With more, only safety is looked at."""
        return hosts

    @classmethod
    def most_copies(cls, hosts: int) -> int:
        """Packets that one broadcast to this number of hosts may take when none is lost. The links must have room for them."""
        return hosts * (hosts - 1) if cls.all_relay else hosts - 1

    @classmethod
    def scarce(cls, random: Random, hosts: int) -> dict[str, Any]:  # noqa: ARG003 - for protocols to use
        """Parameters with which random cases reach the limits that the protocol has; none if its defaults do."""
        return {}

    @classmethod
    def check(cls, parameters: Any, hosts: tuple[str, ...]) -> None:
        """Raise a `ValueError` with a sentence if these parameters make no sense among these hosts."""

    @classmethod
    def advise(cls, parameters: Any, surroundings: Surroundings) -> str:  # noqa: ARG003 - for protocols to use
        """What the hosts are told of their surroundings before the start, with these parameters; empty for nothing.

        A protocol that gives advice has a parameter `advice`, a text that is empty by default.
        """
        return ""

    @classmethod
    def advised(cls, parameters: Mapping[str, Any], surroundings: Surroundings) -> dict[str, Any]:
        """The parameters of a run, with advice unless they have it already."""
        chosen = msgspec.convert(parameters, cls.Parameters, strict=False)
        advice = "" if parameters.get(ADVICE) else cls.advise(chosen, surroundings)
        return {**parameters, ADVICE: advice} if advice else dict(parameters)

    @property
    def unfinished(self) -> int:
        """How many messages of this host's application the core has still to send, or to hear of from hosts that answer.

        While there are many, further ones wait at the application's door (`hostagent.runtime.life`). A host that is down must not hold
        them up for ever. A protocol whose data leaves at once counts long messages as several (`slots`), so that the queues of links have
        room for what is under way.
        """
        return 0

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """The application sends a message from this host. Messages are numbered 1, 2, ... and a restart continues the numbers.

        By default, and for protocols that know no groups, every message is for everybody.
        """
        assert to.group == EVERYBODY, f"{self.name} knows no groups"
        self.on_broadcast(sequence, payload)

    def on_broadcast(self, sequence: int, payload: bytes) -> None:  # noqa: ARG002 - for protocols to use
        """The application sends a message to everybody. A protocol has this or `on_multicast`."""
        raise LookupError(f"{type(self).__name__} has neither on_broadcast nor on_multicast")

    def on_join(self, group: int) -> None:
        """The application at this host wants to be in a group. The host is a member once a view with it is installed."""
        raise LookupError(f"{self.name} knows no membership, so {self.env.host} cannot join group {group}")

    def on_leave(self, group: int) -> None:
        """The application at this host wants to leave a group."""
        raise LookupError(f"{self.name} knows no membership, so {self.env.host} cannot leave group {group}")
