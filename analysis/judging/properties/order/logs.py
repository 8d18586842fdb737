"""What each host delivered or committed, in order: the input of the checkers of order.

A host that lost its storage has one log for each life. So has, for an order that holds at hosts that are up, a host that starts over after
each failure: it is a new site (third paper, section 7.3), and what it delivered before was delivered by one that has failed.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable
from typing import Final

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Witness
from analysis.judging.history import Delivery, History, MessageId
from analysis.judging.marks import Life, in_log_order
from hostagent.contract.messages import LISTED
from hostagent.contract.promises import Order, Promise, Step, Strength

Log = list[Delivery]
"""What one host delivered, or committed, each message once, in order."""
VERB: Final = {Step.DELIVERY: "delivered", Step.COMMIT: "committed"}


def steps(order: Order, history: History) -> tuple[Delivery, ...]:
    """The deliveries, or the commits, of a history: what the order is about."""
    return history.commits if order.of is Step.COMMIT else history.deliveries


def logs(order: Order, history: History, promise: Promise, connectivity: Connectivity) -> list[Log]:
    """The log of every host that an order of this strength is about: all that was ever delivered if it is strict, else what stands."""
    if order.strength is Strength.STRICT:
        return _first(steps(order, history), connectivity)
    starts_over = promise.starts_over and order.strength is Strength.OPERATIONAL
    number = _number_of_site(history, connectivity) if starts_over else connectivity.life
    return _last(steps(order, history), history.taken_back if order.of is Step.DELIVERY else (), connectivity, number)


def standing(history: History, connectivity: Connectivity) -> list[Log]:
    """What stands at every host: deliveries that were not taken back; a message that was delivered again counts in its last place."""
    return _last(history.deliveries, history.taken_back, connectivity, connectivity.life)


def _number_of_site(history: History, connectivity: Connectivity) -> Callable[[str, int], int]:
    """Which of the sites that a host has been it is at an instant: how often it has lost its storage or started over."""
    recovered: dict[str, list[int]] = {}
    for recovery in history.recoveries:
        if recovery.complete:
            recovered.setdefault(recovery.host, []).append(recovery.at_ns)
    return lambda host, at_ns: connectivity.life(host, at_ns) + bisect_right(recovered.get(host, []), at_ns)


def _first(marked: tuple[Delivery, ...], connectivity: Connectivity) -> list[Log]:
    of_life: dict[Life, dict[MessageId, Delivery]] = {}
    for one in marked:
        life = one.host, connectivity.life(one.host, one.at_ns)
        of_life.setdefault(life, {}).setdefault(one.message, one)
    return _in_order_of_hosts(of_life, connectivity)


def _last(
    marked: tuple[Delivery, ...],
    taken_back: tuple[Delivery, ...],
    connectivity: Connectivity,
    number: Callable[[str, int], int],
) -> list[Log]:
    """The logs of what stands, one for each host and number that a host has at an instant."""
    of_life: dict[Life, dict[MessageId, Delivery]] = {}
    for one, is_taken_back in in_log_order(marked, taken_back):
        log = of_life.setdefault((one.host, number(one.host, one.at_ns)), {})
        log.pop(one.message, None)
        if not is_taken_back:
            log[one.message] = one
    return _in_order_of_hosts(of_life, connectivity)


def _in_order_of_hosts(of_life: dict[Life, dict[MessageId, Delivery]], connectivity: Connectivity) -> list[Log]:
    place = {host: number for number, host in enumerate(connectivity.hosts)}
    found = sorted(of_life.items(), key=lambda item: (place[item[0][0]], item[0][1]))
    return [list(log.values()) for _, log in found if log]


def groups(history: History) -> dict[MessageId, Hashable]:
    """The group of every message, from its broadcast or, if the message was never broadcast, from its first delivery.

    Messages for hosts that were listed are in one group if they are for the same hosts.
    """
    told: dict[MessageId, Hashable] = {
        one.message: one.to if one.group == LISTED else one.group for one in reversed(history.broadcasts)
    }
    for one in (*history.deliveries, *history.commits):
        if one.message not in told:
            told[one.message] = one.group
    return told


def by_group(all_logs: list[Log], group_of: dict[MessageId, Hashable]) -> dict[Hashable, list[Log]]:
    """For each group, the part of every log that is about messages to the group."""
    found: dict[Hashable, list[Log]] = {}
    for log in all_logs:
        parts: dict[Hashable, Log] = {}
        for one in log:
            parts.setdefault(group_of[one.message], []).append(one)
        for group, part in parts.items():
            found.setdefault(group, []).append(part)
    return found


def shown(order: Order, *marked: Delivery) -> list[Witness]:
    """The events of a counterexample, under the name that they have in the logs."""
    return [Witness(one.at_ns, one.host, order.of.value, *one.message) for one in marked]
