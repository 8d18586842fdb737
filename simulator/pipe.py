"""One direction of a link in virtual time: a bucket of bandwidth with a queue, a delay with jitter, and bad luck.

The pipe mirrors what the testbed asks of the kernel. A packet may be lost before it is queued; it is dropped if the queue is full; it
leaves when those before it have left at the link's bandwidth; and it arrives after the delay, give or take the jitter. With jitter, packets
overtake each other. Bursty loss is a chain of two states, good and bad, with the same mean loss.
"""

from dataclasses import dataclass
from random import Random

from topologies import Link
from topologies.network import DEFAULT_QUEUE

# What travels besides a datagram: Ethernet, IPv4 and UDP headers.
HEADERS_BYTES = 14 + 20 + 8
NS_PER_MS = 1_000_000


@dataclass(slots=True)
class Counts:
    """What a pipe did with packets."""

    carried: int = 0
    lost: int = 0
    overflowed: int = 0
    duplicated: int = 0
    cut: int = 0
    """On the link when it was pulled, or sent while it was down."""


class Pipe:
    """One direction of a link."""

    __slots__ = (
        "_bad",
        "_free_ns",
        "_random",
        "counts",
        "epoch",
        "expensive",
        "ideal",
        "name",
        "properties",
        "source",
        "target",
        "up",
    )

    def __init__(self, link: Link, source: str, random: Random) -> None:
        self.name = link.name
        self.source = source
        self.target = link.other(source)
        self.expensive = link.expensive
        self.up = True
        # Counts how often the link was pulled: a packet that finds another number at its arrival was cut off.
        self.epoch = 0
        self.counts = Counts()
        self._random = random
        self._free_ns = 0
        self._bad = False
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
        """Cut the link, with everything that is on it."""
        self.up = False
        self.epoch += 1
        self._free_ns = 0

    def offer(self, now_ns: int, size: int) -> tuple[int, ...]:
        """When the copies of a packet of `size` bytes arrive: usually one, none if it is lost, two if it is duplicated."""
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
        left_ns = self._leave(now_ns, size)
        if left_ns is None:
            self.counts.overflowed += 1
            return ()
        self.counts.carried += 1
        arrival_ns = left_ns + self._delay_ns()
        if properties.duplicate and self._random.random() < properties.duplicate:
            self.counts.carried += 1
            self.counts.duplicated += 1
            return arrival_ns, left_ns + self._delay_ns()
        return (arrival_ns,)

    def _is_lost(self) -> bool:
        properties = self.properties
        if properties.burst <= 1 or properties.loss >= 1:
            return self._random.random() < properties.loss
        # Everything is lost in the bad state, which lasts `burst` packets on average, and nothing in the good one. The good one lasts
        # one packet at least, so the bad one lasts longer than asked for where the mean loss could not be reached otherwise.
        recover = min(1 / properties.burst, (1 - properties.loss) / properties.loss)
        worsen = recover * properties.loss / (1 - properties.loss)
        self._bad = self._random.random() >= recover if self._bad else self._random.random() < worsen
        return self._bad

    def _leave(self, now_ns: int, size: int) -> int | None:
        """When the last bit has left, or None if the queue is full."""
        bandwidth = self.properties.bandwidth_mbit
        if not bandwidth:
            return now_ns
        packet_ns = round((size + HEADERS_BYTES) * 8000 / bandwidth)
        waiting_ns = max(0, self._free_ns - now_ns)
        # Packets differ in size; the queue is taken to be full of packets like this one.
        if waiting_ns > (self.properties.queue_packets or DEFAULT_QUEUE) * packet_ns:
            return None
        self._free_ns = now_ns + waiting_ns + packet_ns
        return self._free_ns

    def _delay_ns(self) -> int:
        properties = self.properties
        if properties.reorder and self._random.random() < properties.reorder:
            return 0
        delay_ms = properties.delay_ms
        if properties.jitter_ms:
            delay_ms = max(0.0, delay_ms + self._random.uniform(-properties.jitter_ms, properties.jitter_ms))
        return round(delay_ms * NS_PER_MS)
