"""Decodes JSON that may come from anybody. Too deep a nesting is an error like any other mistake in the text."""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
MOST_NESTED: Final = 50
"""The deepest nesting of lists and objects that is accepted; a run writes at most ten levels."""
_TEXT_OR_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)


def decode(data: bytes, kind: type[T]) -> T:
    """Decode a JSON text as a value of type `kind`, or raise a `msgspec.MsgspecError`."""
    return checked(msgspec.json.Decoder(kind).decode)(data)


def checked(decoder: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """A decoder that refuses a text that is nested too deep before decoding it: recursive code would fail on such a value."""

    def decode_if_shallow(data: bytes) -> T:
        # Most texts have few brackets, so their depth need not be measured.
        if data.count(b"[") + data.count(b"{") > MOST_NESTED and _depth(data) > MOST_NESTED:
            raise msgspec.DecodeError(f"it has lists or objects nested more than {MOST_NESTED} deep")
        return decoder(data)

    return decode_if_shallow


def _depth(data: bytes) -> int:
    """The largest number of brackets that are open at once. Brackets inside strings do not count."""
    depth = deepest = 0
    for found in _TEXT_OR_BRACKET.finditer(data):
        first: Any = found[0][:1]
        depth += 1 if first in b"[{" else -1 if first in b"]}" else 0
        deepest = max(deepest, depth)
    return deepest
