"""Bounded memory: when there is nothing left to do, no host keeps more items than the protocol states."""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, not_tested, unknown, violated
from analysis.judging.history import History
from analysis.judging.properties.load.rest_samples import cannot_judge, rest
from hostagent.contract.messages import EVERYBODY, LISTED
from hostagent.contract.promises import Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Look at every host's last sample. A host is a case."""
    if stop := cannot_judge(history, connectivity):
        return stop
    due_ns, samples = rest(history, promise, connectivity)
    time, open_question, too_short, within = Clock(history), None, None, 0
    stated = promise.retained + promise.retained_per_source * len(history.sources) + promise.retained_per_group * _groups(history)
    for host, taken in samples.items():
        if not taken:
            open_question = unknown(f"{host} was not sampled after the last broadcast or fault")
            continue
        last = taken[-1]
        if last.items > stated:
            sentence = (
                f"{host} kept {last.items} items at {time(last.at_ns)}, with nothing left to do, more than the {stated} stated"
            )
            if last.at_ns >= due_ns:
                return violated(within + 1, sentence, last)
            too_short = not_tested(f"{sentence}, but the run ended before it had to be at rest, at {time(due_ns)}")
        else:
            within += 1
    return open_question or too_short or kept(history, within, "there are no hosts")


def _groups(history: History) -> int:
    """For each host the groups, other than everybody, that it has broadcast to, and its messages to listed hosts, all together."""
    groups = {(broadcast.origin, broadcast.group) for broadcast in history.broadcasts}
    listed = sum(broadcast.group == LISTED for broadcast in history.broadcasts)
    return sum(group not in {EVERYBODY, LISTED} for _, group in groups) + listed
