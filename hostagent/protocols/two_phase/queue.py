"""The queue of a destination: messages by priority, of which the first is delivered when its priority is final."""

from heapq import heappop, heappush

import msgspec

from hostagent.protocols.two_phase.messages import First, MessageId, Priority


class Entry(msgspec.Struct):
    """A message that is not delivered yet."""

    first: First
    proposed: Priority
    final: Priority | None = None


class Queue:
    """Messages in the order of their priorities: the proposed one, until the final one is known."""

    def __init__(self) -> None:
        self._entries: dict[MessageId, Entry] = {}
        self._heap: list[tuple[Priority, MessageId]] = []
        """Also holds proposed priorities of messages whose final one is known; they are passed over when they come up."""

    def get(self, message: MessageId) -> Entry | None:
        """What is known of a message that was not delivered."""
        return self._entries.get(message)

    def add(self, entry: Entry) -> None:
        """Add a message with the priority that this host proposes."""
        self._entries[entry.first.id] = entry
        heappush(self._heap, (entry.final or entry.proposed, entry.first.id))

    def finalise(self, message: MessageId, priority: Priority) -> None:
        """The final priority of a message is known. It is never below the one that was proposed here."""
        entry = self._entries[message]
        assert priority >= entry.proposed, (priority, entry.proposed)
        entry.final = priority
        if priority != entry.proposed:
            heappush(self._heap, (priority, message))

    def pop(self) -> Entry | None:
        """Take the first message, if its priority is final."""
        while self._heap:
            priority, message = self._heap[0]
            entry = self._entries.get(message)
            if entry is not None and priority == (entry.final or entry.proposed):
                if entry.final is None:
                    return None
                heappop(self._heap)
                return self._entries.pop(message)
            heappop(self._heap)
        return None
