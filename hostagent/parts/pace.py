"""How much may be under way: as much as the queues on the way were seen to hold.

Source: Jacobson, "Congestion Avoidance and Control" (1988). What a full queue of a link drops is noticed as losses. Until the first time,
the window grows by all that arrives, so it doubles in a round trip. Too many losses make it narrower, once for all that was sent before;
from then on it grows little by little.

Where the paper takes each loss for a full queue, a quarter of what is under way must be lost here at one host: links also lose single
packets, at any speed, and a full queue far more, as the sender goes on until it hears of it. Then half of what was under way may be.

Not on stable storage: after a restart, queues are learnt anew.
"""

from collections.abc import Sequence
from typing import Final

FIRST: Final = 64
"""At least this many may be under way at the start, or a quarter of the most; and among fewer, losses are chance."""
FEWEST: Final = 16
STEP: Final = 16
"""By so many more may be under way after as many have arrived as may be under way."""
TOLERATED: Final = 0.25
"""This share of what is under way may be lost."""


class Pace:
    """A window for numbered items that are sent in order, of which at most `most` may be under way in any case."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._window = float(max(most // 4, min(FIRST, most)))
        self._since = 0
        """Losses are counted after this number, for as many numbers as are under way."""
        self._lost: dict[str, tuple[int, int]] = {}
        """For each host, how many were lost there since, and the last of them."""
        self._was_full = False

    @property
    def window(self) -> int:
        """How many items may be under way."""
        return int(self._window)

    @property
    def is_open(self) -> bool:
        """Whether the window is open as far as it goes."""
        return self.window >= self._most

    def lost(self, host: str, numbers: Sequence[int], last: int, under_way: int) -> bool:
        """A host lacks these, in ascending order, when `last` was the last one that was sent, and so many were under way.

        What it lacked already counts once. Returns whether fewer may be under way now.
        """
        lost, highest = self._lost.get(host, (0, self._since))
        new = [number for number in numbers if number > highest]
        if not new:
            return False
        under_way = max(under_way, FIRST)
        if new[-1] > self._since + under_way:
            self._since, lost = new[0] - 1, 0
            self._lost.clear()
        lost += len(new)
        self._lost[host] = lost, new[-1]
        if lost <= TOLERATED * under_way:
            return False
        self._window = max(min(self._window, under_way) / 2, min(FEWEST, self._most))
        self._was_full = True
        self._since = last
        self._lost.clear()
        return True

    def arrived(self, items: int) -> None:
        """So many are not under way any more."""
        growth = STEP * items / self._window if self._was_full else items
        self._window = min(self._window + growth, self._most)
