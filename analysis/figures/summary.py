"""The figures of a run: what `summary.json` holds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from analysis.books import GUEST, Books, CaptureReport, LinkCost, counted, reservations_about, seen_arriving, seen_leaving
from analysis.figures.detection import Detection, detection
from analysis.figures.load import Load, load
from analysis.figures.lower_bounds import LowerBounds, lower_bounds
from analysis.figures.statistics import quantiles
from analysis.judging.check_run import connectivity_of, doubts_about
from analysis.judging.history import History
from analysis.judging.judge import Finding, Verdict, judge
from analysis.judging.properties.timing.states import longest_handling_ms, longest_transit_ms
from runfiles.format import Medium, write
from runfiles.reading import RunInput
from runfiles.versions import decode_file

PURPOSES: Final = ("data", "repair", "control")
# Delays are summed up by their quantiles at every half per cent: enough to draw the distribution.
EVERY_HALF_PER_CENT: Final = tuple(step / 200 for step in range(201))


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Host-to-host packets that crossed at least one expensive link, per message broadcast; None if no message was broadcast.

    A datagram to a group is one packet. Of a guest's packets nobody knows the purpose, so their numbers by purpose are None. Crossings
    count each expensive link that a packet, or a copy of it, was seen on.
    """

    expensive_packets_per_message: float | None
    expensive_data_packets_per_message: float | None
    expensive_repair_packets_per_message: float | None
    expensive_control_packets_per_message: float | None
    lower_bound: int | float
    """The fewest packets with the message, data or repair, that can reach the clusters of its destinations: the mean over all messages.
    That is k - 1 for messages to k clusters, and 1 where the network multicasts; messages may share packets."""
    expensive_crossings_per_message: float | None = None
    expensive_data_crossings_per_message: float | None = None
    expensive_repair_crossings_per_message: float | None = None
    expensive_control_crossings_per_message: float | None = None
    lower_bound_crossings: int | float | None = None
    """The same for crossings (`analysis.figures.lower_bounds`)."""


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from broadcast to delivery at hosts other than the origin; None if nothing was delivered.

    Quantiles are interpolated, as `analysis.figures.statistics.quantiles` says.
    """

    p50: float | None = None
    p99: float | None = None
    last_p50: float | None = None
    """The median over messages of the delay to the last host that delivered it."""
    quantiles: tuple[float, ...] = ()
    """At every half per cent from 0 to 100."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One run in figures."""

    scenario: str
    label: str
    """The name that distinguishes this run from the others of its scenario; the name of the protocol if that is enough."""
    protocol: str
    engine: str
    seed: int
    settings: dict[str, Any]
    parameters: dict[str, Any]
    pack_ms: float | None = None
    """The longest time that a message waited to share a datagram with others to the same host; None without sharing."""
    medium: Medium = "unicast"
    """How messages to a group travelled: as one datagram to each member, or as one that switches copied."""
    network: str
    hosts: int
    clusters: int
    messages: int
    cost: Cost
    delay_ms: Delay
    delivered_share: float | None
    """The share delivered of all pairs of a message and a destination other than its origin."""
    relative_reliability: float | None
    """The share delivered of those pairs that some protocol could have delivered on this network with these faults."""
    load_max: int
    """Datagrams sent and received by the busiest host; of a guest, packets seen on the host's link."""
    load_max_host: str
    load: Load = Load()
    """What was offered and achieved, and whether the sources kept up."""
    messages_per_datagram: float | None = None
    """The mean number of protocol messages in a datagram; None if nothing was sent or messages were not counted."""
    longest_handling_ms: float | None = None
    """The measured phi_P: from the arrival of a message at a host to its `receive` line; None unless a promise has a time bound."""
    longest_transit_ms: float | None = None
    """The measured phi_N: from the link of the sender to that of the receiver; None unless a promise is about datagrams."""
    detector: Detection | None = None
    """The speed and accuracy of the failure detector; None if no host was suspected."""
    damage: tuple[str, ...] | None = None
    """What is known to be missing from the event logs; None in a summary from before that was kept."""
    balanced: bool
    differences: tuple[str, ...]
    verdict: Verdict
    verdict_reasons: tuple[str, ...]
    not_tested: tuple[str, ...] = ()
    """Promises that this run did not test; the verdict is about the others."""
    checks: dict[str, Finding]
    books: Books
    captures: tuple[CaptureReport, ...]
    link_costs: tuple[LinkCost, ...]


