"""A failing case made small: fewer faults, fewer messages, simpler links, as long as the same promise is broken."""

from collections.abc import Iterator

import msgspec

from analysis.judging.judge import Judgement
from hostagent.runtime.failures import CoreFailed
from scenarios import ScenarioError
from simulator.cases import Case, run

# Simulations to try before shrinking ends.
MOST_TRIES = 400


def broken(judgement: Judgement) -> frozenset[str]:
    """The promises that a run broke."""
    return frozenset(promise for promise, finding in judgement.findings.items() if finding.verdict == "violated")


def shrink(case: Case) -> Case:
    """The smallest case found that breaks one of the promises that this case breaks."""
    wanted = broken(run(case).judgement)
    tries = MOST_TRIES
    shrinking = True
    while shrinking:
        shrinking = False
        for candidate in _smaller(case):
            tries -= 1
            if tries < 0:
                return case
            if _breaks(candidate, wanted):
                case, shrinking = candidate, True
                break
    return case


def _breaks(case: Case, promises: frozenset[str]) -> bool:
    """Whether a case breaks one of the promises. A case that makes no sense, such as a leave without the join before it, does not.

    Nor does one in which the protocol raises an exception.
    """
    try:
        return bool(broken(run(case).judgement) & promises)
    except (ScenarioError, CoreFailed):
        return False


def _smaller(case: Case) -> Iterator[Case]:
    """Cases that are one step smaller, largest steps first."""
    yield from _with_fewer_faults(case)
    for host in case.dead:
        yield msgspec.structs.replace(case, dead=tuple(other for other in case.dead if other != host))
    if case.cut_off:
        yield msgspec.structs.replace(case, cut_off=())
    for messages in dict.fromkeys((1, case.messages // 2, case.messages - 1)):
        if 1 <= messages < case.messages:
            yield msgspec.structs.replace(case, messages=messages)
    if len(case.sources) > 1:
        yield from (msgspec.structs.replace(case, sources=(source,)) for source in case.sources)
    for groups in ((), *((group,) for group in case.groups)):
        if len(groups) < len(case.groups):
            yield msgspec.structs.replace(case, groups=groups)
    if case.pack_ms:
        yield msgspec.structs.replace(case, pack_ms=0.0)
    if case.medium == "multicast":
        yield msgspec.structs.replace(case, medium="unicast")
    yield from (msgspec.structs.replace(case, topology=topology) for topology in _simpler(case.topology))


def _with_fewer_faults(case: Case) -> Iterator[Case]:
    count = len(case.faults)
    size = count
    while size:
        for start in range(0, count, size):
            yield msgspec.structs.replace(case, faults=(*case.faults[:start], *case.faults[start + size :]))
        size //= 2


def _simpler(topology: str) -> Iterator[str]:
    """The topology without one of the impairments of its links."""
    name, _, options = topology.partition(":")
    words = options.split(",")
    for number, word in enumerate(words):
        if word.partition("=")[0] in {"loss", "burst", "duplicate", "reorder", "delay", "bandwidth", "queue"}:
            yield f"{name}:{','.join((*words[:number], *words[number + 1 :]))}"
