"""Deliveries that were due and are missing: the common part of validity and both kinds of agreement."""

from collections.abc import Iterable
from typing import NamedTuple

from analysis.judging.connectivity import Connectivity, Reach
from analysis.judging.findings import Clock, Finding, Witness, kept, name, unknown, violated
from analysis.judging.history import BroadcastEvent, Delivery, History, MessageId
from analysis.judging.marks import in_log_order
from hostagent.contract.promises import Promise

Deliverers = dict[str, Delivery]
"""The hosts that delivered a message, each with its first delivery."""


class Debt(NamedTuple):
    """A message, what makes it due, and the hosts that it could have reached."""

    cause: BroadcastEvent | Delivery
    reach: Reach


def deliverers(history: History) -> dict[MessageId, Deliverers]:
    """Who of its destinations delivered each message and has not taken it back, without the messages that nobody delivered."""
    found: dict[MessageId, Deliverers] = {}
    limited = history.limited
    for delivery, is_taken_back in in_log_order(history.deliveries, history.taken_back):
        message = delivery.message
        if is_taken_back:
            found.get(message, {}).pop(delivery.host, None)
        elif message not in limited or delivery.host in limited[message]:
            found.setdefault(message, {}).setdefault(delivery.host, delivery)
    return {message: has for message, has in found.items() if has} if history.taken_back else found


def started_over(history: History, promise: Promise) -> dict[str, int]:
    """When each host that starts over after a failure last did so; nobody does if the protocol promises more."""
    recovered = (recovery for recovery in history.recoveries if recovery.complete)
    return {recovery.host: recovery.at_ns for recovery in recovered} if promise.starts_over else {}


def settle(
    history: History, connectivity: Connectivity, delivered: dict[MessageId, Deliverers], debts: Iterable[Debt], paid: int
) -> Finding:
    """Check that correct hosts delivered what was due. Reports the first missing delivery, or else the first that was not due yet.

    A case is a message at a correct host that it is for: `paid` counts those that were delivered.
    """
    open_question: Finding | None = None
    time, destinations = Clock(history), history.destinations
    for cause, reach in debts:
        has = delivered.get(cause.message, {})
        for host in destinations.get(cause.message, history.hosts):
            if host in has or host not in connectivity.correct:
                continue
            if host in reach.by_ns:
                due_ns = reach.by_ns[host]
                sentence = (
                    f"{host} never delivered {name(cause.message)}, which {_caused(cause, time, connectivity)} "
                    f"and which could have reached it by {time(due_ns)}"
                )
                return violated(paid + 1, sentence, cause, Witness(due_ns, host, "missing", *cause.message))
            if host in reach.too_soon and open_question is None:
                ended = time(history.ended_ns)
                missing = f"{host} had not delivered {name(cause.message)} when the run ended at {ended}"
                open_question = unknown(f"{missing}: too soon to tell", paid)
    return open_question or kept(history, paid, "no host was due to deliver a message of another")


def _caused(cause: BroadcastEvent | Delivery, time: Clock, connectivity: Connectivity) -> str:
    who, did = (cause.host, "delivered") if isinstance(cause, Delivery) else (cause.origin, "broadcast")
    gone = "" if who in connectivity.correct else " before it was gone for good,"
    return f"{who} {did} at {time(cause.at_ns)}{gone}"