def summarise(
    run: RunInput,
    history: History,
    books: Books,
    deliveries: pa.Table,
    *,
    reports: Sequence[CaptureReport],
    link_costs: Sequence[LinkCost],
    expensive_packets: Mapping[str, int],
    crossings: Mapping[str, int],
) -> Summary:
    """The figures of a run. `expensive_packets` counts host-to-host packets over expensive links by purpose, `crossings` their crossings.

    `deliveries` is the table of that name.
    """
    connectivity = connectivity_of(run)
    judgement = judge(history, run.run.promise, connectivity, doubts_about(books.differences))
    load_max, busiest = max((load, host) for host, load in _loads(run, link_costs).items())
    rates = load(history, deliveries, run.counters)
    pairs = sum(len({*to} - {origin}) for (origin, _), to in history.destinations.items())
    bounds = lower_bounds(run.network, history, multicasts=run.run.medium == "multicast")
    return Summary(
        scenario=run.run.scenario,
        label=run.run.label or run.run.protocol,
        protocol=run.run.protocol,
        engine=run.run.engine,
        seed=run.run.seed,
        settings=run.run.settings,
        parameters=run.run.parameters,
        pack_ms=run.run.pack_ms,
        medium=run.run.medium,
        network=run.network.name,
        hosts=len(run.network.hosts),
        clusters=len(run.network.clusters),
        messages=history.messages,
        cost=_cost(expensive_packets, crossings, history.messages, bounds, by_purpose=not run.run.guest),
        delay_ms=_delay(deliveries),
        delivered_share=deliveries.num_rows / pairs if pairs else None,
        relative_reliability=judgement.relative_reliability,
        load_max=load_max,
        load_max_host=busiest,
        load=rates,
        messages_per_datagram=_messages_per_datagram(run),
        longest_handling_ms=longest_handling_ms(history),
        longest_transit_ms=longest_transit_ms(history),
        detector=detection(history, run.faults, connectivity),
        damage=history.damage,
        balanced=books.balanced,
        differences=books.differences,
        verdict=judgement.verdict,
        verdict_reasons=(*judgement.reasons, *reservations_about(books), *rates.remarks),
        not_tested=judgement.not_tested,
        checks=judgement.findings,
        books=books,
        captures=tuple(sorted(reports, key=lambda report: report.file)),
        link_costs=tuple(sorted(link_costs, key=lambda cost: (cost.link, cost.source, cost.purpose))),
    )


def _loads(run: RunInput, link_costs: Sequence[LinkCost]) -> dict[str, int]:
    """Datagrams that each host sent and received. Nobody counts a guest's packets at its hosts, but each crosses the links of its hosts."""
    if run.run.guest:
        guests = [cost for cost in link_costs if cost.purpose == GUEST]
        leaving, arriving = seen_leaving(guests), seen_arriving(guests)
        return {host: leaving[host] + arriving[host] for host in run.network.hosts}
    counters = {host: run.counters.get(host, {}) for host in run.network.hosts}
    return {host: counted.get("sent", 0) + counted.get("received", 0) for host, counted in counters.items()}


def _cost(
    packets: Mapping[str, int], crossings: Mapping[str, int], messages: int, bounds: LowerBounds, *, by_purpose: bool
) -> Cost:
    per_message = {
        f"expensive_{purpose}{what}_per_message": count / messages if messages and (by_purpose or not purpose) else None
        for what, counts in (("packets", packets), ("crossings", crossings))
        for purpose, count in {"": sum(counts.values()), **{f"{each}_": counts.get(each, 0) for each in PURPOSES}}.items()
    }
    return Cost(**per_message, lower_bound=bounds.packets, lower_bound_crossings=bounds.crossings)


def _delay(deliveries: pa.Table) -> Delay:
    if not deliveries.num_rows:
        return Delay()
    p50, p99 = quantiles(deliveries["delay_ms"], [0.5, 0.99])
    last_ms = deliveries.group_by(["origin", "sequence"]).aggregate([("delay_ms", "max")])["delay_ms_max"]
    (last_p50,) = quantiles(last_ms, [0.5])
    return Delay(p50=p50, p99=p99, last_p50=last_p50, quantiles=quantiles(deliveries["delay_ms"], EVERY_HALF_PER_CENT))


def _messages_per_datagram(run: RunInput) -> float | None:
    counted = [counters for counters in run.counters.values() if "messages" in counters]
    sent = sum(counters["sent"] for counters in counted)
    return sum(counters["messages"] for counters in counted) / sent if sent else None


def write_summary(summary: Summary, directory: Path) -> None:
    """Write `summary.json`."""
    write(directory / "summary.json", summary)


def read_summary(directory: Path) -> Summary:
    """Read `summary.json` back."""
    path = directory / "summary.json"
    return decode_file(path.read_bytes(), Summary, path)


def described(summaries: Sequence[Summary]) -> str:
    """The scenario of runs and the size of their network, or the number of networks if there are several."""
    first, networks = summaries[0], {summary.network for summary in summaries}
    size = f"{counted(first.hosts, 'host')} in {counted(first.clusters, 'cluster')}"
    where = size if len(networks) == 1 else f"{len(networks)} networks"
    return f"{first.scenario}: {where}"
