"""The order of decided messages, with election: which message is the next, and whether anything can still come before it."""

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Final

from hostagent.protocols.two_phase.messages import MessageId
from hostagent.protocols.two_phase.records import Held

NOTHING: Final = (0, 0)


class Places:
    """The places of messages. The place of a message is the highest final counter among it and all earlier ones of its source."""

    def __init__(self, hosts: tuple[str, ...], held: Mapping[MessageId, Held]) -> None:
        self._hosts = hosts
        self._held = held
        self._settled = dict.fromkeys(hosts, NOTHING)
        """For each host, the last message before which all are decided here, and its place."""
        self._ready: list[tuple[int, str, int]] = []
        """The messages that have a place, and wait."""
        self.passed = dict.fromkeys(hosts, NOTHING)
        """For each host, the last message that was taken from here, and its place."""

    def restore(self, origin: str, sequence: int, place: int) -> None:
        """After a restart: this message of a host was the last that was taken."""
        self.passed[origin] = self._settled[origin] = sequence, place

    def settle(self, origin: str) -> None:
        """Give their places to messages of a host, in the order of the source, as far as they are decided."""
        sequence, place = self._settled[origin]
        while (held := self._held.get((origin, sequence + 1))) is not None and held.decided:
            sequence, place = sequence + 1, max(place, held.decided)
            heappush(self._ready, (place, origin, sequence))
        self._settled[origin] = sequence, place

    def pop(self) -> Held | None:
        """Take the first message, if all that may come before it is settled."""
        if not self._ready:
            return None
        place, origin, sequence = self._ready[0]
        held = self._held[origin, sequence]
        # Later messages of the same source come after it anyway.
        before = (
            (host, min(number, sequence) if host == origin else number)
            for host, number in zip(self._hosts, held.seen, strict=True)
        )
        if any(self._settled[host][0] < number for host, number in before):
            return None
        heappop(self._ready)
        self.passed[origin] = sequence, place
        return held

    def waits(self) -> bool:
        """Whether there are messages that have a place and were not taken."""
        return bool(self._ready)

    def highest(self) -> int:
        """The highest final counter of the messages that wait."""
        return max((held.decided for held in self.waiting()), default=0)

    def waiting(self) -> list[Held]:
        """The messages that wait."""
        return [self._held[origin, sequence] for _, origin, sequence in self._ready]
