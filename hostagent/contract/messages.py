"""What protocol cores say to each other, as frozen, typed values.

A protocol declares one subclass of `Message` per kind of message, in the order that numbers them on the wire:

    class Copy(Message):
        payload: bytes

The three fields every message has (`group`, `origin`, `sequence`) travel in the fixed header of the datagram, where a
capture can be searched for them; the fields of the subclass travel in the body.
"""

import enum

import msgspec


class Purpose(enum.IntEnum):
    """Why a packet was sent. Cost is reported for each separately."""

    DATA = 0
    REPAIR = 1
    CONTROL = 2


class Message(msgspec.Struct, frozen=True, array_like=True):
    """A protocol message about message `sequence` of host `origin`, or about the host itself where sequence is 0."""

    group: int
    origin: str
    sequence: int
