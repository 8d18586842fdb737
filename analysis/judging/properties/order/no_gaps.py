"""No gaps: no host delivers a message without having delivered every earlier message of the group that is addressed to it.

Hosts that crash later are held to that too. What stands at each host counts. Which message is earlier is known only from what hosts
delivered: where all deliveries of a group carry ordinals, from the ordinals; elsewhere a message is earlier than another one of its group
if some host delivered it before that one. A message is addressed to the hosts that its origin logged.

A host that lost its storage does not know what it delivered before, so nothing is asked of what it delivers after that.

A group has one reference, its messages by their ordinals, or one for every host, its log. Take from a reference the messages that are
addressed to a host: what the host delivered of them must be the first of them, in this order. So one pass compares a host with a reference.
A log that is the beginning of another says nothing that the other does not. In a run without gaps that leaves few references.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, name, violated
from analysis.judging.history import Delivery, History, MessageId
from analysis.judging.properties.order.logs import Log, by_group, groups, standing
from hostagent.contract.promises import Promise

Addressed = dict[MessageId, tuple[str, ...]]


class Gap(NamedTuple):
    """A host delivered `ahead`, and `missing`, which comes before it, never or only `later`."""

    ahead: Delivery
    missing: Delivery
    """The delivery of the missing message by another host."""
    after: Delivery | None
    """What shows that the missing message comes first, if that is not an ordinal: the same host delivered the other message after it."""
    later: Delivery | None


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare each host with the references of each group.

    A case is a delivery at a host that delivered another message of the group before.
    """
    addressed, cases, found = history.destinations, 0, None
    for of_group in by_group(standing(history, connectivity), groups(history)).values():
        asked = [log for log in of_group if not connectivity.life(log[0].host, log[0].at_ns)]
        cases += sum(len(log) - 1 for log in asked)
        # In a damaged history nothing follows from an absence.
        gaps = (gap for gap in _gaps(of_group, asked, addressed) if gap.later or not history.damage)
        found = found or next(gaps, None)
    if found is None:
        return kept(history, cases, "no host delivered two messages of a group")
    return violated(
        max(cases, 1), _tell(found, Clock(history)), *filter(None, (found.missing, found.after, found.ahead, found.later))
    )


def _gaps(of_group: list[Log], asked: Iterable[Log], addressed: Addressed) -> Iterator[Gap]:
    numbered = all(one.ordinal for log in of_group for one in log)
    references = [_by_ordinal(of_group)] if numbered else _longest(of_group)
    lists = {to for log in of_group for one in log if (to := addressed.get(one.message))}
    done: set[object] = set()
    for log in asked:
        host = log[0].host
        key = tuple(one.message for one in log), *(host in to for to in lists)
        if key not in done:
            done.add(key)
            mine = {one.message for one in log if host in addressed.get(one.message, ())}
            due = ([one for one in reference if host in addressed.get(one.message, ())] for reference in references)
            yield from filter(None, (_gap(log, mine, reference, numbered=numbered) for reference in due))


def _by_ordinal(of_group: list[Log]) -> Log:
    """For each ordinal the first delivery that carries it."""
    first: dict[int, Delivery] = {}
    for log in of_group:
        for one in log:
            first.setdefault(one.ordinal, one)
    return [first[ordinal] for ordinal in sorted(first)]


def _longest(of_group: list[Log]) -> list[Log]:
    """The logs that are not the beginning of another."""
    distinct = {tuple(one.message for one in log): log for log in reversed(of_group)}
    # A sequence and those that begin with it follow each other.
    ordered = sorted(distinct)
    kept_ones = {one for one, following in zip(ordered, [*ordered[1:], ()], strict=True) if following[: len(one)] != one}
    return [log for messages, log in reversed(distinct.items()) if messages in kept_ones]


def _gap(log: Log, mine: set[MessageId], due: Log, *, numbered: bool) -> Gap | None:
    """The first delivery that comes before one that is due earlier."""
    in_due = {one.message: one for one in due}
    delivered = (one for one in log if one.message in mine and one.message in in_due)
    for ahead, missing in zip(delivered, due, strict=False):
        if ahead.message != missing.message:
            later = next((one for one in log if one.message == missing.message), None)
            return Gap(ahead, missing, None if numbered else in_due[ahead.message], later)
    return None


def _tell(gap: Gap, time: Clock) -> str:
    ahead, missing, after, later = gap
    number, its_number = (f" as number {ahead.ordinal}", f" as number {missing.ordinal}") if after is None else ("", "")
    what = f"{ahead.host} delivered {name(ahead.message)}{number} at {time(ahead.at_ns)}"
    how = f"before {name(missing.message)} at {time(later.at_ns)}" if later else f"without {name(missing.message)}"
    known = f"but {missing.host} delivered {name(missing.message)}{its_number} at {time(missing.at_ns)}"
    return f"{what} {how}, {known}" + (f" before {name(after.message)} at {time(after.at_ns)}" if after else "")
