"""Barriers: a switch answers a barrier when it has carried out every message that was sent before it."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Barrier(NamedTuple):
    """A barrier request that was sent to a switch."""

    switch: str
    transaction: int


class Barriers:
    """Groups of barriers that are not all answered yet, each with the action that follows its last answer."""

    def __init__(self) -> None:
        self._groups: list[tuple[set[Barrier], Callable[[], None]]] = []

    def after(self, barriers: Iterable[Barrier], action: Callable[[], None]) -> None:
        """Call `action` when all these barriers are answered; at once if there are none."""
        self._groups.append((set(barriers), action))
        self._settle(lambda _: False)

    def answered(self, barrier: Barrier) -> None:
        """A switch has answered this barrier."""
        self._settle(lambda waiting: waiting == barrier)

    def lost(self, switch: str) -> None:
        """Stop waiting for a switch that is disconnected."""
        self._settle(lambda waiting: waiting.switch == switch)

    def _settle(self, settled: Callable[[Barrier], bool]) -> None:
        """Remove the barriers that are settled, and call the actions of groups without any left."""
        groups = [({barrier for barrier in group if not settled(barrier)}, action) for group, action in self._groups]
        self._groups = [(group, action) for group, action in groups if group]
        for group, action in groups:
            if not group:
                action()
