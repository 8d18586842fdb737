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
    """Since a moment on the machine's clock, the host's clock is off by so much and runs at this rate."""

    offset_ns: int
    rate: float
    since_ns: int


class AtDoor(msgspec.Struct, frozen=True, tag=True):
    """Receive the `nth` message of a kind from now on `copies` times: not at all, or twice."""

    kind: str
    nth: int
    copies: int


class CrashWhen(msgspec.Struct, frozen=True):
    """Kill yourself at the `nth` event that fits: no other process could do it at the very moment. Empty fields fit everything."""

    event: str
    origin: str = ""
    sequence: int = 0
    nth: int = 1


class StartOrder(msgspec.Struct, frozen=True):
    """Which agent the launcher is to start, and what is true of its host from the first moment on."""

    host: str
    incarnation: int
    clock: SetClock | None = None
    """The fault of the machine's clock, if there is one."""
    crashes: tuple[CrashWhen, ...] = ()
    """Those that have not happened yet. Each counts its events from this start on."""


Request = BroadcastRequest | Hush | Stop | SetClock | AtDoor

encode_request = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
