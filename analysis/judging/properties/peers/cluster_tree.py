"""Cluster tree: after news, and long enough without trouble, the parents that the hosts choose form a tree of clusters.

First paper, section 4.1. "Long enough" is the protocol's patience after a broadcast that comes after the last fault, with all hosts up and
connected. A host that is level with all others has no reason to attach to anybody. So the tree of a source that did not broadcast after the
last fault is not tested, nor is any tree if the run ends sooner. `analysis.judging.parents` says what a tree of clusters is.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, cannot_judge, kept, not_tested, violated
from analysis.judging.history import BroadcastEvent, History
from analysis.judging.parents import Problem, parents_at, problems
from hostagent.contract.promises import Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Look at the tree of each source at the end of the run. A case is a source whose tree must stand by then."""
    if stop := cannot_judge(history):
        return stop
    if not connectivity.is_whole:
        return not_tested("at the end a host was down or cut off")
    news = _news(history, connectivity)
    if not news:
        return not_tested("nobody broadcast after the last fault")
    patience_ns = connectivity.patience_ns(promise)
    due = [broadcast for broadcast in news if broadcast.at_ns + patience_ns <= history.ended_ns]
    for number, broadcast in enumerate(due, start=1):
        parents = parents_at(history.parents, broadcast.origin, history.ended_ns)
        for problem in problems(parents, connectivity.clusters, broadcast.origin):
            return _violated(number, problem, broadcast, history)
    stands_by = Clock(history)(news[0].at_ns + patience_ns)
    return kept(history, len(due), f"the run ended before the tree had to stand, at {stands_by}")


def _news(history: History, connectivity: Connectivity) -> list[BroadcastEvent]:
    """The first broadcast of each source after the last fault."""
    quiet_ns = connectivity.last_fault_ns or 0
    first: dict[str, BroadcastEvent] = {}
    for broadcast in history.broadcasts:
        if broadcast.at_ns >= quiet_ns:
            first.setdefault(broadcast.origin, broadcast)
    return list(first.values())


def _violated(cases: int, problem: Problem, broadcast: BroadcastEvent, history: History) -> Finding:
    time = Clock(history)
    latest = {
        change.host: change for change in history.parents if change.source == broadcast.origin and change.host in problem.hosts
    }
    sentence = (
        f"{problem.sentence}, in the tree of {broadcast.origin} when the run ended at {time(history.ended_ns)}, "
        f"though there was news at {time(broadcast.at_ns)} and no fault since"
    )
    return violated(cases, sentence, broadcast, *list(latest.values())[:3])
