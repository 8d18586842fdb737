"""How long each fault was felt: until nobody lacked a message, and until the tree or the ring stood again.

Each time is counted from the fault, and only until the next one: what is not over by then is not over *until* the next fault. Repairs have
times of their own, so a link that was down for five seconds has one time from when it went down and one from when it came up.

A host lacks a message from `LATE_NS` after the time that messages usually take to the last host, until it delivers it. What is usual is the
median of the messages before the first fault, or of all where there are none. Hosts that do not run lack nothing, and nobody lacks a
message that no host but its origin ever had while that origin does not run.

A tree stands as `parents.reformations` says. A ring stands in a part of the network when each host there has held a token of the same
generation since the fault: the token has been round.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from statistics import median
from typing import Final, NamedTuple

import msgspec

from analysis.judging.history import History, MessageId
from analysis.judging.network_state import Ground, moment
from analysis.judging.parents import named, reformations, sources
from analysis.judging.properties.delivery.missing_deliveries import Deliverers, deliverers
from runfiles.format import LATE, TREE
from runfiles.reading import RunInput

# Deliveries on a busy machine are late by less than this without any fault.
LATE_NS: Final = 50_000_000


class Healing(msgspec.Struct, frozen=True):
    """What came of a fault until the next one or the end. A time is None if it was not over by then."""

    at_ns: int
    cause: str
    caught_up_ns: int | None
    """Time until nobody lacked a message; 0 if nobody did."""
    what: str
    """The structure that the protocol keeps, `tree` or `ring`; empty if it keeps none."""
    stands_ns: int | None
    """Time until it stood and went on to; None too if there is none."""


class _Lack(NamedTuple):
    """A host lacked a message, from when until when; for ever if `until_ns` is None."""

    host: str
    message: MessageId
    since_ns: int
    until_ns: int | None


def healings(run: RunInput, history: History) -> tuple[Healing, ...]:
    """Every fault of a run, those at one instant as one, with its times."""
    marks = list(_marks(run))
    if not marks or not history.broadcasts:
        return ()
    delivered = deliverers(history)
    lacks = list(_lacks(history, delivered, marks[0].at_ns))
    what, stands = _structure(run, history)
    ends = [*(mark.at_ns for mark in marks[1:]), history.ended_ns]
    found = []
    for mark, end_ns in zip(marks, ends, strict=True):
        caught_up_ns = _caught_up(delivered, lacks, mark, end_ns)
        stands_ns = stands.get(mark.at_ns) if what == "tree" else _ring_stands(run, history, mark, end_ns) if what else None
        found.append(Healing(mark.at_ns, mark.cause, caught_up_ns, what, stands_ns))
    return tuple(found)


class _Mark(NamedTuple):
    """A fault, and what runs and is connected from then on."""

    at_ns: int
    cause: str
    part_of: Mapping[str, int]
    """The part of the network of each host that runs."""


def _marks(run: RunInput) -> Iterator[_Mark]:
    """The faults in the order of time. Trees of groups follow from joins and leaves, and hosts that come late are there from the start."""
    ground = Ground(run.network)
    ordered = sorted(run.faults, key=moment)
    for fault in ordered:
        if fault.fault == LATE:
            ground.apply(fault)
    shown = [fault for fault in ordered if fault.fault not in {LATE, TREE}]
    for at_ns, together in groupby(shown, key=moment):
        happened: dict[str, None] = {}
        for fault in together:
            happened[f"{fault.fault} {fault.target}".rstrip()] = None
            ground.apply(fault)
        parts = ground.parts()
        yield _Mark(at_ns, named(list(happened)), {host: parts[host] for host in ground.running})


def _lacks(history: History, delivered: Mapping[MessageId, Deliverers], first_fault_ns: int) -> Iterator[_Lack]:
    """Everything that some host lacked at some time."""
    sent, usual_ns = history.broadcast_at, _usual(history, first_fault_ns)
    for message, to in history.destinations.items():
        has, since_ns = delivered.get(message, {}), sent[message] + usual_ns + LATE_NS
        for host in to:
            until_ns = has[host].at_ns if host in has else None
            if until_ns is None or until_ns > since_ns:
                yield _Lack(host, message, since_ns, until_ns)


def _usual(history: History, first_fault_ns: int) -> int:
    """How long a message usually takes to the last host that delivers it."""
    last: dict[MessageId, int] = {}
    for delivery in history.deliveries:
        last[delivery.message] = max(delivery.at_ns, last.get(delivery.message, 0))
    took = {message: last[message] - at_ns for message, at_ns in history.broadcast_at.items() if message in last}
    before = [took[message] for message in took if history.broadcast_at[message] < first_fault_ns]
    return round(median(before or took.values())) if took else 0


def _caught_up(delivered: Mapping[MessageId, Deliverers], lacks: Iterable[_Lack], mark: _Mark, end_ns: int) -> int | None:
    last_ns = mark.at_ns
    for lack in lacks:
        is_over = lack.until_ns is not None and lack.until_ns <= mark.at_ns
        if is_over or lack.since_ns >= end_ns or lack.host not in mark.part_of or _is_gone(lack, delivered, mark):
            continue
        if lack.until_ns is None or lack.until_ns >= end_ns:
            return None
        last_ns = max(last_ns, lack.until_ns)
    return last_ns - mark.at_ns


def _is_gone(lack: _Lack, delivered: Mapping[MessageId, Deliverers], mark: _Mark) -> bool:
    """Whether nobody but the origin of a message ever had it, and the origin does not run."""
    origin = lack.message[0]
    return origin not in mark.part_of and not (delivered.get(lack.message, {}).keys() - {origin})


def _structure(run: RunInput, history: History) -> tuple[str, dict[int, int | None]]:
    """Whether the protocol keeps a tree of clusters or a ring, and of a tree when it stood after each fault."""
    if any(change.leads is not None for change in history.parents):
        source = sources(history)[0]
        return "tree", {row.at_ns: row.took_ns for row in reformations(run.network, run.faults, history, source)}
    return ("ring" if history.tokens else ""), {}


def _ring_stands(run: RunInput, history: History, mark: _Mark, end_ns: int) -> int | None:
    """Time until the token has been round in each part of the network that is large enough to go on."""
    members: dict[int, set[str]] = {}
    for host, part in mark.part_of.items():
        members.setdefault(part, set()).add(host)
    large = [hosts for hosts in members.values() if len(hosts) >= max(run.run.promise.quorum, 1)]
    times = [_round_ns(history, hosts, mark.at_ns, end_ns) for hosts in large]
    known = [at_ns for at_ns in times if at_ns is not None]
    return max(known) - mark.at_ns if known and len(known) == len(times) else None


def _round_ns(history: History, hosts: set[str], start_ns: int, end_ns: int) -> int | None:
    """When all these hosts have first held a token of one generation since an instant."""
    first: dict[int, dict[str, int]] = {}
    for change in history.tokens:
        if change.held and start_ns <= change.at_ns < end_ns and change.host in hosts:
            first.setdefault(change.generation, {}).setdefault(change.host, change.at_ns)
    return min((max(held.values()) for held in first.values() if held.keys() == hosts), default=None)


def told(time_ns: int | None, none: str = "at once") -> str:
    """A time in words; `none` for no time at all."""
    return "did not" if time_ns is None else none if time_ns == 0 else f"{time_ns / 1e6:,.0f} ms"
