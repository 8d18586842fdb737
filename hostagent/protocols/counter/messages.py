"""The messages of the counter protocol, beside those of its ring."""

from hostagent.contract.messages import Message, Payload, Ranges, SequenceNumber


class Msg(Message, frozen=True):
    """A message of the application; its cycle and its destinations are in the token."""

    payload: Payload


class Req(Message, frozen=True):
    """The sender lacks these messages of the origin; it asks for the `number`-th time."""

    missing: Ranges
    number: SequenceNumber
