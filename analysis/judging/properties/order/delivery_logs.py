"""The order of deliveries, host by host, and whether two hosts disagree about it.

Comparing every two hosts would take the square of their number. So first every "delivered right before" of all hosts becomes an edge of
one graph. If the graph has no cycle, there is one order that all hosts follow, and no two can disagree. This takes linear time, and for a
run that keeps its promise it is all. If there is a cycle, hosts can disagree only about messages on cycles. All other messages are left
out, hosts with the same log are treated as one, and the rest is compared two by two until the first disagreement. (There may be none: with
a b at one host, b c at another, c a at a third, no two hosts deliver the same two messages. The third paper's definitions allow that.)
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, pairwise
from typing import NamedTuple

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, name, violated
from analysis.judging.history import Delivery, History, MessageId

Log = list[Delivery]
"""What one host delivered, each message once, in order."""
Edges = dict[MessageId, set[MessageId]]


class Contradiction(NamedTuple):
    """One host delivered `first` before `second`; another delivered the same messages the other way round."""

    first: Delivery
    second: Delivery
    other_second: Delivery
    other_first: Delivery


def logs(history: History, connectivity: Connectivity) -> list[Log]:
    """The log of every host, in the order of hosts, without repeated deliveries; a host that lost its storage has one log per life."""
    of_life: dict[tuple[str, int], dict[MessageId, Delivery]] = {(host, 0): {} for host in history.hosts}
    for delivery in history.deliveries:
        life = delivery.host, connectivity.life(delivery.host, delivery.at_ns)
        of_life.setdefault(life, {}).setdefault(delivery.message, delivery)
    return [list(log.values()) for log in of_life.values() if log]


def groups(history: History) -> dict[MessageId, int]:
    """The group of every message, from its broadcast or, if the message was never broadcast, from its first delivery."""
    told = {broadcast.message: broadcast.group for broadcast in reversed(history.broadcasts)}
    return {delivery.message: delivery.group for delivery in reversed(history.deliveries)} | told


def contradiction(all_logs: Sequence[Log]) -> Contradiction | None:
    """Two messages that two hosts delivered in different orders, if there are any."""
    different = _distinct(all_logs)
    disputed = _on_cycles(different)
    if not disputed:
        return None
    rests = [[delivery for delivery in log if delivery.message in disputed] for log in different.values()]
    return next(_disagreements(_distinct(rests).values()), None)


def comparable(all_logs: Sequence[Log]) -> int:
    """How many pairs of logs have two messages in common, so that they could disagree."""
    logs_with = Counter(frozenset(delivery.message for delivery in log) for log in all_logs)
    alike = sum(math.comb(times, 2) for messages, times in logs_with.items() if len(messages) >= 2)
    return alike + sum(logs_with[one] * logs_with[other] for one, other in combinations(logs_with, 2) if _share_two(one, other))


def _share_two(one: frozenset[MessageId], other: frozenset[MessageId]) -> bool:
    """Whether two logs have at least two messages in common. Mostly the first two messages already are."""
    return len(list(islice((message for message in one if message in other), 2))) == 2


def _distinct(all_logs: Iterable[Log]) -> dict[tuple[MessageId, ...], Log]:
    """The distinct sequences of messages, each with the log of the first host that has it."""
    found: dict[tuple[MessageId, ...], Log] = {}
    for log in all_logs:
        found.setdefault(tuple(delivery.message for delivery in log), log)
    return found


def _on_cycles(sequences: Iterable[Sequence[MessageId]]) -> set[MessageId]:
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


def _disagreements(remaining: Iterable[Log]) -> Iterator[Contradiction]:
    for one, other in combinations(remaining, 2):
        place = {delivery.message: number for number, delivery in enumerate(one)}
        common = [delivery for delivery in other if delivery.message in place]
        for earlier, later in pairwise(common):
            if place[later.message] < place[earlier.message]:
                yield Contradiction(one[place[later.message]], one[place[earlier.message]], earlier, later)


def tell(history: History, found: Contradiction, cases: int) -> Finding:
    """A contradiction as a finding."""
    time, (first, second, other_second, other_first) = Clock(history), found
    sentence = (
        f"{first.host} delivered {name(first.message)} at {time(first.at_ns)} before {name(second.message)} at {time(second.at_ns)}, "
        f"but {other_first.host} delivered the second at {time(other_second.at_ns)} before the first at {time(other_first.at_ns)}"
    )
    return violated(cases, sentence, first, second, other_second, other_first)
