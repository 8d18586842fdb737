"""JSON that may come from anywhere: what is nested too deep is an error like any other mistake in it."""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
MOST_NESTED: Final = 50
"""Lists and objects inside each other; a run writes no more than ten."""
_TEXT_OR_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)


def decode(data: bytes, kind: type[T]) -> T:
    """The value of type `kind` that is in a JSON text, or a `msgspec.MsgspecError`."""
    return checked(msgspec.json.Decoder(kind).decode)(data)


def checked(decoder: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """A decoder that refuses what is nested too deep before it decodes anything: a value that deep breaks whoever goes through it."""

    def decode_if_shallow(data: bytes) -> T:
        # Most texts have few brackets, and need no closer look.
        if data.count(b"[") + data.count(b"{") > MOST_NESTED and _depth(data) > MOST_NESTED:
            raise msgspec.DecodeError(f"it has lists or objects nested more than {MOST_NESTED} deep")
        return decoder(data)

    return decode_if_shallow


def _depth(data: bytes) -> int:
    """How many brackets are open at most. Those inside of texts do not count."""
    depth = deepest = 0
    for found in _TEXT_OR_BRACKET.finditer(data):
        first: Any = found[0][:1]
        depth += 1 if first in b"[{" else -1 if first in b"]}" else 0
        deepest = max(deepest, depth)
    return deepest
