"""The total order of Total: a function of the partial order, by votes on candidate sets.

Only messages of the application are ordered; null messages do nothing but acknowledge and vote. The order is extended in steps. The first
message of each host that is not ordered is a *candidate* if it follows no other message that is not ordered. A step picks a set of
candidates, by votes, and orders them by the places of their hosts.

Votes are not sent: each message, null or not, votes by what it follows. There are stages 0, 1, 2, ..., and each host has one vote in each.

    stage 0      The first message of a host that follows a candidate, or is one, votes for all candidates that it follows or is.
    stage s + 1  The first message of a host that follows the votes of at least n - k hosts in stage s, its own included, votes as most of
                 those do if their set may have been decided; else, in stage 1, for all candidates that they name together, and later on
                 as most of them do. Of sets with as many votes the largest counts, and of those the first by places.
    decision     A set with more than (n + k) / 2 votes in one stage is decided.

n is the number of hosts, and k, the *resilience*, how many may be dead: n > 3 k, so that n - k hosts are enough for a decision.

Why all hosts decide alike. A vote depends on the past of a message only, which is the same everywhere, and each host has one vote in a
stage. If a set S has more than (n + k) / 2 votes in stage s, then who votes in stage s + 1 has seen all but at most k votes of stage s, so
more than (n - k) / 2 for S, and less than (n - k) / 2 for all other sets together. So S has most of them and may have been decided, and the
vote is for S. All votes from stage s + 1 on are then for S, and no other set is ever decided, in whatever part of the graph a host has.
What a host has ordered is therefore the beginning of what any host that has more of the graph orders.

Why it goes on. n - k hosts that live and speak give n - k votes in each stage. If all of them see the same votes of a stage, they vote
alike in the next one, and that is decided. They disagree for as long as what each sees of the others' votes differs in just the wrong way.
No deterministic algorithm can rule that out (Fischer, Lynch, Paterson); the original relies on an order of messages that is random. It
need not be: of two halves of the hosts, each hears itself first, and if all vote as soon as they have n - k votes, each half confirms its
own set in stage after stage. So a host that speaks only to vote, after stage 1 and without the votes of all hosts, waits for more votes,
for a random time that doubles with each stage (`lateness`). As soon as it is longer than votes differ in their delays, all see the same.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from hostagent.protocols.trans_total.graph import Graph, Past
from hostagent.protocols.trans_total.messages import Mark


class Total:
    """The votes of the current step. A set of candidates is a number in which bit i stands for the candidate of host i."""

    def __init__(self, graph: Graph, resilience: int) -> None:
        size = len(graph.counts)
        self._graph = graph
        self._places = range(size)
        self._enough = size - resilience
        """Votes of a stage that a vote in the next one must follow."""
        self._decisive = (size + resilience) // 2 + 1
        """Votes of a stage that decide."""
        self.ordered = [0] * size
        """For each host the number of its last message that is in the total order."""
        self._next: list[deque[int]] = [deque() for _ in self._places]
        """For each host the numbers of its messages of the application that are in the graph and not in the total order."""
        self._begin()

    def restore(self, ordered: list[int]) -> Iterator[Mark]:
        """After a restart: go on behind what was ordered, with the graph as it is."""
        self.ordered = ordered
        self._next = [deque(self._graph.messages(place, ordered[place])) for place in self._places]
        yield from self._steps(self._begin())

    def extend(self, marks: Sequence[Mark], new: Sequence[Mark]) -> Iterator[Mark]:
        """Messages are new in the graph, and some of them are new messages of the application: what is in the total order now, in order."""
        for place, number in new:
            self._next[place].append(number)
        for place, number in marks:
            yield from self._steps(self._cast(place, number))

    def can_vote(self, place: int) -> bool:
        """Whether a message that this host sent now would vote in a stage in which the host has not voted yet."""
        stage, past = len(self._votes[place]), tuple(self._graph.counts)
        return self._voters(stage - 1, past) >= self._enough if stage else self.is_open(past)

    def lateness(self, place: int) -> int:
        """How many stages after stage 1 this host votes next; 0 also if it has the votes of all hosts in the stage before."""
        stage = len(self._votes[place])
        return 0 if stage < 2 or self._voters(stage - 1, tuple(self._graph.counts)) == len(self._places) else stage - 1

    def is_open(self, past: Past) -> bool:
        """Whether there is a message in this past that is not in the total order yet."""
        return any(waiting and waiting[0] <= last for waiting, last in zip(self._next, past, strict=True))

    def _steps(self, decided: int) -> Iterator[Mark]:
        while decided:
            for place in self._places:
                if decided >> place & 1:
                    self.ordered[place] = self._next[place].popleft()
                    yield place, self.ordered[place]
            decided = self._begin()

    def _begin(self) -> int:
        """Begin a step with the graph as it is: the votes of all messages, stage by stage. Returns the set that is decided, or 0."""
        self._votes: list[list[tuple[int, int]]] = [[] for _ in self._places]
        """For each host its votes by stage: the number of the message that votes, and the set."""
        self._tallies: list[dict[int, int]] = []
        self._candidates = self._judged = 0
        stage, more = 0, True
        while more:
            more = False
            for place in self._places:
                if number := self._first_voter(place, stage):
                    more = True
                    if decided := self._vote(place, stage, number):
                        return decided
            stage += 1
        return 0

    def _first_voter(self, place: int, stage: int) -> int:
        """The number of the first message of a host that votes in this stage, once all votes of the stage before are known; 0 for none."""
        first, last = self._graph.floor[place] + 1, self._graph.counts[place]
        if stage:
            if len(self._votes[place]) < stage:
                return 0
            first = self._votes[place][-1][0]
        if last < first or not self._may_vote(place, stage, last):
            return 0
        while first < last:
            middle = (first + last) // 2
            if self._may_vote(place, stage, middle):
                last = middle
            else:
                first = middle + 1
        return first

    def _may_vote(self, place: int, stage: int, number: int) -> bool:
        """Whether a message follows enough to vote in a stage; then all later messages of its host do, too."""
        past = self._graph.past(place, number)
        return self._voters(stage - 1, past) >= self._enough if stage else self.is_open(past)

    def _voters(self, stage: int, past: Past) -> int:
        """How many hosts have votes of a stage in this past."""
        return sum(len(votes) > stage and votes[stage][0] <= past[place] for place, votes in enumerate(self._votes))

    def _cast(self, place: int, number: int) -> int:
        """All votes of a message that is new in the graph. Returns the set that is decided by them, or 0."""
        decided = 0
        while not decided and self._may_vote(place, stage := len(self._votes[place]), number):
            decided = self._vote(place, stage, number)
        return decided

    def _vote(self, place: int, stage: int, number: int) -> int:
        """Count the vote of a message. Returns its set if that is decided now, else 0."""
        past = self._graph.past(place, number)
        value = self._followed_candidates(past) if stage == 0 else self._choice(stage - 1, past)
        self._votes[place].append((number, value))
        if stage == len(self._tallies):
            self._tallies.append({})
        tally = self._tallies[stage]
        tally[value] = tally.get(value, 0) + 1
        return value if tally[value] >= self._decisive else 0

    def _choice(self, stage: int, past: Past) -> int:
        """The set to vote for after the votes of a stage in this past."""
        seen: dict[int, int] = {}
        for place, votes in enumerate(self._votes):
            if len(votes) > stage and votes[stage][0] <= past[place]:
                seen[votes[stage][1]] = seen.get(votes[stage][1], 0) + 1
        most = max(seen, key=lambda value: (seen[value], value.bit_count(), -value))
        unseen = len(self._places) - sum(seen.values())
        if stage == 0 and seen[most] + unseen < self._decisive:
            together = 0
            for value in seen:
                together |= value
            return together
        return most

    def _followed_candidates(self, past: Past) -> int:
        """The candidates in a past with messages that are not ordered; there is at least one."""
        found = 0
        for place, waiting in enumerate(self._next):
            if waiting and waiting[0] <= past[place] and self._is_candidate(place):
                found |= 1 << place
        return found

    def _is_candidate(self, place: int) -> bool:
        """Whether the first message of a host that is not ordered, which is in the graph, follows nothing else that is not ordered."""
        bit = 1 << place
        if not self._judged & bit:
            self._judged |= bit
            past = self._graph.past(place, self._next[place][0])
            others = (waiting[0] > past[other] for other, waiting in enumerate(self._next) if waiting and other != place)
            if all(others):
                self._candidates |= bit
        return bool(self._candidates & bit)
