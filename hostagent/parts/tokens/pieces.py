"""Values that may need several datagrams, cut into pieces and put together again."""

from typing import Annotated, Final

import msgspec

from hostagent.contract.messages import Message
from hostagent.parts.tokens.places import Number

# A datagram has room for 1,436 bytes of a body; the numbers in front of a chunk take less than 40.
LONGEST_CHUNK: Final = 1380
MOST_PIECES: Final = 64
Chunk = Annotated[bytes, msgspec.Meta(max_length=LONGEST_CHUNK)]
PieceNumber = Annotated[int, msgspec.Meta(ge=0, lt=MOST_PIECES)]


class Piece(Message, frozen=True):
    """A piece of a value that may need several datagrams."""

    generation: Number
    hop: Number
    number: PieceNumber
    last: PieceNumber
    chunk: Chunk


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
