"""The messages of the counter protocol, and values of several datagrams cut into pieces."""

from typing import Annotated, Final

import msgspec

from hostagent.contract.messages import Message, Payload, Ranges, SequenceNumber
from hostagent.protocols.counter.state import Number

# A datagram has room for 1,436 bytes of a body; the numbers in front of a chunk take less than 40.
LONGEST_CHUNK: Final = 1380
MOST_PIECES: Final = 64
FIRST_WAIT_S: Final = 0.3
"""How long to wait for the first answer of a host: more than a round trip through a queue of 100 packets on a 10 Mbit/s link."""
Chunk = Annotated[bytes, msgspec.Meta(max_length=LONGEST_CHUNK)]
PieceNumber = Annotated[int, msgspec.Meta(ge=0, lt=MOST_PIECES)]


class Msg(Message, frozen=True):
    """A message of the application; its cycle and its destinations are in the token."""

    payload: Payload


class Piece(Message, frozen=True):
    """A piece of a value that may need several datagrams."""

    generation: Number
    hop: Number
    number: PieceNumber
    last: PieceNumber
    chunk: Chunk


class Token(Piece, frozen=True):
    """The token, from its owner to the next one; all others listen."""


class Known(Piece, frozen=True):
    """The newest token that the sender knows of, for a receiver that knows an older one. It hands nothing on."""


class Vote(Piece, frozen=True):
    """The sender promises to refuse all tokens of lower generations, and says what it has."""


class Req(Message, frozen=True):
    """The sender lacks these messages of the origin; it asks for the `number`-th time."""

    missing: Ranges
    number: SequenceNumber


class Call(Message, frozen=True):
    """The owner of the token must not rest, as there is something to do; with `changes`, it must form a new list.

    The generation is that of the newest token that the sender knows.
    """

    generation: Number
    changes: bool


class Reform(Message, frozen=True):
    """The sender wants to form a new list in a generation, from the token that it knows."""

    generation: Number
    known_generation: Number
    known_hop: Number


class Refusal(Message, frozen=True):
    """The sender has promised to refuse all generations below this one."""

    generation: Number


class Assembly:
    """Puts pieces together: for each sender and kind the newest value that is not complete yet."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, type[Piece]], tuple[tuple[int, int, int], dict[int, bytes]]] = {}

    def take(self, sender: str, piece: Piece) -> bytes | None:
        """The value, if this piece was the last one missing."""
        if not piece.last:
            return piece.chunk
        key, value = (sender, type(piece)), (piece.generation, piece.hop, piece.last)
        if key not in self._chunks or self._chunks[key][0] != value:
            self._chunks[key] = value, {}
        chunks = self._chunks[key][1]
        chunks[piece.number] = piece.chunk
        if any(number not in chunks for number in range(piece.last + 1)):
            return None
        del self._chunks[key]
        return b"".join(chunks[number] for number in range(piece.last + 1))


def cut(kind: type[Piece], origin: str, version: tuple[int, int], value: bytes) -> list[Piece]:
    """A value as pieces, each of which fits into a datagram."""
    chunks = [value[at : at + LONGEST_CHUNK] for at in range(0, len(value), LONGEST_CHUNK)]
    return [kind(0, origin, 0, *version, number, len(chunks) - 1, chunk) for number, chunk in enumerate(chunks)]
