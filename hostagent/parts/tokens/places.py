"""Hosts by their places among all hosts of a run, and sets of hosts as numbers in which bit i stands for host i."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec

MOST_HOSTS: Final = 60
Place = Annotated[int, msgspec.Meta(ge=0, lt=MOST_HOSTS)]
Hosts = Annotated[int, msgspec.Meta(ge=0, lt=1 << MOST_HOSTS)]
Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""Of a generation, a hop or a cycle."""
HIGHEST: Final = 1 << 40
"""No such number gets that high by itself: whoever hears one that does ignores it, so none gets too high for its type."""
Version = tuple[int, int]
"""Generation and hop of a token."""


def following(members: int, place: int, hosts: int) -> int:
    """The next host in the list after a place."""
    return next(other % hosts for other in range(place + 1, place + 1 + hosts) if members >> other % hosts & 1)


def preceding(members: int, place: int, hosts: int) -> int:
    """The last host in the list before a place."""
    return next(other % hosts for other in range(place + hosts - 1, place - 1, -1) if members >> other % hosts & 1)


def set_of_places(members: Iterable[int]) -> int:
    """These places as a set."""
    found = 0
    for place in members:
        found |= 1 << place
    return found


def set_of(members: Sequence[str], hosts: Sequence[str]) -> int:
    """These hosts of a run as a set of places."""
    if len(members) == len(hosts):
        return (1 << len(hosts)) - 1
    return set_of_places(place for place, host in enumerate(hosts) if host in members)


def places(members: int, hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts of a run in a set of places."""
    return tuple(host for place, host in enumerate(hosts) if members >> place & 1)
