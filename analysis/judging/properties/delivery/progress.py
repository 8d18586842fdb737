"""Progress: when the faults have ended, each message of a host that runs is delivered by all its destinations connected with that host.

It is what validity is for protocols that need more hosts than the two: a sequencer, a token, a majority. Which of them a message needed
while there were faults, nobody can tell; so it is due when the protocol's patience has passed since the broadcast and since the last fault.
A protocol that stops for good keeps convergence, since all its hosts lack the same messages, and breaks this. In a part of the network with
fewer hosts than `promise.quorum` nothing is due. To a host that starts over after a failure (`promise.starts_over`), what was broadcast
before is not due.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, Witness, cannot_judge, kept, name, unknown, violated
from analysis.judging.history import History
from analysis.judging.properties.delivery.missing_deliveries import deliverers, started_over
from hostagent.contract.promises import Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Look at every message of a host that is correct at the end.

    A case is a message at a correct destination, the origin included if it is one, that is connected with the origin at the end.
    """
    if stop := cannot_judge(history):
        return stop
    part_of, time, delivered, paid = connectivity.parts_at_end(promise.quorum), Clock(history), deliverers(history), 0
    open_question: Finding | None = None
    since = started_over(history, promise)
    for broadcast in history.broadcasts:
        if broadcast.origin not in part_of or broadcast.origin not in connectivity.correct:
            continue
        has, due_ns = (
            delivered.get(broadcast.message, {}),
            max(broadcast.at_ns, connectivity.faults_ended_ns) + connectivity.patience_ns(promise),
        )
        for host in broadcast.destinations(history.hosts):
            if host not in connectivity.correct or part_of.get(host) != part_of[broadcast.origin]:
                continue
            if host in has:
                paid += 1
            elif broadcast.at_ns <= since.get(host, -1):
                continue
            elif due_ns <= history.ended_ns:
                sentence = (
                    f"{host} never delivered {name(broadcast.message)}, which {broadcast.origin} broadcast at {time(broadcast.at_ns)}, "
                    f"though they were connected and without faults until {time(due_ns)} and longer"
                )
                return violated(paid + 1, sentence, broadcast, Witness(due_ns, host, "missing", *broadcast.message))
            elif open_question is None:
                missing = f"{host} had not delivered {name(broadcast.message)} when the run ended at {time(history.ended_ns)}"
                open_question = unknown(f"{missing}: too soon after the last fault or the broadcast to tell", paid)
    return open_question or kept(history, paid, "no origin of a message was connected with a destination at the end")
