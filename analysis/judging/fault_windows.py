"""How long each injected fault lasted, from its start to the fault record that ends it, for plots."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from analysis.judging.network_state import moment
from runfiles.format import LATE, TREE, FaultRecord

_MENDED_BY: Final = {
    "link-down": ("link-up", "heal"),
    "link-change": ("link-change", "heal"),
    "switch-stop": ("switch-start",),
    "controller-stop": ("controller-start",),
    "crash": ("restart",),
    "pause": ("resume", "crash"),
    LATE: ("arrive",),
    "depart": (),
}
"""What ends each fault that lasts. All other faults are over at once."""
_MENDING: Final = frozenset({"link-up", "heal", "switch-start", "controller-start", "restart", "resume", "arrive", TREE})
"""What ends a fault, or follows from a join or leave that has a record of its own."""


class Window(NamedTuple):
    """A fault, in words, and from when until when it lasted."""

    label: str
    start_ns: int
    end_ns: int


def windows(faults: Iterable[FaultRecord], ended_ns: int) -> tuple[Window, ...]:
    """Every fault with its end: when it was mended, or when the run ended."""
    ordered = sorted(faults, key=moment)
    return tuple(
        Window(f"{fault.fault} {fault.target}".rstrip(), moment(fault), _end(fault, ordered[number:], ended_ns))
        for number, fault in enumerate(ordered)
        if fault.fault not in _MENDING and not _as_built(fault)
    )


def _end(fault: FaultRecord, later: Iterable[FaultRecord], ended_ns: int) -> int:
    if fault.fault not in _MENDED_BY:
        return moment(fault)
    mends = (other for other in later if other is not fault and other.fault in _MENDED_BY[fault.fault] and _same(other, fault))
    return min(next(map(moment, mends), ended_ns), ended_ns)


def _same(mending: FaultRecord, fault: FaultRecord) -> bool:
    """Whether both have the same target, whichever end of a link is named first; a record without a target applies to everything."""
    return not mending.target or set(mending.target.split("-")) == set(fault.target.split("-"))


def _as_built(fault: FaultRecord) -> bool:
    """Whether a change of a link ends an earlier one: the link no longer loses or duplicates packets."""
    told = {name: value for name, value in fault.details.items() if name != "towards"}
    return fault.fault == "link-change" and not any(told.values())
