"""Causal order: a host that delivers two messages, one of which may have caused the other, delivers the cause first.

One message may have caused another if it "happened before" it (Lamport): its own origin broadcast it, or the origin of the other message
had delivered it, before the other was broadcast; and so on, transitively. The log of a host says what was earlier at that host. The
property is about what is delivered: a cause that is never delivered is a matter of validity. A message may be the cause of one to another
group. An order of commits, too, goes by what hosts had delivered when they broadcast. `failures` says which hosts and deliveries count for
each strength; the papers know a causal order without failures only.

All earlier messages of an origin happened before its later ones. So the past of a message is one number for each origin, that of its last
message in the past, and a log is checked in one pass: a delivery comes too late if it is in the past of a message delivered before.
"""

from collections import defaultdict
from typing import Any

import numpy as np

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, name, witness
from analysis.judging.history import BroadcastEvent, Delivery, History, MessageId
from analysis.judging.properties.order.failures import Counterexample, Failures, judge_order
from analysis.judging.properties.order.logs import VERB, Log, logs, shown
from hostagent.contract.promises import Order, Promise

Past = Any
"""For each origin, the number of its last message that happened before."""


def check(order: Order, history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Find the past of every message, then look in every log for a cause that comes after its effect.

    A case is a delivery at a host that delivers, sooner or later, another message from its past.
    """
    column = {origin: number for number, origin in enumerate(dict.fromkeys(b.origin for b in history.broadcasts))}
    past = _pasts(history, connectivity, column)
    all_logs = [[one for one in log if one.message in past] for log in logs(order, history, promise, connectivity)]

    def look(failures: Failures) -> tuple[int, Counterexample | None]:
        cases = sum(_effects(log, past, column, failures) for log in all_logs)
        pairs = filter(None, (_inversion(log, past, column, failures) for log in all_logs))
        found = min(pairs, key=lambda pair: pair[1].at_ns, default=None)
        return cases, found and _tell(order, history, *found)

    none = f"no host {VERB[order.of]} a message and one that may have caused it"
    return judge_order(order, history, promise, connectivity, look, none)


def _effects(log: Log, past: dict[MessageId, Past], column: dict[str, int], failures: Failures) -> int:
    """How many messages of a log have in their past another one of it: the lowest of its origin there, or a later one."""
    causes = [one for one in log if not failures.is_lost_to_all(one)]
    if not causes:
        return 0
    lowest = np.full(len(column), np.iinfo(np.int64).max)
    np.minimum.at(lowest, [column[one.origin] for one in causes], [one.sequence for one in causes])
    return int(np.any([past[one.message] for one in log] >= lowest, axis=1).sum())


def _pasts(history: History, connectivity: Connectivity, column: dict[str, int]) -> dict[MessageId, Past]:
    """The past of every message that was broadcast."""
    known: dict[tuple[str, int], Past] = {}
    past: dict[MessageId, Past] = {}
    for event in _in_log_order(history):
        if isinstance(event, Delivery) and event.message not in past:
            continue  # A message that nobody broadcast has no past.
        knows = known.setdefault((_host(event), connectivity.life(_host(event), event.at_ns)), np.zeros(len(column), np.int64))
        if isinstance(event, BroadcastEvent):
            past.setdefault(event.message, knows.copy())
        else:
            np.maximum(knows, past[event.message], out=knows)
        knows[column[event.origin]] = max(knows[column[event.origin]], event.sequence)
    return past


def _in_log_order(history: History) -> list[BroadcastEvent | Delivery]:
    """Broadcasts and deliveries: in log order for one host, by time between hosts, and at one instant broadcasts first.

    Deliveries after the last broadcast of a host cannot have caused anything, and are left out.
    """
    by_host: dict[str, list[BroadcastEvent | Delivery]] = defaultdict(list)
    for broadcast in history.broadcasts:
        by_host[broadcast.origin].append(broadcast)
    for delivery in history.deliveries:
        by_host[delivery.host].append(delivery)
    placed: list[tuple[int, int, BroadcastEvent | Delivery]] = []
    for log in by_host.values():
        log.sort(key=lambda event: event.place)
        while log and isinstance(log[-1], Delivery):
            log.pop()
        latest_ns, rank = -1, 0
        for event in log:
            if event.at_ns > latest_ns:
                latest_ns, rank = event.at_ns, 0
            # Even ranks are broadcasts, odd ones deliveries.
            rank += rank % 2 != isinstance(event, Delivery)
            placed.append((latest_ns, rank, event))
    return [event for _, _, event in sorted(placed, key=lambda one: one[:2])]


def _host(event: BroadcastEvent | Delivery) -> str:
    return event.host if isinstance(event, Delivery) else event.origin


def _inversion(
    log: Log, past: dict[MessageId, Past], column: dict[str, int], failures: Failures
) -> tuple[Delivery, Delivery] | None:
    """An effect and its cause, delivered in this order."""
    needed = np.zeros(len(column), np.int64)
    for cause in log:
        number = column[cause.origin]
        if needed[number] >= cause.sequence and not failures.is_lost_to_all(cause):
            return next((effect, cause) for effect in log if past[effect.message][number] >= cause.sequence)
        np.maximum(needed, past[cause.message], out=needed)
    return None


def _tell(order: Order, history: History, effect: Delivery, cause: Delivery) -> Counterexample:
    time, verb = Clock(history), VERB[order.of]
    caused = next(b for b in history.broadcasts if b.message == effect.message)
    learnt = _how(history, caused, cause.message)
    how = "broadcast" if isinstance(learnt, BroadcastEvent) else "delivered"
    sentence = (
        f"{cause.host} {verb} {name(effect.message)} at {time(effect.at_ns)} before {name(cause.message)} at {time(cause.at_ns)}, "
        f"which {_host(learnt)} had {how} at {time(learnt.at_ns)}, before {effect.origin} broadcast the other at {time(caused.at_ns)}"
    )
    return sentence, [witness(learnt), *shown(order, effect, cause)]


def _how(history: History, caused: BroadcastEvent, cause: MessageId) -> BroadcastEvent | Delivery:
    """Why the cause came before the effect: the delivery at the origin of the effect or, without one, the broadcast of the cause."""
    for delivery in history.deliveries:
        if delivery.message == cause and delivery.host == caused.origin and delivery.place < caused.place:
            return delivery
    return next(broadcast for broadcast in history.broadcasts if broadcast.message == cause)
