"""AWAKE, UP and REACH of the third paper, section 6.3, as a run showed them.

A host fails (F) when a fault crashes or pauses it, and also when it takes longer than phi_P to handle a datagram: from the arrival on its
link to the `receive` line. It fails for good when a fault makes it throw a message away on arrival, as no log says which. It is awake again
(A) when its agent runs and has caught up. It has recovered (R) when its protocol traces `recovered`, or, if no host of the run ever traces
that, as soon as it is awake. A host is UP if it is awake and has recovered.

Two hosts can REACH each other in a time in which every datagram between them arrived within phi_N. That is read from the datagrams, not
from injected faults: a lost datagram is one that did not arrive in time, whatever the reason.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analysis.judging.connectivity import Connectivity
from analysis.judging.history import History
from hostagent.contract.promises import TimeBound

Span = tuple[int, int]
"""The first and the last instant of a time."""
NS_PER_MS = 1_000_000
_FOR_EVER = 2**63 - 1


class Handling(NamedTuple):
    """A host took from `arrived_ns` to `done_ns` to handle a datagram with a message."""

    arrived_ns: int
    done_ns: int
    host: str


def longest_transit_ms(history: History) -> float | None:
    """The measured phi_N: the longest time that a datagram which arrived was under way; None without datagrams."""
    took_ns = (transit.arrived_ns - transit.left_ns for transit in history.transits or () if transit.arrived_ns is not None)
    return _in_ms(max(took_ns, default=None))


def longest_handling_ms(history: History) -> float | None:
    """The measured phi_P: the longest time that a host took to handle a message; None if no host marks messages as received."""
    return _in_ms(max((handling.done_ns - handling.arrived_ns for handling in handlings(history)), default=None))


def _in_ms(took_ns: int | None) -> float | None:
    return None if took_ns is None else took_ns / NS_PER_MS


def handlings(history: History) -> Iterator[Handling]:
    """How long hosts took from the arrival of a message to its first `receive` line, where the arrival is known.

    Of several arrivals the first one counts that the agent can have seen, which is one since its last start.
    """
    arrivals: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for _, arrived_ns, _, to, origin, sequence, _, carries, _ in history.transits or ():
        if carries and arrived_ns is not None:
            arrivals[to, origin, sequence].append(arrived_ns)
    starts = _starts(history)
    for at_ns, host, origin, sequence, *_ in history.receipts:
        # A second receipt of a message finds no arrivals.
        arrived = arrivals.pop((host, origin, sequence), ())
        since_ns = max((start_ns for start_ns in starts[host] if start_ns <= at_ns), default=0) if host in starts else 0
        if seen_by_agent := [arrived_ns for arrived_ns in arrived if since_ns <= arrived_ns <= at_ns]:
            yield Handling(min(seen_by_agent), at_ns, host)


def _starts(history: History) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for recovery in history.recoveries:
        if not recovery.complete:
            found[recovery.host].append(recovery.at_ns)
    return found


class States:
    """When the hosts of a run were awake, up and could reach each other, for as long as a time bound asks."""

    def __init__(self, history: History, connectivity: Connectivity, bound: TimeBound, window_ns: int) -> None:
        self.window_ns = window_ns
        self._asleep = {host: [*connectivity.away(host)] for host in history.hosts}
        for handling in handlings(history):
            if handling.done_ns - handling.arrived_ns > bound.process_ms * NS_PER_MS:
                self._asleep[handling.host].append((handling.arrived_ns, handling.done_ns))
        for host, since_ns in connectivity.deaf_since.items():
            self._asleep[host].append((since_ns, _FOR_EVER))
        self._recovered = _recovered(history)
        self._unreachable = _unreachable(history, round(bound.network_ms * NS_PER_MS))
        self._blocks: dict[tuple[str, str], tuple[list[int], list[int]]] = {}

    def since(self, host: str, other: str, from_ns: int) -> int:
        """The first instant, from `from_ns` on, at which `holds` is true."""
        starts, ends = self._blocked(host, other)
        number = bisect_left(ends, from_ns)
        if number < len(ends) and starts[number] <= from_ns + self.window_ns:
            return ends[number] + 1
        return from_ns

    def holds(self, host: str, other: str, from_ns: int) -> bool:
        """Whether `host` is up, `other` awake and both can reach each other from `from_ns` on for the time of the bound."""
        return self.since(host, other, from_ns) == from_ns

    def _blocked(self, host: str, other: str) -> tuple[list[int], list[int]]:
        """The starts and ends of the times that keep the condition from holding. Where two are too close for the bound, they are one."""
        key = host, other
        if key not in self._blocks:
            not_up = [(failed_ns, self._up_again(host, awake_ns)) for failed_ns, awake_ns in self._asleep[host]]
            of_other = self._asleep[other] if other != host else []
            unreachable = self._unreachable.get(frozenset(key), [])
            self._blocks[key] = _joined((*not_up, *of_other, *unreachable), self.window_ns)
        return self._blocks[key]

    def _up_again(self, host: str, awake_ns: int) -> int:
        """When a host that is awake again at `awake_ns` has recovered."""
        if self._recovered is None:
            return awake_ns
        return next((at_ns for at_ns in self._recovered.get(host, ()) if at_ns >= awake_ns), _FOR_EVER)


def _recovered(history: History) -> dict[str, list[int]] | None:
    """When each host had recovered; None if the protocol does not say."""
    found: dict[str, list[int]] = defaultdict(list)
    for recovery in history.recoveries:
        if recovery.complete:
            found[recovery.host].append(recovery.at_ns)
    return found or None


def _unreachable(history: History, network_ns: int) -> dict[frozenset[str], list[Span]]:
    """For each two hosts the instants at which a datagram left that did not arrive in time."""
    found: dict[frozenset[str], list[Span]] = defaultdict(list)
    for transit in history.transits or ():
        if transit.arrived_ns is None or transit.arrived_ns - transit.left_ns > network_ns:
            found[frozenset((transit.sender, transit.to))].append((transit.left_ns, transit.left_ns))
    return found


def _joined(spans: Iterable[Span], window_ns: int) -> tuple[list[int], list[int]]:
    starts: list[int] = []
    ends: list[int] = []
    for start_ns, end_ns in sorted(spans):
        if ends and start_ns <= ends[-1] + 1 + window_ns:
            ends[-1] = max(ends[-1], end_ns)
        else:
            starts.append(start_ns)
            ends.append(end_ns)
    return starts, ends
