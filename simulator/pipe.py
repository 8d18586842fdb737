"""One direction of a link in virtual time: a token bucket with a queue, delay with jitter, loss and duplication.

The pipe mirrors what the testbed asks of the kernel. A packet may be lost before it is queued. It leaves when the packets before it have
left at the link's bandwidth, and arrives after the delay, plus or minus jitter. A full queue drops its oldest packet and takes the new one,
so the packets in between leave earlier. With jitter, packets overtake each other. Bursty loss is a Markov chain of two states, good and
bad, with the same mean loss.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from hostagent.contract.environment import NS_PER_MS
from topologies import Link
from topologies.network import DEFAULT_QUEUE

# The Ethernet, IPv4 and UDP headers of a datagram.
HEADERS_BYTES = 14 + 20 + 8


@dataclass(slots=True)
class Counts:
    """What a pipe did with packets."""

    carried: int = 0
    lost: int = 0
    overflowed: int = 0
    duplicated: int = 0
    cut: int = 0
    """Packets that were on the link when it was pulled, or sent while it was down."""


@dataclass(slots=True)
class Turn:
    """A place in the queue, and the arrival times that follow from it. They change when a packet in front is dropped."""

    begins_ns: int
    takes_ns: int
    arrivals: tuple[int, ...] = ()
    packets: Sequence[Any] = ()
    """For the world: the packets that arrive at these times."""


class Pipe:
    """One direction of a link."""

    __slots__ = (
        "_bad",
        "_free_ns",
        "_random",
        "counts",
        "dropped",
        "epoch",
        "expensive",
        "ideal",
        "name",
        "properties",
        "source",
        "target",
        "up",
        "waiting",
    )

    def __init__(self, link: Link, source: str, random: Random) -> None:
        self.name = link.name
        self.source = source
        self.target = link.other(source)
        self.expensive = link.expensive
        self.up = True
        # Counts how often the link was pulled: a packet was cut off if this number changed before its arrival.
        self.epoch = 0
        self.counts = Counts()
        self._random = random
        self._free_ns = 0
        self._bad = False
        self.waiting: deque[Turn] = deque()
        """The queue, oldest packet first. Packets that have begun to leave are removed at the next offer."""
        self.dropped: Turn | None = None
        """For the world: what the queue dropped at the last offer. Waiting packets leave earlier by its transmission time."""
        self.change(link)

    def change(self, properties: Link) -> None:
        """Take on the properties of a link."""
        self.properties = properties
        self.ideal = not (
            properties.bandwidth_mbit
            or properties.delay_ms
            or properties.jitter_ms
            or properties.loss
            or properties.duplicate
            or properties.reorder
        )

    def pull(self) -> None:
        """Cut the link; every packet on it is lost."""
        self.up = False
        self.epoch += 1
        self._free_ns = 0
        self.waiting.clear()

    def offer(self, now_ns: int, size: int) -> tuple[int, ...]:
        """When the copies of a packet of `size` bytes arrive: usually one, none if it is lost, two if it is duplicated.

        A packet that has to wait has the last turn in `waiting`.
        """
        if not self.up:
            self.counts.cut += 1
            return ()
        if self.ideal:
            self.counts.carried += 1
            return (now_ns,)
        return self._impaired(now_ns, size)

    def _impaired(self, now_ns: int, size: int) -> tuple[int, ...]:
        properties = self.properties
        if properties.loss and self._is_lost():
            self.counts.lost += 1
            return ()
        left_ns, turn = self._queue(now_ns, size)
        arrivals: tuple[int, ...] = (left_ns + self._delay_ns(),)
        if properties.duplicate and self._random.random() < properties.duplicate:
            self.counts.duplicated += 1
            arrivals = (*arrivals, left_ns + self._delay_ns())
        self.counts.carried += len(arrivals)
        if turn is not None:
            turn.arrivals = arrivals
        return arrivals

    def _is_lost(self) -> bool:
        properties = self.properties
        if properties.burst <= 1 or properties.loss >= 1:
            return self._random.random() < properties.loss
        # The bad state loses everything and lasts `burst` packets on average; the good state loses nothing and lasts one packet at
        # least. So the bad state lasts longer than asked for where the mean loss could not be reached otherwise.
        recover = min(1 / properties.burst, (1 - properties.loss) / properties.loss)
        worsen = recover * properties.loss / (1 - properties.loss)
        self._bad = self._random.random() >= recover if self._bad else self._random.random() < worsen
        return self._bad

    def _queue(self, now_ns: int, size: int) -> tuple[int, Turn | None]:
        """When the packet's last bit leaves if no packet in front is dropped; and its turn, if the packet has to wait."""
        bandwidth = self.properties.bandwidth_mbit
        if not bandwidth:
            return now_ns, None
        takes_ns = round((size + HEADERS_BYTES) * 8000 / bandwidth)
        waiting = self.waiting
        while waiting and waiting[0].begins_ns <= now_ns:
            waiting.popleft()
        if self._free_ns <= now_ns:
            assert not waiting, "packets wait though the link is free"
            self._free_ns = now_ns + takes_ns
            return self._free_ns, None
        if len(waiting) >= (self.properties.queue_packets or DEFAULT_QUEUE):
            self._drop_oldest()
        turn = Turn(self._free_ns, takes_ns)
        waiting.append(turn)
        self._free_ns += takes_ns
        return self._free_ns, turn

    def _drop_oldest(self) -> None:
        """Drop the oldest packet in the queue; the others move up."""
        assert self.dropped is None, "the world was not told of what was dropped before"
        gone = self.dropped = self.waiting.popleft()
        self._free_ns -= gone.takes_ns
        for turn in self.waiting:
            turn.begins_ns -= gone.takes_ns
            turn.arrivals = tuple(at_ns - gone.takes_ns for at_ns in turn.arrivals)
        self.counts.overflowed += 1
        self.counts.carried -= len(gone.arrivals)
        self.counts.duplicated -= len(gone.arrivals) - 1

    def _delay_ns(self) -> int:
        properties = self.properties
        if properties.reorder and self._random.random() < properties.reorder:
            return 0
        delay_ms = properties.delay_ms
        if properties.jitter_ms:
            delay_ms = max(0.0, delay_ms + self._random.uniform(-properties.jitter_ms, properties.jitter_ms))
        return round(delay_ms * NS_PER_MS)
