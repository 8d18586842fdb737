"""The checkers on a run of 600,000 deliveries, compared with the least that a checker does: to sort the deliveries by host.

In the run, 1,000 hosts deliver 600 messages of 50 hosts to two groups in one order, with ordinals. Every hundredth delivery is taken back
and repeated at once, and every host commits the first ten messages. One host in ten crashes half-way and comes back with its storage. The
datagrams of the sources are on record, hosts mark what they receive, a token goes with the messages, and all hosts install a view of one
group every hundred messages. So the checkers cannot take a short cut, and most of them find that the run holds; strict order forbids what
was taken back. Times are processor time.
"""

import argparse
import time
from collections.abc import Callable, Iterator

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding
from analysis.judging.history import BroadcastEvent, Delivery, History, ParentChange, TokenChange, Transit, View
from analysis.judging.judge import Promised, check_of
from benchmarks import report
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, Step, Strength, TimeBound, Timing
from runfiles.format import FaultRecord
from topologies import clusters

HOSTS, MESSAGES, SOURCES = 1000, 600, 50
PROMISE = Promise(guarantees=(), patience_ms=1000.0, retained=0)
ORDERS = tuple(Order(scope, strength) for scope in Scope for strength in Strength)
BOUNDS = tuple(TimeBound(timing=timing, bound_ms=5, process_ms=1, network_ms=1, others=10) for timing in Timing)
CHECKED: tuple[Promised, ...] = (
    *ORDERS,
    Order(Scope.MULTIPLE_SOURCE, Strength.STRICT, Step.COMMIT),
    *(Guarantee.NO_DUPLICATION, Guarantee.ACYCLIC_ORDER, Guarantee.NO_GAPS),
    *(Guarantee.SAME_POSITION, Guarantee.ROLLBACK_DISCIPLINE),
    *(Guarantee.SENDING_VIEW, Guarantee.VIEW_AGREEMENT, Guarantee.SAFE, Guarantee.ONE_TOKEN),
    *BOUNDS,
)
# A checker reads the log of each host several times, for rollback twice as often: that may take eighty times the sorting alone.
TARGET = 80.0
STEP_NS = 10_000_000
END_NS = (MESSAGES + 1000) * STEP_NS
_OPERATIONS = 4
"""Lines of a log for each message: broadcast, delivery, take-back, delivery again."""


