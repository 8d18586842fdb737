"""Cluster tree: where there is news and no trouble for long enough, the parents that the hosts choose form a tree of clusters.

First paper, section 4.1. "Long enough" is the protocol's patience after a broadcast that comes after the last fault, with all hosts up and
connected. A host that is level with all others has no reason to attach to anybody, so a source that did not broadcast since then is asked
for nothing, and neither is one in a run that ends sooner. `analysis.judging.parents` says what a tree of clusters is.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import HOLDS, Clock, Finding, Verdict, nothing_to_judge, unknown, violated
from analysis.judging.history import BroadcastEvent, History
from analysis.judging.parents import Problem, parents_at, problems
from hostagent.contract.promises import Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Look at the tree of each source at the end of the run."""
    nothing = nothing_to_judge(history)
    if nothing or history.damage:
        return nothing or unknown(history.damage[0])
    if not connectivity.is_whole:
        return _not_asked("at the end a host was down or cut off")
    news = _news(history, connectivity)
    if not news:
        return _not_asked("nobody broadcast after the last fault")
    patience_ns = connectivity.patience_ns(promise)
    due = [broadcast for broadcast in news if broadcast.at_ns + patience_ns <= history.ended_ns]
    for broadcast in due:
        parents = parents_at(history.parents, broadcast.origin, history.ended_ns)
        for problem in problems(parents, connectivity.clusters, broadcast.origin):
            return _violated(problem, broadcast, history)
    if not due:
        return _not_asked(f"the run ended before the tree had to stand, at {Clock(history)(news[0].at_ns + patience_ns)}")
    return HOLDS


def _not_asked(why: str) -> Finding:
    return Finding(Verdict.HOLDS, f"nothing was asked of it: {why}")


def _news(history: History, connectivity: Connectivity) -> list[BroadcastEvent]:
    """The first broadcast of each source after the last fault."""
    quiet_ns = connectivity.last_fault_ns or 0
    first: dict[str, BroadcastEvent] = {}
    for broadcast in history.broadcasts:
        if broadcast.at_ns >= quiet_ns:
            first.setdefault(broadcast.origin, broadcast)
    return list(first.values())


def _violated(problem: Problem, broadcast: BroadcastEvent, history: History) -> Finding:
    time = Clock(history)
    latest = {
        change.host: change for change in history.parents if change.source == broadcast.origin and change.host in problem.hosts
    }
    sentence = (
        f"{problem.sentence}, in the tree of {broadcast.origin} when the run ended at {time(history.ended_ns)}, "
        f"though there was news at {time(broadcast.at_ns)} and no fault since"
    )
    return violated(sentence, broadcast, *list(latest.values())[:3])
