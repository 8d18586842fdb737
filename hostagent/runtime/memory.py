"""How much a core keeps: the items in its containers, counted by introspection, so that protocols need no code for it."""

from collections import deque
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from hostagent.contract.core import Core

LEAVES: Final = frozenset({int, str, bytes, float, bool, NoneType})
"""What holds nothing else. Most values are, and looking at each of them is what takes time."""


def retained_items(core: Core) -> int:
    """The items in all containers that a core holds, nested ones included; its environment and its parameters do not count."""
    return sum(_items(value) for name, value in vars(core).items() if name not in {"env", "parameters"})


def _items(value: Any) -> int:
    if isinstance(value, Mapping):
        return len(value) + sum(_items(one) for one in value.values() if type(one) not in LEAVES)
    if isinstance(value, list | tuple | set | frozenset | deque):
        return len(value) + sum(_items(one) for one in value if type(one) not in LEAVES)
    # Parts and what they are made of; a callable is a way to call somebody, and not something kept.
    if callable(value):
        return 0
    parts = getattr(value, "__dict__", {}).items()
    return sum(_items(part) for name, part in parts if type(part) not in LEAVES and name not in {"env", "_env", "_core"})
