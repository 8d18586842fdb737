"""Packing: messages to the same host or group share a datagram, since cost is counted in packets.

Agents and simulated hosts pack in the same way; a core only sends messages and knows nothing of packing. `pack_ms` says how:

    None   off: every message is a datagram of its own
    0      all messages to one host from one call, or from the many calls of one wake-up, share a datagram; no message waits
    above  each host is sent at most one datagram every `pack_ms`, unless a datagram is full. After a pause of `pack_ms`, a message to the
           host leaves at once; the next messages wait until `pack_ms` is over or they fill a datagram

So a message waits at most `pack_ms` at a host, and a single message does not wait at all. Messages of a stream that share a datagram stay
together and do not wait again at hosts that pass them on in the same rhythm. Messages to one host leave in the order in which they were
sent. A datagram is full when the next message would not fit into an Ethernet frame.
"""

import heapq
from collections.abc import Iterator

from hostagent.contract.environment import NS_PER_MS, Receiver
from hostagent.contract.wire import ROOM_IN_PACK, Part

Datagram = tuple[Receiver, list[Part]]
"""A host or a group, and the messages that go there together."""


class Packer:
    """The messages of one host that have not left yet. Times are nanoseconds of any monotonic clock."""

    def __init__(self, pack_ms: float | None) -> None:
        self._off = pack_ms is None
        self._wait_ns = round((pack_ms or 0.0) * NS_PER_MS)
        self._alone: list[Datagram] = []
        self._waiting: dict[Receiver, _Waiting] = {}
        self._touched: dict[Receiver, None] = {}
        self._left_ns: dict[Receiver, int] = {}
        self._deadlines: list[tuple[int, str, Receiver]] = []
        self._sized: tuple[Part | None, Part | None, int] = None, None, 0
        """The last message that was added, the one before it in its datagram, and the bytes that it takes there."""

    @property
    def is_empty(self) -> bool:
        """Whether no message is left to send."""
        return not self._waiting and not self._alone

    @property
    def due_ns(self) -> int | None:
        """When the next held message must leave; None if no message is held."""
        while self._deadlines:
            due_ns, _, to = self._deadlines[0]
            if to in self._waiting and self._waiting[to].held_until_ns == due_ns:
                return due_ns
            heapq.heappop(self._deadlines)
        return None

    def add(self, to: Receiver, part: Part) -> None:
        """A core sends a message."""
        if self._off:
            self._alone.append((to, [part]))
            return
        waiting = self._waiting.get(to)
        if waiting is None:
            waiting = self._waiting[to] = _Waiting()
        before = waiting.datagrams[-1][-1] if waiting.datagrams else None
        # A message that goes to many hosts mostly comes after the same one at each.
        if self._sized[0] is not part or self._sized[1] is not before:
            self._sized = part, before, part.bytes_after(before)
        waiting.add(part, self._sized[2])
        if self._wait_ns:
            self._touched[to] = None

    def take(self, now_ns: int) -> list[Datagram]:
        """The datagrams that leave now, at the end of a call or a wake-up, in the order in which their hosts were first sent to."""
        if self._off:
            taken, self._alone = self._alone, []
        elif self._wait_ns:
            taken = [*self._overdue(now_ns), *self._ready(now_ns)]
        else:
            taken = [(to, parts) for to, waiting in self._waiting.items() for parts in waiting.datagrams]
            self._waiting.clear()
        return taken

    def clear(self) -> None:
        """Forget everything: the host has died."""
        self._alone.clear()
        self._waiting.clear()
        self._touched.clear()
        self._left_ns.clear()
        self._deadlines.clear()

    def _overdue(self, now_ns: int) -> Iterator[Datagram]:
        """The messages that were held for `pack_ms`."""
        while (due_ns := self.due_ns) is not None and due_ns <= now_ns:
            _, _, to = heapq.heappop(self._deadlines)
            self._touched.pop(to, None)
            yield from self._leave(to, now_ns, self._waiting.pop(to).datagrams)

    def _ready(self, now_ns: int) -> Iterator[Datagram]:
        """The messages sent just now that need not wait: those to hosts without a recent datagram, and full datagrams to the others."""
        for to in self._touched:
            waiting = self._waiting[to]
            assert waiting.datagrams, to
            if self._left_ns.get(to, now_ns - self._wait_ns) + self._wait_ns <= now_ns:
                yield from self._leave(to, now_ns, self._waiting.pop(to).datagrams)
                continue
            *full, rest = waiting.datagrams
            yield from self._leave(to, now_ns, full)
            waiting.datagrams = [rest]
            until_ns = self._left_ns[to] + self._wait_ns
            if waiting.held_until_ns != until_ns:
                waiting.held_until_ns = until_ns
                # Names order the receivers at one instant; a number and a text could not be compared.
                heapq.heappush(self._deadlines, (until_ns, repr(to), to))
        self._touched.clear()

    def _leave(self, to: Receiver, now_ns: int, datagrams: list[list[Part]]) -> Iterator[Datagram]:
        assert self._left_ns.get(to, now_ns) <= now_ns, "the clock went back"
        for parts in datagrams:
            assert parts, to
            self._left_ns[to] = now_ns
            yield to, parts


class _Waiting:
    """The messages that wait for one host, as datagrams: all but the last are full."""

    __slots__ = ("datagrams", "held_until_ns", "room")

    def __init__(self) -> None:
        self.datagrams: list[list[Part]] = []
        self.room = 0
        self.held_until_ns: int | None = None

    def add(self, part: Part, size: int) -> None:
        """Put a message that takes so many bytes there into the last datagram, or into a new one if it does not fit."""
        if size <= self.room and self.datagrams:
            self.datagrams[-1].append(part)
            self.room -= size
            return
        self.datagrams.append([part])
        # A message that is longer than the room in a pack travels alone.
        self.room = ROOM_IN_PACK - part.bytes_after(None)
