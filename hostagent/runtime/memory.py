"""How much a core keeps: the items in its containers, counted by introspection, so that protocols need no code for it.

Agents and simulated hosts count again and again while they run, so counting must be cheap. What a value is depends on its type alone and
is looked up; a container whose items are all plain values, such as texts and numbers, is not walked.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from hostagent.contract.core import Core

_NOT_KEPT: Final = frozenset({"env", "_env", "_core"})
"""Attributes by which parts know their host and each other."""


def retained_items(core: Core) -> int:
    """The items in all containers that a core holds, nested ones included; its environment and its parameters do not count."""
    return _items([value for name, value in vars(core).items() if name not in {"env", "parameters"}])


def _items(values: Collection[Any]) -> int:
    """The items in all containers among some values."""
    if _PLAIN.issuperset(map(type, values)):
        return 0
    count = 0
    for value in values:
        items_in = _ITEMS_IN.get(type(value)) or _learn(value)
        if items_in is not _nothing:
            count += items_in(value)
    return count


def _nothing(_value: Any) -> int:
    return 0


def _in_mapping(mapping: Mapping[Any, Any]) -> int:
    return len(mapping) + _items(mapping.values()) if mapping else 0


def _in_collection(collection: Collection[Any]) -> int:
    return len(collection) + _items(collection) if collection else 0


def _in_object(value: Any) -> int:
    return _items([part for name, part in vars(value).items() if name not in _NOT_KEPT])


_PLAIN: set[type] = set()
"""The types seen so far whose values hold nothing."""
_ITEMS_IN: Final[dict[type, Callable[[Any], int]]] = {}
"""For each type seen so far, how to count the items in a value."""


def _learn(value: Any) -> Callable[[Any], int]:
    """How to count the items in values of this type. A callable is a way to call somebody, and not something kept."""
    kind = type(value)
    count: Callable[[Any], int] = _nothing
    if issubclass(kind, Mapping):
        count = _in_mapping
    elif issubclass(kind, list | tuple | set | frozenset | deque):
        count = _in_collection
    elif not callable(value) and kind.__dictoffset__:
        count = _in_object
    if count is _nothing:
        _PLAIN.add(kind)
    _ITEMS_IN[kind] = count
    return count
