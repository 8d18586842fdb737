"""The format versions of a run's files: reads the version of a file, and refuses a file that is newer than this Castbed."""

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
    """The format version of a JSON text; 1 if it states none, as files from before there were versions."""
    if not data.lstrip().startswith(b"{"):
        return 1
    found = decode(data, _Versioned).format
    return found if isinstance(found, int) else 1


def refuse_newer(found: int, path: Path) -> None:
    """Raise an error if a file is of a format that this Castbed does not know."""
    if found > FORMAT:
        raise ResultsError(
            f"{path} is of format {found}, and this Castbed reads formats up to {FORMAT}: use the Castbed that wrote it, or a newer one"
        )


def decode_file(data: bytes, kind: type[T], path: Path) -> T:
    """Decode a JSON file of a run, unless it is of a newer format; `path` is for the error message."""
    refuse_newer(format_of(data), path)
    return decode(data, kind)