def large(hosts: int = HOSTS, messages: int = MESSAGES) -> tuple[History, Connectivity]:
    """The run, and what its network allowed."""
    network = clusters(2, hosts // 2, "line")
    broadcasts = tuple(_broadcast(number, network.hosts) for number in range(messages))
    marked = [
        (event, mark)
        for one in broadcasts
        for place, host in enumerate(network.hosts)
        for event, mark in _marks(one, host, place)
    ]

    def of(wanted: str) -> tuple[Delivery, ...]:
        return tuple(mark for event, mark in marked if event == wanted)

    first = network.hosts[0]
    history = History(
        *(network.hosts, broadcasts, of("deliver"), END_NS),
        commits=of("commit"),
        taken_back=of("take-back"),
        receipts=of("receive"),
        parents=tuple(ParentChange(0, host, first, first) for host in network.hosts[1:]),
        views=tuple(_views(broadcasts, network.hosts)),
        tokens=tuple(_tokens(broadcasts)),
        transits=tuple(_transits(broadcasts, network.hosts)),
    )
    return history, Connectivity(network, list(_crashes(network.hosts, messages)), END_NS)


def _broadcast(number: int, hosts: tuple[str, ...]) -> BroadcastEvent:
    source = hosts[number % SOURCES]
    return BroadcastEvent(number * STEP_NS, source, number // SOURCES + 1, number % 2, _OPERATIONS * number + 1, hosts)


def _views(broadcasts: tuple[BroadcastEvent, ...], hosts: tuple[str, ...]) -> Iterator[View]:
    for number in range(100, len(broadcasts), 100):
        one = broadcasts[number]
        for host in hosts:
            yield View(one.at_ns - 1, host, 1, number // 100, hosts, one.position - 1)


def _tokens(broadcasts: tuple[BroadcastEvent, ...]) -> Iterator[TokenChange]:
    for one in broadcasts:
        yield TokenChange(one.at_ns, one.origin, 1, held=True)
        yield TokenChange(one.at_ns + 1, one.origin, 1, held=False)


def _transits(broadcasts: tuple[BroadcastEvent, ...], hosts: tuple[str, ...]) -> Iterator[Transit]:
    for one in broadcasts:
        for host in hosts:
            if host != one.origin:
                yield Transit(one.at_ns, one.at_ns + 1, one.origin, host, *one.message, 0, carries=True)


def _marks(one: BroadcastEvent, host: str, place: int) -> Iterator[tuple[str, Delivery]]:
    """What a host logs about a message."""
    number = one.at_ns // STEP_NS
    delivery = Delivery(one.at_ns + 1, host, *one.message, one.group, one.position + 1, number // 2 + 1)
    yield "receive", delivery
    if (number + place) % 100 == 0:
        yield "deliver", delivery
        yield "take-back", delivery._replace(position=one.position + 2)
        delivery = delivery._replace(position=one.position + 3)
    yield "deliver", delivery
    if number < 10:
        yield "commit", delivery._replace(position=delivery.position + _OPERATIONS * MESSAGES)


def _crashes(hosts: tuple[str, ...], messages: int) -> Iterator[FaultRecord]:
    at_ns = messages // 2 * STEP_NS + STEP_NS // 2
    for host in hosts[::10]:
        yield FaultRecord(fault="crash", target=host, asked_ns=at_ns, applied_ns=at_ns)
        yield FaultRecord(fault="restart", target=host, asked_ns=at_ns + 1, applied_ns=at_ns + 1)


def by_host(history: History) -> dict[str, list[tuple[str, int]]]:
    """The yardstick: the messages that each host delivered, in order."""
    found: dict[str, list[tuple[str, int]]] = {host: [] for host in history.hosts}
    for one in history.deliveries:
        found[one.host].append(one.message)
    return found


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """The processor time of some work, and its result."""
    began_s = time.process_time()
    result = work()
    return time.process_time() - began_s, result


def rate(promised: Promised, history: History, connectivity: Connectivity) -> tuple[Finding, float]:
    """The finding on a promise, and the seconds that it took."""
    took_s, finding = timed(lambda: check_of(promised)(history, PROMISE, connectivity))
    assert isinstance(finding, Finding)
    return finding, took_s


def measure(arguments: argparse.Namespace) -> report.Result:
    """Let every checker and the yardstick judge the same run, several times."""
    history, connectivity = large(arguments.hosts)
    floor_s = [timed(lambda: by_host(history))[0] for _ in range(arguments.repeat)]
    comparisons, notes = [], []
    for promised in CHECKED:
        runs = [rate(promised, history, connectivity) for _ in range(arguments.repeat)]
        finding = runs[0][0]
        comparisons.append(report.Comparison(str(promised), "s", [took_s for _, took_s in runs], floor_s, TARGET))
        notes.append(f"{promised}: {finding.verdict}, {finding.cases:,} cases")
    title = f"Checkers, {len(history.deliveries):,} deliveries"
    return report.Result(title, "sorting by host", comparisons, notes)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.checkers", description="The checkers against sorting the deliveries by host."
    )
    parser.add_argument("--repeat", type=report.positive, default=3, metavar="N", help="take the median of N (default 3)")
    parser.add_argument("--hosts", type=report.positive, default=HOSTS, metavar="N", help=f"hosts of the run (default {HOSTS})")
    return report.main(parser, measure)


if __name__ == "__main__":
    raise SystemExit(main())
