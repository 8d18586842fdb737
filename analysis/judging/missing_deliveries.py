"""Deliveries that were due and did not come: what validity and both kinds of agreement have in common."""

from collections.abc import Iterable
from typing import NamedTuple

from analysis.judging.connectivity import Connectivity, Reach
from analysis.judging.findings import HOLDS, Clock, Finding, Witness, name, unknown, violated
from analysis.judging.history import BroadcastEvent, Delivery, History, MessageId

Deliverers = dict[str, Delivery]
"""The hosts that delivered a message, each with its first delivery."""


class Debt(NamedTuple):
    """A message, what makes it due, and the hosts that it could have reached."""

    cause: BroadcastEvent | Delivery
    reach: Reach


def deliverers(history: History) -> dict[MessageId, Deliverers]:
    """Who delivered each message; those that nobody delivered are not there."""
    found: dict[MessageId, Deliverers] = {}
    for delivery in history.deliveries:
        found.setdefault(delivery.message, {}).setdefault(delivery.host, delivery)
    return found


def settle(
    history: History, connectivity: Connectivity, delivered: dict[MessageId, Deliverers], debts: Iterable[Debt]
) -> Finding:
    """Hold correct hosts to what is due: the first debt that was not paid, or else the first that could not be paid in time."""
    open_question: Finding | None = None
    time = Clock(history)
    for cause, reach in debts:
        has = delivered.get(cause.message, {})
        for host in history.hosts:
            if host in has or host not in connectivity.correct:
                continue
            if host in reach.by_ns:
                return _violated(host, cause, reach.by_ns[host], time, connectivity)
            if host in reach.too_soon and open_question is None:
                ended = time(history.ended_ns)
                missing = f"{host} had not delivered {name(cause.message)} when the run ended at {ended}"
                open_question = unknown(f"{missing}: too soon to say never")
    return open_question or HOLDS


def _violated(host: str, cause: BroadcastEvent | Delivery, due_ns: int, time: Clock, connectivity: Connectivity) -> Finding:
    who, did = (cause.host, "delivered") if isinstance(cause, Delivery) else (cause.origin, "broadcast")
    gone = "" if who in connectivity.correct else " before it was gone for good,"
    sentence = (
        f"{host} never delivered {name(cause.message)}, which {who} {did} at {time(cause.at_ns)}{gone} "
        f"and which could have reached it by {time(due_ns)}"
    )
    return violated(sentence, cause, Witness(due_ns, host, "missing", *cause.message))
