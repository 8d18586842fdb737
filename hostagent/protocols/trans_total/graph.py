"""The partial order of Trans: which message follows which, as far as a host knows.

A message follows the earlier messages of its own host, the messages that it acknowledges, and whatever those follow. A host puts a message
into its graph when all that the message follows is there. So the graph is closed: its messages of a host are the first k of that host, and
a vector of such counts says exactly what is in it. What a message follows is a vector too, its *past*: the graph of its sender when it was
sent, and the message itself.

Only the *heads* of the graph, which no other message follows, are acknowledged; all else is acknowledged by them. There are two rules more.

*Heard.* A host may have received a message D and miss a message C that D follows. It acknowledges D all the same, and C negatively. Such an
acknowledgement does not put D into the past: D may be beyond recovery, if all who have C are dead, and must not block others then. But
whoever has everything, and acknowledges a message that acknowledged D in this way, acknowledges D with it.

*Forgetting.* A message is forgotten when a message of every host follows it, and when it follows nothing that is not in the total order,
and is no such message itself: nobody will ask for it, no message to come acknowledges it for the first time, and it does not vote any more.
What it has heard must be forgotten before it: whoever acknowledges it once more, by name, acknowledges that, too.
The past of what is forgotten is taken to be all that is forgotten (`floor`), which is more than it was, but only by messages that do not
vote.
"""

from collections.abc import Callable, Iterator

from hostagent.protocols.trans_total.messages import Mark, Said

Past = tuple[int, ...]
"""For each host how many of its messages are in a set that is closed."""


class Node:
    """A message in the graph."""

    __slots__ = ("past", "said")

    def __init__(self, said: Said, past: Past) -> None:
        self.said = said
        self.past = past


class Graph:
    """The messages that a host has received and not forgotten. Hosts are named by their places in the static order."""

    def __init__(self, size: int) -> None:
        self.counts = [0] * size
        """How many messages of each host are in the graph, forgotten ones included."""
        self.floor: Past = (0,) * size
        """How many messages of each host are forgotten."""
        self.latest: list[Past] = [self.floor] * size
        """The past of the last message of each host."""
        self.heads: dict[int, int] = {}
        """For each host with a message that no other message follows: the number of that message."""
        self.waiting: dict[Mark, Said] = {}
        """What was received, and follows something that is not in the graph."""
        self._nodes: list[dict[int, Node]] = [{} for _ in range(size)]
        self._blocked: dict[Mark, list[Mark]] = {}
        """For each message that is not in the graph: which of the waiting ones wait for it."""

    def restore(self, floor: Past) -> None:
        """After a restart: this much was forgotten."""
        self.floor = floor
        self.counts = list(floor)
        self.latest = [floor] * len(floor)

    def past(self, place: int, number: int) -> Past:
        """What a message in the graph follows, itself included."""
        return self.floor if number <= self.floor[place] else self._nodes[place][number].past

    def said(self, mark: Mark) -> Said | None:
        """A message that was received and not forgotten."""
        node = self._nodes[mark[0]].get(mark[1])
        return node.said if node else self.waiting.get(mark)

    def holds(self, mark: Mark) -> bool:
        """Whether a message is in the graph."""
        return mark[1] <= self.counts[mark[0]]

    def add(self, place: int, said: Said) -> list[Mark]:
        """Add a message that was received for the first time. Returns what is in the graph now and was not before, in that order."""
        new = (place, said.number)
        self.waiting[new] = said
        ready, added = [new], []
        while ready:
            mark = ready.pop()
            if (blocker := self._insert(mark)) is not None:
                self._blocked.setdefault(blocker, []).append(mark)
                continue
            added.append(mark)
            ready += self._blocked.pop(mark, ())
        return added

    def _insert(self, mark: Mark) -> Mark | None:
        """Put a message into the graph, or return a message that it waits for."""
        (place, number), said = mark, self.waiting[mark]
        followed = [*self._followed(said)]
        if number != self.counts[place] + 1:
            return place, number - 1
        for one in followed:
            if not self.holds(one):
                return one
        past = self.latest[place]
        for one_place, one_number in followed:
            if one_number > past[one_place]:
                past = tuple(map(max, past, self.past(one_place, one_number)))
        past = (*past[:place], number, *past[place + 1 :])
        self._nodes[place][number] = Node(said, past)
        self.counts[place], self.latest[place] = number, past
        del self.waiting[mark]
        self.heads = {other: last for other, last in self.heads.items() if last > past[other]}
        self.heads[place] = number
        return None

    def _followed(self, said: Said) -> Iterator[Mark]:
        """What a message acknowledges: also what was heard by those that it acknowledges, if its host lacked nothing."""
        found = dict.fromkeys(said.acks)
        stack = [] if said.misses else [*said.acks]
        while stack:
            node = self._nodes[(mark := stack.pop())[0]].get(mark[1])
            for heard in node.said.heard if node else ():
                if heard not in found:
                    found[heard] = None
                    stack.append(heard)
        return iter(found)

    def acknowledgements(self, place: int, *, lacks: bool) -> list[Mark]:
        """What a host acknowledges: the heads of others, without those that the rest acknowledges as heard, unless it lacks something."""
        heads = [mark for mark in self.heads.items() if mark[0] != place]
        implied = set() if lacks else {heard for mark in heads if (said := self.said(mark)) for heard in said.heard}
        return [mark for mark in heads if mark not in implied]

    def heard(self, most: int) -> list[Mark]:
        """The waiting messages that no other waiting message acknowledges, the latest first."""
        named = {mark for said in self.waiting.values() for mark in (*said.acks, *said.heard)}
        named |= {(place, number - 1) for place, number in self.waiting}
        return [mark for mark in reversed(self.waiting) if mark not in named][:most]

    def messages(self, place: int, after: int) -> Iterator[int]:
        """The numbers of the messages of the application, of a host and after a number, that are in the graph and not forgotten."""
        return (number for number, node in self._nodes[place].items() if number > after and node.said.sequence)

    def forget(self, is_open: Callable[[Past], bool]) -> Iterator[Mark]:
        """Forget what every host has, if all that it follows is in the total order, and name it."""
        seen_by_all = tuple(map(min, *self.latest, self.latest[0]))
        floor = [*self.floor]
        for place, last in enumerate(seen_by_all):
            nodes = self._nodes[place]
            while floor[place] < last and not is_open((node := nodes[floor[place] + 1]).past):
                if any(number > floor[other] for other, number in node.said.heard):
                    break
                floor[place] += 1
                del nodes[floor[place]]
                yield place, floor[place]
        self.floor = tuple(floor)
