"""Arbitrary messages of any protocol, made from the types of their fields."""

import types
import typing
from itertools import pairwise
from typing import Annotated, Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from hostagent.contract.messages import HostName, HostNameOrNone, HostSet, HostSetOrNone, Message, NumberOfEach, Ranges, Rule
from hostagent.protocols.timestamp.messages import HaveOrNone
from hostagent.protocols.totem.messages import Requests
from hostagent.protocols.trans_total.messages import Marks

RUN = 0xDEADBEEF
NUMBERS = {"h1": 1, "h2": 2, "h900": 900}

unhurried = settings(deadline=None)
"""For machines that other work may slow down: how long an example takes says nothing."""

_SIMPLE = {
    int: st.integers(0, 2**63 - 1),
    str: st.text(max_size=5),
    bytes: st.binary(max_size=20),
    float: st.floats(allow_nan=False),
}


_FIRST_AND_LAST = st.lists(st.integers(1, 2**32 - 1), max_size=8, unique=True).map(sorted)
_HOST_SETS = st.integers(0, (1 << len(NUMBERS)) - 1).map(lambda bits: bits.to_bytes(1))
_NUMBER_OF_EACH = st.lists(st.integers(0, 2**32 - 1), min_size=len(NUMBERS), max_size=len(NUMBERS)).map(tuple)
# What fulfils a rule, where bounds alone do not say it.
_RULED = {
    HostName: st.sampled_from(sorted(NUMBERS)),
    HostNameOrNone: st.sampled_from(["", *NUMBERS]),
    HostSet: _HOST_SETS,
    HostSetOrNone: st.just(b"") | _HOST_SETS,
    NumberOfEach: _NUMBER_OF_EACH,
    HaveOrNone: st.just(()) | _NUMBER_OF_EACH,
    Requests: st.lists(
        st.tuples(st.integers(1, 2**31), st.integers(2**31, 2**32 - 1), st.integers(0, len(NUMBERS) - 1)), max_size=3
    ).map(tuple),
    Marks: st.lists(st.tuples(st.integers(0, len(NUMBERS) - 1), st.integers(1, 2**32 - 1)), max_size=3).map(tuple),
    Ranges: _FIRST_AND_LAST.map(lambda ends: tuple(zip(ends[::2], ends[1::2], strict=False))).filter(
        lambda ranges: all(one[1] + 1 < other[0] for one, other in pairwise(ranges))
    ),
}


def _bounded(of: Any, meta: msgspec.Meta) -> st.SearchStrategy[Any]:
    """Values within their declared bounds."""
    if meta.max_length is not None:
        return values(of).filter(lambda value: len(value) <= meta.max_length)
    low = meta.ge if meta.ge is not None else (meta.gt + 1 if meta.gt is not None else 0)
    high = meta.le if meta.le is not None else (meta.lt - 1 if meta.lt is not None else 2**32)
    return st.integers(int(low), int(high)).map(of)


def values(of: Any) -> st.SearchStrategy[Any]:
    """Values of a type that a message may carry."""
    origin, parts = typing.get_origin(of), typing.get_args(of)
    if origin is None:
        return _plain(of)
    if origin is Annotated:
        return _RULED[of] if any(isinstance(part, Rule) for part in parts) else _bounded(*parts)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of(*map(values, parts))
    if origin is dict:
        return st.dictionaries(values(parts[0]), values(parts[1]), max_size=3)
    if origin is tuple and parts[-1] is not ...:
        return st.tuples(*map(values, parts))
    return st.lists(values(parts[0]), max_size=3).map(origin)


def _plain(of: Any) -> st.SearchStrategy[Any]:
    """Values of a type without parameters."""
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        return st.builds(of, *(values(field.type) for field in msgspec.structs.fields(of)))
    return _SIMPLE[of] if of in _SIMPLE else st.from_type(of)


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    """Messages of a kind, about any message of any host."""
    _, _, _, *fields = msgspec.structs.fields(kind)
    return st.builds(
        kind,
        st.integers(0, 2**16 - 1),
        st.sampled_from(list(NUMBERS)),
        st.integers(0, 2**32 - 1),
        *(values(field.type) for field in fields),
    )
