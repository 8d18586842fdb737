"""Failure detection: a host that stays silent is suspected, and a suspicion of a host that is up is taken back.

Second paper: its algorithms assume a perfect failure detector. `hostagent.parts.detector` says which part of that is possible, and that
part is judged here, with the protocol's patience for "eventually". *Completeness*: when a host has been down or paused for the patience, it
is suspected until it is back, by every host that runs all that time. *Accuracy*: no host suspects another for longer than the patience
while both run and are connected. Shorter wrong suspicions are allowed; `analysis.figures.detection` counts them.
"""

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from analysis.judging.connectivity import Connected, Connectivity
from analysis.judging.findings import Clock, Finding, Verdict, Witness, cannot_judge, kept, unknown, violated
from analysis.judging.history import History, SuspicionSpan, suspicion_spans
from hostagent.contract.promises import Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """A case is a suspicion of a host that was up, or a long silence of one host while another ran."""
    if stop := cannot_judge(history):
        return stop
    patience_ns, open_question, cases = connectivity.patience_ns(promise), None, 0
    for finding in (*_suspicions(history, connectivity, patience_ns), *_silences(history, connectivity, patience_ns)):
        if finding.verdict is Verdict.UNKNOWN:
            open_question = open_question or finding
            continue
        cases += 1
        if finding.verdict is Verdict.VIOLATED:
            return msgspec.structs.replace(finding, cases=cases)
    none = f"nobody was suspected wrongly, and nobody was silent for more than {patience_ns / 1e9:g} s"
    return open_question or kept(history, cases, none)


def _suspicions(history: History, connectivity: Connectivity, patience_ns: int) -> Iterator[Finding]:
    """A finding on each suspicion of a host that was up: shorter than the patience, longer, or cut short by the end of the run."""
    time = Clock(history)
    for span in suspicion_spans(history):
        for start_ns, end_ns in connectivity.together(span.host, span.suspect):
            since_ns, until_ns = max(start_ns, span.start_ns), min(end_ns, span.end_ns)
            sentence = f"{span.host} suspected {span.suspect} from {time(since_ns)} to {time(until_ns)}, though both ran and were connected"
            if until_ns - since_ns > patience_ns:
                yield violated(1, sentence, Witness(span.start_ns, span.host, "suspect"))
            elif since_ns < until_ns == history.ended_ns:
                yield unknown(f"{sentence}: too soon to tell")
            elif since_ns < until_ns:
                yield Finding(Verdict.HOLDS)


def _silences(history: History, connectivity: Connectivity, patience_ns: int) -> Iterator[Finding]:
    """Each silence of a host that lasted for longer than the patience while another ran, or until the end of the run."""
    time, spans = Clock(history), defaultdict(list)
    for span in suspicion_spans(history):
        spans[span.host, span.suspect].append(span)
    takes_part = [host for host in history.hosts if host not in connectivity.amnesic]
    silences = [(host, silence) for host in takes_part for silence in connectivity.away(host)]
    watched = (
        (watcher, host, since_ns, until_ns)
        for host, silence in silences
        for watcher in takes_part
        for since_ns, until_ns in _watch(connectivity, watcher, silence)
        if watcher != host
    )
    for watcher, host, since_ns, until_ns in watched:
        due_ns = since_ns + patience_ns
        sentence = f"{watcher} did not suspect {host}, which was silent from {time(since_ns)} to {time(until_ns)}"
        if due_ns < until_ns:
            suspected = _is_suspected(spans[watcher, host], due_ns, until_ns)
            yield Finding(Verdict.HOLDS) if suspected else violated(1, sentence, Witness(due_ns, watcher, "missing"))
        elif until_ns == history.ended_ns and not _is_suspected(spans[watcher, host], until_ns, until_ns):
            yield unknown(f"{sentence}: too soon to tell")


def _is_suspected(spans: list[SuspicionSpan], since_ns: int, until_ns: int) -> bool:
    """Whether the host was suspected all that time."""
    return any(span.start_ns <= since_ns and until_ns <= span.end_ns for span in spans)


def _watch(connectivity: Connectivity, watcher: str, silence: Connected) -> Iterator[Connected]:
    """The parts of a silence in which the watcher ran: a watcher that restarts trusts everybody, and its patience starts again."""
    since_ns, until_ns = silence
    restarts = ((at_ns, at_ns) for at_ns in connectivity.restarts.get(watcher, ()))
    for start_ns, end_ns in sorted([*connectivity.away(watcher), *restarts]):
        if start_ns < until_ns and end_ns > since_ns:
            if start_ns > since_ns:
                yield since_ns, start_ns
            since_ns = end_ns
    if since_ns < until_ns:
        yield since_ns, until_ns
