"""How long to wait for an answer, from the round trips that were seen, as TCP does it (RFC 6298).

Whoever asks another host for something says so (`asked`), and says when the answer came (`answered`). An answer to a question that was
repeated does not count, since nobody knows which of the two it answers (Karn's rule). Each repetition waits twice as long as the last one.
"""

from typing import Final

# No answer is awaited for less than this: hosts handle events one after another, and share processors.
SHORTEST_WAIT_S: Final = 0.02
FIRST_WAIT_S: Final = 0.3
"""How long to wait for the first answer of a host: more than a round trip through a queue of 100 packets on a 10 Mbit/s link."""

# A wait doubles at most so often: a question may be repeated for ever, and 2.0**1024 is more than a float can be.
MOST_DOUBLINGS: Final = 20


class RoundTrips:
    """The mean round trip to each host, smoothed, and its mean deviation. Nothing is ever awaited for longer than `longest_s`."""

    def __init__(self, longest_s: float, first_s: float | None = None) -> None:
        self._longest_s = longest_s
        self._first_s = longest_s if first_s is None else first_s
        """How long to wait for a host that has never answered."""
        self._asked_s: dict[str, float] = {}
        """When each host was asked, until its answer comes or the question is repeated."""
        self._trips_s: dict[str, tuple[float, float]] = {}

    def asked(self, host: str, now_s: float) -> None:
        """A host is asked for the first time."""
        self._asked_s[host] = now_s

    def forget(self, host: str) -> None:
        """The question is repeated, or its answer is not awaited any more."""
        self._asked_s.pop(host, None)

    def answered(self, host: str, now_s: float) -> None:
        """A host has answered. A clock that is set may make the round trip look shorter than nothing, or very long."""
        if (asked_s := self._asked_s.pop(host, None)) is None:
            return
        took_s = min(max(now_s - asked_s, 0.0), self._longest_s)
        mean_s, deviation_s = self._trips_s.get(host, (took_s, took_s / 2))
        self._trips_s[host] = (7 * mean_s + took_s) / 8, (3 * deviation_s + abs(mean_s - took_s)) / 4

    def wait_s(self, host: str, repetition: int = 0) -> float:
        """How long to wait for the answer of a host to a question that was repeated so many times."""
        mean_s, deviation_s = self._trips_s.get(host, (self._first_s, 0.0))
        return min(max(SHORTEST_WAIT_S, mean_s + 4 * deviation_s) * 2.0 ** min(repetition, MOST_DOUBLINGS), self._longest_s)
