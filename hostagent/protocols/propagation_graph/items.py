"""What hosts say to each other in the propagation graph. Items travel on streams that keep their order, other messages by themselves.

`group`, `origin` and `sequence` of the header name the message of the application, or what a change of groups is about.
"""

from typing import Final

from hostagent.contract.messages import (
    LONGEST_PAYLOAD,
    HostName,
    HostSet,
    HostSetOrNone,
    Message,
    Payload,
    Purpose,
    SequenceNumber,
)
from hostagent.parts.streams import BYTES_PER_NUMBER, Item, Streams

Passed = tuple[SequenceNumber, SequenceNumber, SequenceNumber]
"""The sequence of a message, the graph in which it was passed on, and the view that it is for; all 0 for no message."""
NONE: Final[Passed] = (0, 0, 0)


class Submission(Item, frozen=True):
    """A source hands a message to the primary destination. `told` is the graph in which it learnt which host that is.

    `turn` counts how often the source had to turn to another host with its messages to this group.
    """

    told: SequenceNumber
    turn: SequenceNumber
    view: SequenceNumber
    """The graph of the source when the message was multicast: its groups say whom the message is for."""
    payload: Payload
    listed: HostSetOrNone = b""
    """The hosts that the message is for, if it is for no group."""
    after: Passed = NONE
    """The last message of the source to this group that a former primary destination has passed on."""


class Relay(Item, frozen=True):
    """A message on its way down graph `graph`, to some children of its sender."""

    graph: SequenceNumber
    view: SequenceNumber
    payload: Payload
    listed: HostSetOrNone = b""


class Returned(Item, frozen=True):
    """A submission that came to a host which is not the primary destination any more; in graph `graph` that is `primary`."""

    graph: SequenceNumber
    primary: HostName
    view: SequenceNumber
    after: Passed
    """The last message of the source to this group that was passed on here."""
    payload: Payload
    listed: HostSetOrNone = b""


class Change(Item, frozen=True):
    """The origin asks the manager to be in the group, or to be in it no longer."""

    joins: bool


class Close(Item, frozen=True):
    """Graph `graph` ends here: nothing comes after this on its edges."""

    graph: SequenceNumber


class Open(Item, frozen=True):
    """Graph `graph` begins: it differs from the one before in the members of the group."""

    graph: SequenceNumber
    members: HostSet


Carrying = Submission | Relay | Returned
"""Items with a message of the application."""


class Enter(Item, frozen=True):
    """A source hands a message to the host at which it enters graph `graph`."""

    graph: SequenceNumber
    to: HostSet
    payload: Payload


class Pass(Item, frozen=True):
    """A message on its way down graph `graph`."""

    graph: SequenceNumber
    to: HostSet
    payload: Payload


def most_together(item: Relay | Pass) -> int:
    """The number of children to which one datagram can carry a message. Other fields and what frames them take less than 30 bytes."""
    hosts = item.listed if isinstance(item, Relay) else item.to
    return max(1, (LONGEST_PAYLOAD - len(item.payload) - len(hosts) - 30) // BYTES_PER_NUMBER)


class ReportPiece(Item, frozen=True):
    """A piece of a report to the manager that forms graph `graph`; so many pieces follow."""

    graph: SequenceNumber
    left: SequenceNumber
    content: Payload


class PlanPiece(Item, frozen=True):
    """A piece of the manager's plan for graph `graph`; so many pieces follow."""

    graph: SequenceNumber
    left: SequenceNumber
    content: Payload


class Accepted(Item, frozen=True):
    """The sender has the plan of graph `graph` on stable storage."""

    graph: SequenceNumber


class Begin(Item, frozen=True):
    """A majority has accepted the plan of graph `graph`: it is open."""

    graph: SequenceNumber


class Alive(Message, frozen=True):
    """A sign of life: the graph that is open at the sender, and the highest one that it has promised to take part in.

    If both are the same, the graph is open there, unless the sender has `stopped`. It `asks` if it waits for a new graph. A `question` is
    answered with a sign of life of the receiver.
    """

    opened: SequenceNumber
    promised: SequenceNumber
    stopped: bool
    asks: bool
    question: bool


class Stop(Message, frozen=True):
    """The origin, a manager, forms graph `sequence`: whoever gets this stops, and reports what it has."""


class Refusal(Message, frozen=True):
    """The sender has promised to take part in graph `sequence`, so it cannot take part in the one that it was asked for."""


class Mark(Message, frozen=True):
    """In graph `graph`, all hosts have the origin's flow up to message `sequence`, and a majority knows that up to `settled`."""

    graph: SequenceNumber
    settled: SequenceNumber
    listed: HostSetOrNone = b""


class Has(Message, frozen=True):
    """In graph `graph`, the sender has passed on or noted the origin's flow up to message `sequence`, and knows what is settled."""

    graph: SequenceNumber
    settled: SequenceNumber
    listed: HostSetOrNone = b""


class Edges(Streams):
    """The edges of all graphs, and the ways between sources, primary destinations and the manager."""

    messages = (
        *(Submission, Relay, Returned, Change, Close, Open),
        *(Enter, Pass, ReportPiece, PlanPiece, Accepted, Begin),
        *Streams.messages,
    )

    def hand(self, to: str, item: Item) -> None:
        """Send an item, with the purpose that it has for the application."""
        self.send(to, item, Purpose.DATA if isinstance(item, Carrying | Enter | Pass) else Purpose.CONTROL)
