"""Whether two hosts disagree about the order of messages.

Comparing every two hosts would take the square of their number. So first every "delivered right before" of all hosts becomes an edge of
one graph. If the graph has no cycle, there is one order that all hosts follow, and no two can disagree. This takes linear time, and for a
run that keeps its promise it is all. If there is a cycle, hosts can disagree only about messages on cycles. All other messages are left
out, hosts with the same log are treated as one, and the rest is compared two by two until the first disagreement. (There may be none: with
a b at one host, b c at another, c a at a third, no two hosts deliver the same two messages. The third paper's definitions allow that.)
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, pairwise
from typing import NamedTuple

from analysis.judging.findings import Clock, name
from analysis.judging.history import Delivery, History, MessageId
from analysis.judging.properties.order.failures import Counterexample, Failures
from analysis.judging.properties.order.logs import VERB, Log, shown
from hostagent.contract.promises import Order

Edges = dict[MessageId, set[MessageId]]


class Contradiction(NamedTuple):
    """One host delivered `first` before `second`; another delivered the same messages the other way round."""

    first: Delivery
    second: Delivery
    other_second: Delivery
    other_first: Delivery


def contradiction(all_logs: Sequence[Log], failures: Failures) -> Contradiction | None:
    """Two messages that two hosts delivered in different orders, if there are any and it is not forgiven."""
    different = _distinct(all_logs, failures)
    disputed = on_cycles([one.message for one in log] for log in different)
    if not disputed:
        return None
    rests = [[one for one in log if one.message in disputed] for log in different]
    return next(_disagreements(_distinct(filter(None, rests), failures), failures), None)


def comparable(all_logs: Sequence[Log], failures: Failures) -> int:
    """How many pairs of logs have two messages in common, so that they could disagree and it would not be forgiven."""
    steady = [log for log in all_logs if not failures.crashed(log[0].host)]
    logs_with = Counter(frozenset(one.message for one in log) for log in steady)
    alike = sum(math.comb(times, 2) for messages, times in logs_with.items() if len(messages) >= 2)
    apart = sum(logs_with[one] * logs_with[other] for one, other in combinations(logs_with, 2) if _share_two(one, other))
    return alike + apart + _comparable_with_crashed(all_logs, failures)


def _share_two(one: frozenset[MessageId], other: frozenset[MessageId]) -> bool:
    """Whether two logs have at least two messages in common. Mostly the first two messages already are."""
    return _at_least_two(message for message in one if message in other)


def _at_least_two(found: Iterable[object]) -> bool:
    return len(list(islice(found, 2))) == 2


def _comparable_with_crashed(all_logs: Sequence[Log], failures: Failures) -> int:
    """The pairs in which at least one of the hosts has crashed."""
    pairs = 0
    for number, log in enumerate(all_logs):
        if failures.crashed(log[0].host):
            here = {one.message: one for one in log}
            others = (other for place, other in enumerate(all_logs) if place < number or not failures.crashed(other[0].host))
            pairs += sum(_at_least_two(_in_both(here, other, failures)) for other in others)
    return pairs


def _in_both(here: Mapping[MessageId, Delivery], other: Log, failures: Failures) -> Iterator[Delivery]:
    """The messages of another log that are here too, and that neither host lost in a crash before the other delivered them."""
    for there in other:
        one = here.get(there.message)
        if one is not None and not failures.is_lost(one, there) and not failures.is_lost(there, one):
            yield there


def _distinct(all_logs: Iterable[Log], failures: Failures) -> list[Log]:
    """For each sequence of messages the log of the first host that has it; for hosts of which not the same is forgiven, one each."""
    found: dict[object, Log] = {}
    for log in all_logs:
        found.setdefault((tuple(one.message for one in log), failures.alike(log)), log)
    return list(found.values())


def on_cycles(sequences: Iterable[Sequence[MessageId]]) -> set[MessageId]:
    """The messages that remain when messages without a predecessor and messages without a successor are removed again and again."""
    after, before = defaultdict[MessageId, set[MessageId]](set), defaultdict[MessageId, set[MessageId]](set)
    for sequence in sequences:
        for one, two in pairwise(sequence):
            after[one].add(two)
            before[two].add(one)
    messages = {*after, *before}
    return _peel(messages, after, before) if messages else messages


def _peel(messages: set[MessageId], after: Edges, before: Edges) -> set[MessageId]:
    for forwards, backwards in ((after, before), (before, after)):
        waiting = {message: len(backwards.get(message, ())) for message in messages}
        free = [message for message, count in waiting.items() if not count]
        while free:
            message = free.pop()
            messages.discard(message)
            for following in forwards.get(message, ()):
                if following in waiting:
                    waiting[following] -= 1
                    if not waiting[following]:
                        free.append(following)
    return messages


def _disagreements(remaining: Iterable[Log], failures: Failures) -> Iterator[Contradiction]:
    """For each two logs the first message of the second that comes too late there, with one that came before it.

    In the terms of the paper's R2, host a has the first log and host b the second. A message that b lost in a crash before a delivered it
    may come too late at b, and one that a lost in a crash before b delivered it may come too early at b.
    """
    for one, other in combinations(remaining, 2):
        place = {delivery.message: number for number, delivery in enumerate(one)}
        highest, earlier = -1, None
        for later in other:
            number = place.get(later.message)
            if number is None:
                continue
            if number < highest and earlier is not None and not failures.is_lost(later, one[number]):
                yield Contradiction(one[number], one[highest], earlier, later)
                break
            if number > highest and not failures.is_lost(one[number], later):
                highest, earlier = number, later


def tell(order: Order, history: History, found: Contradiction) -> Counterexample:
    """A contradiction in words."""
    time, verb, (first, second, other_second, other_first) = Clock(history), VERB[order.of], found
    sentence = (
        f"{first.host} {verb} {name(first.message)} at {time(first.at_ns)} before {name(second.message)} at {time(second.at_ns)}, "
        f"but {other_first.host} {verb} the second at {time(other_second.at_ns)} before the first at {time(other_first.at_ns)}"
    )
    return sentence, shown(order, first, second, other_second, other_first)
