"""One global order: all messages can be numbered so that every host delivers in the order of the numbers.

The third paper's multiple-group order only forbids that two hosts disagree about two messages that both deliver. With a b at one host, b c
at another and c a at a third no two hosts disagree, and yet there is no order that all follow. Here that is a violation. What stands at the
end counts, at all hosts, also hosts that crash later.

The counterexample is the shortest circle of such statements ("this host delivered a before b"). Two hosts that disagree are a circle of
two. If there are none, the shortest circle through a message is found by breadth-first search: one step leads from a message to all later
messages of a log, so each search looks at each place of each log once.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, name, violated
from analysis.judging.history import Delivery, History, MessageId
from analysis.judging.properties.order.disagreement import contradiction, on_cycles
from analysis.judging.properties.order.failures import Failures
from analysis.judging.properties.order.logs import Log, standing
from hostagent.contract.promises import Order, Promise, Scope, Strength

MOST_STEPS: Final = 2_000_000
"""How many deliveries are looked at, after a circle was found, to find a shorter one: about a second."""
_EVERY_HOST: Final = Order(Scope.MULTIPLE_GROUP, Strength.STRICT)


class Statement(NamedTuple):
    """One host delivered one message before another."""

    earlier: Delivery
    later: Delivery


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Look for a circle. A case is a host that delivered two messages which other hosts delivered too."""
    all_logs = standing(history, connectivity)
    cases = _cases(all_logs)
    circle = _circle(all_logs, Failures(_EVERY_HOST, history, connectivity, 0))
    if not circle:
        return kept(history, cases, "no host delivered two messages that others delivered too")
    time = Clock(history)
    told = [
        f"{earlier.host} delivered {name(earlier.message)} at {time(earlier.at_ns)} before {name(later.message)} at {time(later.at_ns)}"
        for earlier, later in circle
    ]
    sentence = f"{', '.join(told[:-1])} and {told[-1]}: a circle, which fits no order"
    return violated(cases, sentence, *(delivery for statement in circle for delivery in statement))


def _cases(all_logs: Sequence[Log]) -> int:
    times: dict[MessageId, int] = {}
    for log in all_logs:
        for one in log:
            times[one.message] = times.get(one.message, 0) + 1
    return sum(sum(times[one.message] > 1 for one in log) > 1 for log in all_logs)


def _circle(all_logs: Sequence[Log], failures: Failures) -> list[Statement]:
    """The shortest circle; nothing if there is none."""
    if found := contradiction(all_logs, failures):
        return [Statement(found.first, found.second), Statement(found.other_second, found.other_first)]
    disputed = on_cycles([one.message for one in log] for log in all_logs)
    if not disputed:
        return []
    rests = [rest for log in all_logs if len(rest := [one for one in log if one.message in disputed]) > 1]
    return _shortest(rests)


def _shortest(rests: Sequence[Log]) -> list[Statement]:
    """The shortest circle of three statements or more, as no two logs contradict each other."""
    search, best = _Search(rests), list[Statement]()
    for start in search.places:
        if len(best) == 3 or (best and search.steps > MOST_STEPS):
            break
        circle = search.circle(start, len(best))
        best = circle or best
    return best


class _Search:
    """Searches for circles in the same logs."""

    def __init__(self, rests: Sequence[Log]) -> None:
        self._logs = rests
        self.places: dict[MessageId, list[tuple[int, int]]] = {}
        """For each message its logs and its place in them."""
        for number, log in enumerate(rests):
            for place, one in enumerate(log):
                self.places.setdefault(one.message, []).append((number, place))
        self.steps = 0

    def circle(self, start: MessageId, shorter_than: int) -> list[Statement]:
        """The shortest circle through a message, if there is one and it is shorter than the one that is known; 0 for none."""
        came_by: dict[MessageId, Statement] = {}
        # Only places before `end` of a log are new.
        end = [len(log) for log in self._logs]
        level, length = [start], 0
        while level and (not shorter_than or length + 1 < shorter_than):
            length += 1
            following = []
            for statement in self._from(level, end):
                message = statement.later.message
                if message not in came_by:
                    came_by[message] = statement
                    following.append(message)
            if start in came_by:
                return self._back(start, came_by)
            level = following
        return []

    def _from(self, level: Sequence[MessageId], end: list[int]) -> Iterator[Statement]:
        """From each of these messages to the later ones of its logs."""
        for message in level:
            for number, place in self.places[message]:
                log = self._logs[number]
                for later in range(place + 1, end[number]):
                    self.steps += 1
                    yield Statement(log[place], log[later])
                end[number] = min(end[number], place + 1)

    @staticmethod
    def _back(start: MessageId, came_by: dict[MessageId, Statement]) -> list[Statement]:
        circle = [came_by[start]]
        while circle[-1].earlier.message != start:
            circle.append(came_by[circle[-1].earlier.message])
        return circle[::-1]
