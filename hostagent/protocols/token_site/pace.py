"""How long a site waits for others, from the round trips that it saw."""

from collections.abc import Callable, Iterable

from hostagent.parts.round_trips import RoundTrips


class Pace:
    """Round trips to single hosts, and how long an answer of all hosts may take.

    Whatever a site sends to everybody makes the token move on, so the next acknowledgement of any host is taken for an answer: an upper
    bound, for hosts of which nothing better is known. So is the answer to a question that was repeated, counted from the first time: a host
    that always takes longer than the first guess would otherwise never be known. The first guesses are bad, as hosts are slow when they
    start. They improve with each message of this site: whoever gives it a number has got it, and where the token rests it gets one at once.
    """

    def __init__(self, peers: Iterable[str], now_s: Callable[[], float], longest_s: float, first_s: float) -> None:
        self._now_s = now_s
        self.longest_s = longest_s
        self._first_s = first_s
        self._trips = RoundTrips(longest_s, first_s)
        self._unknown = dict.fromkeys(peers)
        self._known: dict[str, None] = {}
        self._said: tuple[int, float] = 0, 0.0
        """The message of this site that was sent when all before it had numbers, and when; nothing if it was sent again."""

    def asked(self, host: str) -> None:
        """A host is asked for the first time."""
        self._trips.asked(host, self._now_s())

    def spoke(self, sequence: int = 0) -> None:
        """Something was sent to everybody: the message of this site with this sequence number, or something else."""
        for host in self._unknown:
            self.asked(host)
        if sequence:
            self._said = sequence, self._now_s()

    def repeated(self) -> None:
        """The message was sent again: nobody knows which of the two gets the number."""
        self._said = 0, 0.0

    def numbered(self, host: str, sequence: int, count: int) -> None:
        """A host has given numbers to so many messages of this site, from this one on."""
        said, at_s = self._said
        if sequence <= said < sequence + count:
            self._said = 0, 0.0
            self._trips.asked(host, at_s)
            self.answered(host)

    def answered(self, host: str) -> None:
        """A host has answered."""
        self._trips.answered(host, self._now_s())
        if host in self._unknown:
            del self._unknown[host]
            self._known[host] = None

    def wait_s(self, host: str, repetition: int = 0) -> float:
        """How long to wait for one host."""
        return self._trips.wait_s(host, repetition)

    def wait_for_hop_s(self, passer: str, holder: str, repetition: int = 0) -> float:
        """How long to wait for an acknowledgement of the token site, which may be as far from the site before as this one is from both."""
        others = (host for host in {passer, holder} if host in self._known or host in self._unknown)
        return sum(self._trips.wait_s(host, repetition) for host in others)

    def wait_for_all_s(self, repetition: int = 0) -> float:
        """How long to wait for the slowest of the hosts that have ever answered."""
        slowest_s = max((self._trips.wait_s(host, repetition) for host in self._known), default=None)
        return min(self._first_s * 2.0**repetition, self.longest_s) if slowest_s is None else slowest_s
