"""Convergence: when the faults have ended, hosts that run and stay connected have delivered the same messages of those that are for them.

The message is due when the protocol's patience has passed since the last fault and since its first delivery at one of these hosts; before
that it is too soon to tell. Where a protocol needs a number of hosts to go on (`promise.quorum`), smaller parts of the network owe nothing.
To a host that starts over after a failure (`promise.starts_over`), what was broadcast before is not due, and what it delivered before that
need not be delivered elsewhere.
"""

from collections import Counter
from collections.abc import Mapping

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, Witness, cannot_judge, kept, name, unknown, violated
from analysis.judging.history import Delivery, History
from analysis.judging.properties.delivery.missing_deliveries import Deliverers, deliverers, started_over
from hostagent.contract.promises import Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare the hosts of each part of the network as it was at the end, one message at a time.

    A case is a message at a host that is connected with another that delivered it.
    """
    if stop := cannot_judge(history):
        return stop
    part_of, time = connectivity.parts_at_end(promise.quorum), Clock(history)
    open_question: Finding | None = None
    delivered, destinations, broadcast_at = deliverers(history), history.destinations, history.broadcast_at
    since = started_over(history, promise)
    paid = sum(_agreeing(has, part_of) for has in delivered.values())
    for message, has in delivered.items():
        for host, source in _lacking(has, destinations.get(message, history.hosts), part_of, since):
            if broadcast_at.get(message, source.at_ns) <= since.get(host, -1):
                continue
            due_ns = max(source.at_ns, connectivity.faults_ended_ns) + connectivity.patience_ns(promise)
            if due_ns <= history.ended_ns:
                return _violated(paid + 1, host, source, due_ns, time)
            missing = f"{host} had not delivered {name(source.message)} when the run ended at {time(history.ended_ns)}"
            open_question = open_question or unknown(f"{missing}: too soon after the last fault or delivery to tell", paid)
    return open_question or kept(history, paid, "no two hosts that were connected at the end were due to have the same message")


def _agreeing(has: Deliverers, part_of: Mapping[str, int]) -> int:
    """The number of hosts that have a message which another host in their part of the network has too."""
    return sum(hosts for hosts in Counter(part_of[host] for host in has if host in part_of).values() if hosts > 1)


def _lacking(
    has: Deliverers, to: tuple[str, ...], part_of: Mapping[str, int], since: Mapping[str, int]
) -> list[tuple[str, Delivery]]:
    """The destinations that lack a message and are connected with a host that has it, each with the delivery at that host.

    What a host delivered before it started over does not count.
    """
    if len(has) == len(to):
        return []
    counting = ((host, delivery) for host, delivery in has.items() if delivery.at_ns > since.get(host, -1))
    source_in = {part_of[host]: delivery for host, delivery in reversed(list(counting)) if host in part_of}
    return [(host, source_in[part_of[host]]) for host in to if host in part_of and host not in has and part_of[host] in source_in]


def _violated(cases: int, host: str, source: Delivery, due_ns: int, time: Clock) -> Finding:
    sentence = (
        f"{host} never delivered {name(source.message)}, which {source.host} delivered at {time(source.at_ns)}, "
        f"though they were connected and without faults until {time(due_ns)} and longer"
    )
    return violated(cases, sentence, source, Witness(due_ns, host, "missing", *source.message))
