"""Barriers: a switch answers one when it has done everything sent before it. Work that spans switches ends with the last answer."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Barrier(NamedTuple):
    """A barrier request that was sent to a switch."""

    switch: str
    transaction: int


class Barriers:
    """The barriers without an answer yet, and what to do after the last of each group."""

    def __init__(self) -> None:
        self._groups: list[tuple[set[Barrier], Callable[[], None]]] = []

    def after(self, barriers: Iterable[Barrier], action: Callable[[], None]) -> None:
        """Call `action` once all these barriers are answered, at once when there are none."""
        self._groups.append((set(barriers), action))
        self._settle(lambda _: False)

    def answered(self, barrier: Barrier) -> None:
        """Note the answer of a switch."""
        self._settle(lambda waiting: waiting == barrier)

    def lost(self, switch: str) -> None:
        """Wait no longer for a switch that is gone."""
        self._settle(lambda waiting: waiting.switch == switch)

    def _settle(self, settled: Callable[[Barrier], bool]) -> None:
        groups = [({barrier for barrier in group if not settled(barrier)}, action) for group, action in self._groups]
        self._groups = [(group, action) for group, action in groups if group]
        for group, action in groups:
            if not group:
                action()
