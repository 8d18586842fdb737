"""Advice: what the hosts of a run are told before it starts, and could not know by themselves.

A core never sees the network. A protocol that plans by distances makes *advice* of them before the start (`Core.advise`), a text in a form
of its own, from what is described here. The text is recorded with the run as the parameter `advice`, so a run that is repeated is given the
same advice. It should be compact, and enough for all that the protocol will have to decide alike at all hosts while groups change.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

ADVICE: Final = "advice"
"""The name of the parameter."""


class Surroundings(NamedTuple):
    """What a protocol may make advice of."""

    hosts: tuple[str, ...]
    """Every host of the run, in the static order."""
    groups: Mapping[int, tuple[str, ...]]
    """The members of each group at the start, by its number; without the group of everybody."""
    distance: Callable[[str, str], float]
    """The distance of two hosts: the number of expensive links between them, plus a thousandth for each link between switches."""
