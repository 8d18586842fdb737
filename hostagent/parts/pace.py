"""How much may be under way: as much as the queues on the way were seen to hold.

Source: Jacobson, "Congestion Avoidance and Control" (1988). What a full queue of a link drops is noticed as a loss. Until the first one,
the window grows by all that arrives, so it doubles in a round trip. A loss halves it, once for all losses of what was sent before; from
then on it grows little by little. Where less than half of the window is under way, no queue can be full because of it, so a loss slows
nobody.

Not on stable storage: after a restart, queues are learnt anew.
"""

from typing import Final

FIRST: Final = 64
"""At least this many may be under way at the start, or a quarter of the most."""
FEWEST: Final = 16
STEP: Final = 16
"""By so many more may be under way after as many have arrived as may be under way."""


class Pace:
    """A window for numbered items that are sent in order, of which at most `most` may be under way in any case."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._window = float(max(most // 4, min(FIRST, most)))
        self._noted = 0
        """Losses up to this number have been taken note of."""

    @property
    def window(self) -> int:
        """How many items may be under way."""
        return int(self._window)

    @property
    def is_open(self) -> bool:
        """Whether the window is open as far as it goes."""
        return self.window >= self._most

    def lost(self, number: int, last: int, under_way: int) -> bool:
        """An item was lost, when `last` was the last one that was sent, and so many were under way. Says whether fewer may be now."""
        if number <= self._noted or 2 * under_way <= self._window:
            return False
        self._window = max(self._window / 2, min(FEWEST, self._most))
        self._noted = last
        return True

    def arrived(self, items: int) -> None:
        """So many are not under way any more."""
        growth = STEP * items / self._window if self._noted else items
        self._window = min(self._window + growth, self._most)
