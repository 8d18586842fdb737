"""Same position: where deliveries carry an ordinal, the number of a message in the order of its group, all hosts mean the same by it.

At all hosts, also those that crash later, one ordinal of a group belongs to one message and one message has one ordinal, and every host
delivers the messages of a group with rising ordinals. What stands at each host counts: a message that was taken back may get another
ordinal.
"""

from collections.abc import Hashable, Iterator

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, name, violated
from analysis.judging.history import Delivery, History
from analysis.judging.properties.order.logs import Log, by_group, groups, standing
from hostagent.contract.promises import Promise

Broken = tuple[str, Delivery, Delivery]
"""What is wrong with two deliveries."""


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare every delivery with an ordinal with the first of the same ordinal, the first of the same message and the one before it.

    A case is a delivery whose ordinal another host used too, or that comes after another one at its host.
    """
    numbered = [[one for one in log if one.ordinal] for log in standing(history, connectivity)]
    cases, found = 0, list[Broken]()
    for of_group in by_group(numbered, groups(history)).values():
        found += _in_group(of_group)
        deliveries = sum(map(len, of_group))
        positions = len({one.ordinal for log in of_group for one in log})
        cases += (deliveries - positions) + (deliveries - len(of_group))
    if not found:
        return kept(history, cases, "no two deliveries of one group carried ordinals")
    wrong, one, two = min(found, key=lambda broken: max(broken[1].at_ns, broken[2].at_ns))
    time = Clock(history)
    sentence = f"{_told(one, time)}, but {_told(two, time)}: {wrong}"
    return violated(max(cases, 1), sentence, one, two)


def _told(one: Delivery, time: Clock) -> str:
    return f"{one.host} delivered {name(one.message)} as number {one.ordinal} at {time(one.at_ns)}"


def _in_group(of_group: list[Log]) -> Iterator[Broken]:
    first: dict[Hashable, Delivery] = {}
    for log in of_group:
        before = None
        for one in log:
            same_ordinal, same_message = first.setdefault(one.ordinal, one), first.setdefault(one.message, one)
            if same_ordinal.message != one.message:
                yield "one number, two messages", same_ordinal, one
            elif same_message.ordinal != one.ordinal:
                yield "one message, two numbers", same_message, one
            elif before is not None and one.ordinal < before.ordinal:
                yield "the numbers fall", before, one
            before = one
