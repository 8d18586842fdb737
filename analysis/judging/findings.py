"""The result of a checker: a verdict, the reason, and the events that show it."""

import enum
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from analysis.judging.history import (
    BroadcastEvent,
    Delivery,
    History,
    MembershipRequest,
    MessageId,
    ParentChange,
    Sample,
    TokenChange,
    Transit,
    View,
)


class Verdict(enum.StrEnum):
    """What a run says of a promise, or all promises together of a run."""

    HOLDS = "holds"
    """Every case that was judged kept the promise, and there was at least one."""
    VIOLATED = "violated"
    UNKNOWN = "unknown"
    """Something is missing from the history, or was not over when the run ended, so that the promise cannot be judged."""
    NOT_TESTED = "not tested"
    """In this run there was no case in which the promise asks for anything."""


class Witness(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of a counterexample, by its name in the log; `missing` for a mark that was due at that time, `send` for a datagram."""

    at_ns: int
    host: str
    event: str
    origin: str = ""
    sequence: int = 0


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict, the reason as a sentence, and the reason as data: the few events that break the promise.

    Times in sentences are seconds since the first broadcast, as in scenarios.
    """

    verdict: Verdict
    reason: str = ""
    events: tuple[Witness, ...] = ()
    cases: int | None = None
    """How many cases the checker judged, the one that breaks the promise included; None in summaries from before they were counted."""
    bound_ms: float | None = None
    """For a promise with a time bound: the time that is allowed."""
    longest_ms: float | None = None
    """For a promise with a time bound: the longest time that was seen in a case. For *one token*: how long a token lived beside one of a
    later generation, None if none did."""


Shown = BroadcastEvent | Delivery | Sample | ParentChange | View | MembershipRequest | TokenChange | Transit | Witness
"""What can show that a promise is broken."""


_EVENTS: Final[Mapping[type[Shown], str]] = {Sample: "sample", ParentChange: "parent", View: "view", TokenChange: "token"}


def violated(cases: int, reason: str, *events: Shown) -> Finding:
    """A broken promise and the events that show it."""
    return Finding(Verdict.VIOLATED, reason, tuple(map(witness, events)), cases)


def unknown(reason: str, cases: int = 0) -> Finding:
    """A promise that cannot be judged, and why; `cases` is the number of cases that kept the promise."""
    return Finding(Verdict.UNKNOWN, reason, cases=cases)


def not_tested(reason: str) -> Finding:
    """A promise without a case to judge, and why."""
    return Finding(Verdict.NOT_TESTED, reason, cases=0)


def cannot_judge(history: History) -> Finding | None:
    """The finding on a history that is damaged, so that nothing follows from an absence, or in which nothing happened; else None."""
    if history.damage:
        return unknown(history.damage[0])
    return None if history.broadcasts or history.deliveries else not_tested("no message was broadcast")


def without_transits(history: History) -> Finding | None:
    """The finding on a promise about datagrams between hosts, if the history does not have them; else None."""
    if history.transits is not None:
        return None
    return cannot_judge(history) or unknown("the datagrams between hosts are not known: ./castbed analyse reads them")


def kept(history: History, cases: int, none: str) -> Finding:
    """All cases keep the promise; `none` is the reason to give if there are no cases."""
    return cannot_judge(history) or (Finding(Verdict.HOLDS, cases=cases) if cases else not_tested(none))


def witness(event: Shown) -> Witness:
    """An event as it is written to files."""
    match event:
        case BroadcastEvent():
            return Witness(event.at_ns, event.origin, "broadcast", event.origin, event.sequence)
        case Delivery():
            return Witness(event.at_ns, event.host, "deliver", event.origin, event.sequence)
        case Transit():
            return Witness(event.left_ns, event.sender, "send", event.origin, event.sequence)
        case MembershipRequest():
            return Witness(event.at_ns, event.host, "join" if event.joins else "leave")
        case Witness():
            return event
    return Witness(event.at_ns, event.host, _EVENTS[type(event)])


def name(message: MessageId) -> str:
    """A message in words."""
    origin, sequence = message
    return f"message {sequence} of {origin}"


class Clock:
    """Times as people read them: seconds since the first broadcast."""

    def __init__(self, history: History) -> None:
        first = history.broadcasts or history.deliveries or history.samples
        self._start_ns = first[0].at_ns if first else 0

    def __call__(self, at_ns: int) -> str:
        """A time in seconds, to the millisecond."""
        return f"{(at_ns - self._start_ns) / 1e9:.3f} s"


def conclude(findings: Mapping[str, Finding], doubts: Sequence[str]) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict on a run, and the reasons for it.

    Violated if any promise is violated; else unknown if any is unknown, or if there are doubts about what was measured; else *holds* if at
    least one promise was tested; else *not tested*. A counterexample counts whatever the doubts are, but the doubts are reported with it,
    since the network may have caused it.
    """
    reasons: dict[Verdict, list[str]] = {verdict: [] for verdict in Verdict}
    for finding in findings.values():
        reasons[finding.verdict].append(finding.reason)
    reasons[Verdict.UNKNOWN] += doubts
    if reasons[Verdict.VIOLATED]:
        return Verdict.VIOLATED, tuple(dict.fromkeys((*reasons[Verdict.VIOLATED], *doubts)))
    if reasons[Verdict.UNKNOWN]:
        return Verdict.UNKNOWN, tuple(dict.fromkeys(reasons[Verdict.UNKNOWN]))
    if reasons[Verdict.HOLDS]:
        return Verdict.HOLDS, ()
    return Verdict.NOT_TESTED, tuple(dict.fromkeys(reasons[Verdict.NOT_TESTED])) or ("nothing is promised",)
