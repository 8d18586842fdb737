"""Rollback discipline: what a host tells its application about a message makes sense.

A message is delivered a second time only after the first delivery was taken back. Only a message that is delivered and not committed is
taken back. Only a delivered message is committed, and once. A host that lost its storage starts anew with all messages.
"""

from typing import Final

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, Witness, kept, name, violated
from analysis.judging.history import Delivery, History, MessageId
from hostagent.contract.promises import Promise

Event = tuple[str, Delivery]
"""An event of the log about a message: `deliver`, `commit` or `take-back`."""
_DOES: Final = {"deliver": "delivered", "commit": "committed", "take-back": "took back"}
_HAD: Final = {"deliver": "delivered", "commit": "committed", "take-back": "taken back"}
_ALLOWED: Final = {"deliver": ("", "take-back"), "commit": ("deliver",), "take-back": ("deliver",)}
"""For each event, what the last event about the message must have been; empty for none."""


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Follow every message at every host. A case is a commit, a take-back or a second delivery."""
    since_delivery: dict[tuple[str, int, MessageId], tuple[Event, ...]] = {}
    cases = 0
    for event in _in_log_order(history):
        what, one = event
        key = one.host, connectivity.life(one.host, one.at_ns), one.message
        before = since_delivery.get(key, ())
        last = before[-1][0] if before else ""
        cases += bool(before) or what != "deliver"
        # In a damaged history nothing follows from an absence.
        if last not in _ALLOWED[what] and (before or not history.damage):
            shown = (Witness(mark.at_ns, mark.host, its, *mark.message) for its, mark in (*before, event))
            return violated(cases, _sentence(event, before, Clock(history)), *shown)
        since_delivery[key] = (event,) if what == "deliver" else (*before, event)
    return kept(history, cases, "nothing was committed, taken back or delivered again")


def _in_log_order(history: History) -> list[Event]:
    """All events about messages, those of each host in the order of its log."""
    by_event = {"deliver": history.deliveries, "commit": history.commits, "take-back": history.taken_back}
    return sorted(((event, one) for event, marked in by_event.items() for one in marked), key=lambda item: item[1].place)


def _sentence(event: Event, before: tuple[Event, ...], time: Clock) -> str:
    what, one = event
    if not before:
        return f"{one.host} {_DOES[what]} {name(one.message)} at {time(one.at_ns)}, but had not delivered the message"
    last, earlier = before[-1]
    again = " again" if what == last else ""
    why = f"but had {_HAD[last]} the message at {time(earlier.at_ns)}"
    return f"{one.host} {_DOES[what]} {name(one.message)}{again} at {time(one.at_ns)}, {why}"
