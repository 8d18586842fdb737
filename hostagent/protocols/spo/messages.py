"""What entities of SPO send each other."""

from typing import Annotated

import msgspec

from hostagent.contract.messages import HostSet, Message, NumberOfEach, Payload, SequenceNumber

# Two numbers for each host must fit into a PDU beside the longest message, however large they have become.
MOST_HOSTS = 20
Buffers = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class Pdu(Message, frozen=True):
    """A protocol data unit: a message of the application, or an empty one if `sequence` is 0."""

    tseq: SequenceNumber
    """TSEQ: its number among all PDUs of its sender."""
    destinations: HostSet
    """DST: the entities that must accept it."""
    pseq: NumberOfEach
    """PSEQ: for each entity, the number of this PDU among those of its sender to it; where it is not for that entity, of the next one."""
    ack: NumberOfEach
    """ACK: for each entity, the TSEQ that the sender expects from it next."""
    buffers: Buffers
    """BUF: the buffers that its sender has left."""
    asks: bool
    """Whether its destinations have to acknowledge it."""
    answers: bool
    """Whether it goes to everybody who waits for what it acknowledges."""
    payload: Payload = b""


class Status(Message, frozen=True):
    """What the next PDU of its sender would say. It has no number of its own, so it may be lost; `asks` for the status of the receiver."""

    tseq: SequenceNumber
    pseq: NumberOfEach
    ack: NumberOfEach
    buffers: Buffers
    asks: bool


class Request(Message, frozen=True):
    """The sender of this message lacks PDUs of `origin` that are for it: those with PSEQ from `first` to `last`; 0 if it does not know."""

    first: SequenceNumber
    last: SequenceNumber
