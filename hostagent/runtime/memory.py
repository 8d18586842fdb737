"""How much a core keeps: the items in its containers, counted by introspection, so that protocols need no code for it."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from hostagent.contract.core import Core


def retained_items(core: Core) -> int:
    """The items in all containers that a core holds, nested ones included; its environment and its parameters do not count."""
    return sum(_items(value) for name, value in vars(core).items() if name not in {"env", "parameters"})


def _items(value: Any) -> int:
    if isinstance(value, Mapping):
        return len(value) + sum(map(_items, value.values()))
    if isinstance(value, list | tuple | set | frozenset | deque):
        return len(value) + sum(map(_items, value))
    # Parts and what they are made of; a callable is a way to call somebody, and not something kept.
    if callable(value):
        return 0
    return sum(_items(part) for name, part in getattr(value, "__dict__", {}).items() if name not in {"env", "_env", "_core"})
