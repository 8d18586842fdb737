"""What the testbed may ask of a running agent, as datagrams on a private Unix socket of the host."""

import msgspec


class BroadcastRequest(msgspec.Struct, frozen=True, tag=True):
    """Broadcast a message from this host."""

    payload: bytes


class Hush(msgspec.Struct, frozen=True, tag=True):
    """Send nothing more, but go on receiving and counting: what is in flight when a run ends must still be accounted for."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Log the end and exit."""


class SetClock(msgspec.Struct, frozen=True, tag=True):
    """Put the host's clock off by so much, and let it run at this rate from now on."""

    offset_s: float
    rate: float


class AtDoor(msgspec.Struct, frozen=True, tag=True):
    """Receive the `nth` message of a kind from now on `copies` times: not at all, or twice."""

    kind: str
    nth: int
    copies: int


class SignalWhen(msgspec.Struct, frozen=True, tag=True):
    """Send yourself a signal at the `nth` event that fits: no other process could do it at the very moment. Empty fields fit everything."""

    signal: int
    event: str
    origin: str = ""
    sequence: int = 0
    nth: int = 1


Request = BroadcastRequest | Hush | Stop | SetClock | AtDoor | SignalWhen

encode_request = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
