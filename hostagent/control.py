"""What the testbed may ask of a running agent, as datagrams on a private Unix socket of the host."""

import msgspec


class Broadcast(msgspec.Struct, frozen=True, tag=True):
    """Broadcast a message from this host."""

    payload: bytes


class Hush(msgspec.Struct, frozen=True, tag=True):
    """Send nothing more, but go on receiving and counting: what is in flight when a run ends must still be accounted for."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Log the end and exit."""


Request = Broadcast | Hush | Stop

encode_request = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
