"""The formats of a run's files: which one a file is of, and a sentence where it is newer than this Castbed."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from runfiles.decoding import decode
from runfiles.errors import ResultsError
from runfiles.format import FORMAT

T = TypeVar("T")


class _Versioned(msgspec.Struct):
    format: Any = 1


def format_of(data: bytes) -> int:
    """The format that a JSON text says it is of; 1 where it says none, as before there was a format."""
    if not data.lstrip().startswith(b"{"):
        return 1
    found = decode(data, _Versioned).format
    return found if isinstance(found, int) else 1


def refuse_newer(found: int, path: Path) -> None:
    """Stop with a sentence if a file is of a format that this Castbed does not know."""
    if found > FORMAT:
        raise ResultsError(
            f"{path} is of format {found}, and this Castbed reads formats up to {FORMAT}: use the Castbed that wrote it, or a newer one"
        )


def decode_file(data: bytes, kind: type[T], path: Path) -> T:
    """What is in a file of a run that is JSON; `path` is for the sentence that refuses a newer format."""
    refuse_newer(format_of(data), path)
    return decode(data, kind)
