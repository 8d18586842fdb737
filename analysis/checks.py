"""Does the history keep what the protocol promises? Each check is a pure function from a history to a finding.

A check that fails names the first violation in time, as the shortest history that shows it: one message and one host.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from analysis.history import History

# How long after a broadcast a run must go on before a missing delivery counts as never. "Eventually" has no deadline, so this must be
# well above the longest wait of any protocol before it tries again, which is 4 s.
PATIENCE_NS: Final = 10_000_000_000


class Verdict(enum.StrEnum):
    """What a run says of a promise."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


class Finding(msgspec.Struct, frozen=True):
    """A verdict and the reason for it; nothing more needs saying when it holds."""

    verdict: Verdict
    reason: str = ""


HOLDS: Final = Finding(Verdict.HOLDS)


def no_creation(history: History) -> Finding:
    """A delivered message was broadcast before, by its origin."""
    broadcast_at = {broadcast.message: broadcast.at_ns for broadcast in reversed(history.broadcasts)}
    for delivery in history.deliveries:
        what, began = f"{delivery.host} delivered {_name(delivery.message)}", broadcast_at.get(delivery.message)
        if began is None and not history.damage:
            return _violated(f"{what}, which {delivery.origin} never broadcast")
        if began is not None and delivery.at_ns < began:
            return _violated(f"{what} {(began - delivery.at_ns) / 1e6:.3f} ms before {delivery.origin} broadcast it")
    return _holds_unless_damaged(history)


def no_duplication(history: History) -> Finding:
    """No host delivers a message twice."""
    first_ns: dict[tuple[str, str, int], int] = {}
    for delivery in history.deliveries:
        key = (delivery.host, *delivery.message)
        if key in first_ns:
            later_ms = (delivery.at_ns - first_ns[key]) / 1e6
            return _violated(
                f"{delivery.host} delivered {_name(delivery.message)} twice, the second time {later_ms:.3f} ms later"
            )
        first_ns[key] = delivery.at_ns
    return _holds_unless_damaged(history)


def validity(history: History) -> Finding:
    """Every host delivers every message that is broadcast."""
    delivered = {(delivery.host, *delivery.message) for delivery in history.deliveries}
    if history.damage:
        return Finding(Verdict.UNKNOWN, history.damage[0])
    for broadcast in history.broadcasts:
        for host in history.hosts:
            if (host, *broadcast.message) not in delivered:
                return _missing(host, broadcast.message, history.ended_ns - broadcast.at_ns)
    return HOLDS


def _missing(host: str, message: tuple[str, int], waited_ns: int) -> Finding:
    waited = f"{host} had not delivered {_name(message)} {waited_ns / 1e9:.1f} s after it was broadcast, when the run ended"
    if waited_ns < PATIENCE_NS:
        return Finding(Verdict.UNKNOWN, f"{waited}: too soon to say never")
    return _violated(waited)


CHECKS: Final[Mapping[str, Callable[[History], Finding]]] = {
    "no creation": no_creation,
    "no duplication": no_duplication,
    "validity": validity,
}
"""The check for each guarantee that a protocol can declare."""


def check(history: History, guarantees: Iterable[str]) -> dict[str, Finding]:
    """Hold a run against what its protocol declares, and nothing else."""
    if not history.broadcasts and not history.deliveries:
        return dict.fromkeys(guarantees, Finding(Verdict.UNKNOWN, "no message was broadcast"))
    return {guarantee: CHECKS.get(guarantee, _no_check)(history) for guarantee in guarantees}


def conclude(findings: Mapping[str, Finding], doubts: Iterable[str]) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict on a run: violated if any promise is; unknown if any is, or if there is doubt about what was measured."""
    violated = tuple(finding.reason for finding in findings.values() if finding.verdict is Verdict.VIOLATED)
    if violated:
        return Verdict.VIOLATED, violated
    unknown = (*(finding.reason for finding in findings.values() if finding.verdict is Verdict.UNKNOWN), *doubts)
    return (Verdict.UNKNOWN, tuple(dict.fromkeys(unknown))) if unknown else (Verdict.HOLDS, ())


def _violated(reason: str) -> Finding:
    return Finding(Verdict.VIOLATED, reason)


def _holds_unless_damaged(history: History) -> Finding:
    return Finding(Verdict.UNKNOWN, history.damage[0]) if history.damage else HOLDS


def _no_check(_: History) -> Finding:
    return Finding(Verdict.UNKNOWN, "there is no check for one of the promises")


def _name(message: tuple[str, int]) -> str:
    origin, sequence = message
    return f"message {sequence} of {origin}"
