"""What a checker says: a verdict, why, and the events that show it."""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from analysis.judging.history import BroadcastEvent, Delivery, History, MessageId, ParentChange, Sample
from hostagent.contract.promises import Guarantee


class Verdict(enum.StrEnum):
    """What a run says of a promise."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


class Witness(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of a counterexample: `broadcast`, `deliver`, `sample`, `parent`, or `missing` for a delivery that was due at that time."""

    at_ns: int
    host: str
    event: str
    origin: str = ""
    sequence: int = 0


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict, the reason in a sentence, and the same as data: the few events that break the promise.

    Times in sentences are seconds since the first broadcast, as in scenarios.
    """

    verdict: Verdict
    reason: str = ""
    events: tuple[Witness, ...] = ()


HOLDS: Final = Finding(Verdict.HOLDS)
Shown = BroadcastEvent | Delivery | Sample | ParentChange | Witness
"""What can show that a promise is broken."""


def violated(reason: str, *events: Shown) -> Finding:
    """A broken promise and the events that show it."""
    return Finding(Verdict.VIOLATED, reason, tuple(map(witness, events)))


def unknown(reason: str) -> Finding:
    """Nothing can be said, and why."""
    return Finding(Verdict.UNKNOWN, reason)


def holds_unless_damaged(history: History) -> Finding:
    """No violation was found; whether that means anything."""
    return unknown(history.damage[0]) if history.damage else HOLDS


def nothing_to_judge(history: History) -> Finding | None:
    """A history in which nothing happened says nothing of any promise."""
    if history.broadcasts or history.deliveries:
        return None
    return unknown(history.damage[0] if history.damage else "no message was broadcast")


def witness(event: Shown) -> Witness:
    """An event as it is written to files."""
    match event:
        case BroadcastEvent():
            return Witness(event.at_ns, event.origin, "broadcast", event.origin, event.sequence)
        case Delivery():
            return Witness(event.at_ns, event.host, "deliver", event.origin, event.sequence)
        case Sample():
            return Witness(event.at_ns, event.host, "sample")
        case ParentChange():
            return Witness(event.at_ns, event.host, "parent")
    return event


def name(message: MessageId) -> str:
    """A message as people say it."""
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


def conclude(findings: Mapping[Guarantee, Finding], doubts: Iterable[str]) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict on a run: violated if any promise is; unknown if any is, or if there is doubt about what was measured.

    A counterexample stands, whatever else is in doubt, but the doubts are told with it: it may be the network's doing.
    """
    broken = tuple(finding.reason for finding in findings.values() if finding.verdict is Verdict.VIOLATED)
    if broken:
        return Verdict.VIOLATED, tuple(dict.fromkeys((*broken, *doubts)))
    open_questions = (*(finding.reason for finding in findings.values() if finding.verdict is Verdict.UNKNOWN), *doubts)
    return (Verdict.UNKNOWN, tuple(dict.fromkeys(open_questions))) if open_questions else (Verdict.HOLDS, ())
