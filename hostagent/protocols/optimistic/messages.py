"""The messages of the optimistic protocol, beside those of its ring."""

from hostagent.contract.messages import HostSet, Message, Payload
from hostagent.parts.tokens.places import Number


class Data(Message, frozen=True):
    """A message of the application, broadcast for the first time or, after a rollback, again."""

    generation: Number
    rollbacks: Number
    """How often the ring had rolled back in this generation when the message was broadcast."""
    to: HostSet
    payload: Payload


class RollBack(Message, frozen=True):
    """A rollback request: the sender lacks the message with a number, which the token has named."""

    generation: Number
    rollbacks: Number
    number: Number


class Ask(Message, frozen=True):
    """The sender is in the list again, and has the committed messages up to a number."""

    number: Number


class Supply(Message, frozen=True):
    """A committed message for a host that asked; without a message (sequence 0) only how far all others are where they belong."""

    before: Number
    """All messages between this number and `number` are with all of their destinations."""
    number: Number
    up_to: Number
    """So are those between `number` and this one."""
    to: HostSet
    payload: Payload
