"""How good a failure detector was: how long it took to notice crashes, and how often and for how long it was wrong.

A protocol with a detector logs `suspect` and `trust`; the injected faults tell which hosts were really down. A suspicion is wrong if the
suspected host runs and is connected with the host that suspects it. Suspecting a paused or disconnected host is not wrong, since it looks
the same as a crashed one.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median

import msgspec

from analysis.judging.connectivity import Connectivity
from analysis.judging.history import History, SuspicionSpan, suspicion_spans
from analysis.judging.network_state import moment
from runfiles.format import FaultRecord

_NS_PER_MS = 1e6


class Noticed(msgspec.Struct, frozen=True):
    """A crash, and the time until each other host suspected the crashed host. Hosts that suspected it before the crash are left out."""

    host: str
    at_ns: int
    after_ms: dict[str, float]


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run in which some host was suspected."""

    crashes: tuple[Noticed, ...]
    detection_ms_p50: float | None = None
    """The median over all crashes and all hosts that noticed them; None if no crash was noticed."""
    detection_ms_max: float | None = None
    false_suspicions: int
    wrongly_suspected_ms: float
    """The time during which suspicions were wrong, summed over all pairs of hosts."""


def detection(history: History, faults: Iterable[FaultRecord], connectivity: Connectivity) -> Detection | None:
    """Compare the suspicions of a run with its faults; None if no host was ever suspected."""
    spans = list(suspicion_spans(history))
    if not spans:
        return None
    crashes = tuple(_noticed(fault.target, down, spans) for fault, down in _crashes(faults, history.ended_ns))
    times_ms = [after_ms for crash in crashes for after_ms in crash.after_ms.values()]
    wrong_ns = [_wrong_ns(span, connectivity) for span in spans]
    return Detection(
        crashes=crashes,
        detection_ms_p50=median(times_ms) if times_ms else None,
        detection_ms_max=max(times_ms, default=None),
        false_suspicions=sum(_is_wrong(span, connectivity) for span in spans),
        wrongly_suspected_ms=sum(wrong_ns) / _NS_PER_MS,
    )


def _crashes(faults: Iterable[FaultRecord], ended_ns: int) -> Iterator[tuple[FaultRecord, tuple[int, int]]]:
    """Every crash of a running host, and the interval during which the host was down."""
    of_hosts: dict[str, list[FaultRecord]] = {}
    for fault in sorted(faults, key=moment):
        if fault.fault in {"crash", "restart"}:
            of_hosts.setdefault(fault.target, []).append(fault)
    for events in of_hosts.values():
        changes = [events[0], *(after for before, after in pairwise(events) if before.fault != after.fault)]
        ends_ns = [*map(moment, changes[1:]), ended_ns]
        for fault, end_ns in zip(changes, ends_ns, strict=True):
            if fault.fault == "crash":
                yield fault, (moment(fault), end_ns)


def _noticed(host: str, down: tuple[int, int], spans: Iterable[SuspicionSpan]) -> Noticed:
    crashed_ns, back_ns = down
    after_ms: dict[str, float] = {}
    for span in spans:
        if span.suspect == host and crashed_ns <= span.start_ns < back_ns:
            after_ms.setdefault(span.host, (span.start_ns - crashed_ns) / _NS_PER_MS)
    return Noticed(host, crashed_ns, after_ms)


def _is_wrong(span: SuspicionSpan, connectivity: Connectivity) -> bool:
    return any(start_ns <= span.start_ns < end_ns for start_ns, end_ns in connectivity.together(span.host, span.suspect))


def _wrong_ns(span: SuspicionSpan, connectivity: Connectivity) -> int:
    """How long a suspicion was wrong."""
    overlaps = (
        min(end_ns, span.end_ns) - max(start_ns, span.start_ns)
        for start_ns, end_ns in connectivity.together(span.host, span.suspect)
    )
    return sum(max(overlap, 0) for overlap in overlaps)


def described_detection(figures: Detection) -> str:
    """The figures in one line."""
    if figures.detection_ms_p50 is None or figures.detection_ms_max is None:
        noticed = "no crash noticed"
    else:
        noticed = f"crashes noticed in {figures.detection_ms_p50 / 1000:.1f} s, at most {figures.detection_ms_max / 1000:.1f}"
    wrong = f"{figures.false_suspicions} wrong suspicion{'' if figures.false_suspicions == 1 else 's'}"
    return f"{noticed}; {wrong}, {figures.wrongly_suspected_ms / 1000:.1f} s"
