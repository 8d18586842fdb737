#!./castbed run
"""What an order costs: the protocols that order messages beside each other, in packets, expensive packets, delay and load.

n hosts in k clusters of s = n / k hosts, any two of them joined by an expensive link; every host sends in turn, on both media. The packets
with a message must be as theory says, one for one; no protocol can do with fewer than n - 1 packets of which k - 1 are expensive, or one
packet where a packet goes to a group. Run it with --pack off: where messages share packets, there are fewer. With a delay of the expensive
links, the delay to the last host is compared too, in units of it:

    ./castbed run order_costs --on simulator --pack off --set delay=20ms

Theory beside it: an atomic multicast that involves only its destinations needs two delays between groups, a broadcast can do with one
(Schiper and Pedone); whoever sends to all others by unicast has a throughput of 1 / (n - 1) of its line.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Final, NamedTuple, Unpack

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Order, Scope, Strength
from runfiles.format import Medium
from scenarios import Scenario, Variant, Workload
from scenarios.nonprogrammable_servers.control_cost import whole_numbers
from scenarios.scenario import ScenarioError
from topologies import clusters
from topologies.properties import Expensive

CLUSTERS: Final = {6: 3, 12: 4}
"""The numbers of hosts, each with the number of clusters."""
MEDIA: Final[tuple[Medium, ...]] = ("unicast", "multicast")
ONE_ORDER: Final = Order(Scope.MULTIPLE_GROUP, Strength.STRICT)
CENTRAL: Final = "h1"
"""The host that orders, where one host does."""
# Beside the expensive links, a message may take a little longer: half a link's delay in all.
SLACK: Final = 0.5


class Place(NamedTuple):
    """A system, and where in it the source of a message is."""

    n: int
    k: int
    s: int
    is_central: bool
    """Whether the source is the central host."""
    is_near: bool
    """Whether the source is in the cluster of the central host, or is it."""


Amount = Callable[[Place], float]


@dataclass(frozen=True)
class Row:
    """What theory says of a protocol. Each amount is for one message of a source at some place."""

    packets: tuple[str, Amount]
    """The formula, and the packets on a network that does not multicast."""
    expensive: tuple[str, Amount]
    """Those of them that are expensive."""
    to_group: tuple[str, Amount]
    """The packets on a network that multicasts."""
    latencies: tuple[str, Amount] | None
    """How often in a row a packet crosses an expensive link before the last host delivers, on a network that does not multicast. None where
    that depends on the place of a token."""
    more_latencies: int = 0
    """How many crossings more it may be, where that depends on where the token is."""
    control: tuple[str, Amount, Amount] | None = None
    """The formula, and the control packets without multicast and with it: of silent hosts that must say something, or token passes."""
    order: Order = ONE_ORDER
    parameters: Mapping[str, Any] = field(default_factory=dict)


ROWS: Final = {
    "fan": Row(
        packets=("n - 1", lambda at: at.n - 1),
        expensive=("n - s", lambda at: at.n - at.s),
        to_group=("1", lambda _: 1),
        latencies=("L", lambda _: 1),
        order=Order(Scope.SINGLE_SOURCE, Strength.STRICT),
    ),
    "sequencer": Row(
        packets=("n, or n - 1 from the sequencer itself", lambda at: at.n - at.is_central),
        expensive=("(n - s) + (1 - 1/k) on average", lambda at: at.n - at.s + (not at.is_near)),
        to_group=("2, or 1 from the sequencer itself", lambda at: 2 - at.is_central),
        latencies=("2L, or L from the cluster of the sequencer", lambda at: 2 - at.is_near),
        parameters={"sequencer": CENTRAL},
    ),
    "two-phase": Row(
        packets=("3(n - 1)", lambda at: 3 * (at.n - 1)),
        expensive=("3(n - s)", lambda at: 3 * (at.n - at.s)),
        to_group=("n + 1", lambda at: at.n + 1),
        latencies=("3L", lambda _: 3),
    ),
    "timestamp": Row(
        packets=("n (n - 1), as the silent answer", lambda at: at.n * (at.n - 1)),
        expensive=("n (n - s)", lambda at: at.n * (at.n - at.s)),
        to_group=("n", lambda at: at.n),
        latencies=("2L", lambda _: 2),
    ),
    "trans-total": Row(
        packets=("n - 1", lambda at: at.n - 1),
        expensive=("n - s", lambda at: at.n - at.s),
        to_group=("1", lambda _: 1),
        latencies=("2L", lambda _: 2),
        control=("a null message of each other host", lambda at: (at.n - 1) ** 2, lambda at: at.n - 1),
        parameters={"acknowledge_ms": 5.0},
    ),
    "propagation-graph": Row(
        packets=("n + e, with e = 0 here, or one less from the root", lambda at: at.n - at.is_central),
        expensive=(
            "(n - s) + (1 - 1/k) on average, as the graph does not know the network",
            lambda at: at.n - at.s + (not at.is_near),
        ),
        to_group=("d + 1 = 2, or one less from the root", lambda at: 2 - at.is_central),
        latencies=("(d + 1) L = 2L, or L from the cluster of the root", lambda at: 2 - at.is_near),
    ),
    "totem": Row(
        packets=("n - 1, beside those with the token", lambda at: at.n - 1),
        expensive=("n - s, beside those with the token", lambda at: at.n - at.s),
        to_group=("1, beside those with the token", lambda _: 1),
        latencies=None,
    ),
    "counter": Row(
        packets=("n - 1, beside those with the token", lambda at: at.n - 1),
        expensive=("n - s, beside those with the token", lambda at: at.n - at.s),
        to_group=("1, beside those with the token", lambda _: 1),
        latencies=None,
    ),
    "optimistic": Row(
        packets=("n - 1, beside those with the token", lambda at: at.n - 1),
        expensive=("n - s, beside those with the token", lambda at: at.n - at.s),
        to_group=("1, beside those with the token", lambda _: 1),
        latencies=None,
        order=Order(Scope.MULTIPLE_SOURCE, Strength.ROLLBACK),
    ),
    "token-site": Row(
        packets=("2(n - 1)", lambda at: 2 * (at.n - 1)),
        expensive=("2(n - s)", lambda at: 2 * (at.n - at.s)),
        to_group=("2", lambda _: 2),
        latencies=("L to 3L: to the token site, one pass, and from the next site", lambda _: 1),
        more_latencies=2,
        control=("a token pass to everybody, and one word that the token is taken", lambda at: at.n, lambda _: 2),
        # The token stays where it is between two messages, so that each costs as many passes as the resilience.
        parameters={"resilience": 1, "linger_ms": 60_000.0},
    ),
}
"""The protocols. A further one needs its row here, and nothing else."""


def scenario(hosts: Annotated[tuple[int, ...], whole_numbers] = (6, 12), **expensive: Unpack[Expensive]) -> list[Variant]:
    """Every host sends in turn, slowly enough for any protocol; n = 6 or 12.

    hosts: numbers of hosts, runs for each: 6 or 12
    """
    found = []
    for n in hosts:
        if n not in CLUSTERS:
            raise ScenarioError(f"hosts={n}: choose from {', '.join(map(str, CLUSTERS))}")
        network = clusters(CLUSTERS[n], n // CLUSTERS[n], "mesh", **expensive)
        stream = Workload(messages=4 * n, interval=100.0, settle=2000.0)
        asked = Scenario(network=network, sources=network.hosts, workload=stream)
        found += [
            Variant(f"{name}-{medium}-{n}", asked, name, row.parameters, medium=medium)
            for name, row in ROWS.items()
            for medium in MEDIA
        ]
    return found


def claims(runs: Runs) -> Iterator[Claim]:
    """For each run its order, what it cost, and how long it took."""
    for run in runs:
        row = ROWS[run.summary.protocol]
        yield kept("order", run, row.order, expected=True)
        yield _packets(run, *(row.packets if run.summary.medium == "unicast" else row.to_group))
        if run.summary.medium == "unicast":
            yield _expensive(run, *row.expensive)
            if row.latencies and any(link.delay_ms for link in run.network.links):
                yield _delay(run, *row.latencies, row.more_latencies)
        if row.control:
            yield _control(run, *row.control)


def _places(run: MeasuredRun) -> dict[tuple[str, int], Place]:
    """The place of the source of each message."""
    found = {cluster_host: cluster for cluster in run.network.clusters for cluster_host in cluster}
    n, k = len(run.network.hosts), len(run.network.clusters)
    near = found[CENTRAL]
    return {b.message: Place(n, k, n // k, b.origin == CENTRAL, b.origin in near) for b in run.broadcasts}


def _packets(run: MeasuredRun, formula: str, theory: Amount) -> Claim:
    """Whether each message took so many packets, and no fewer than the least."""
    sent, places = run.data_packets(), _places(run)
    wrong = [message for message, place in places.items() if sent[message] != theory(place)]
    least = 1 if run.summary.medium == "multicast" else len(run.network.hosts) - 1
    mean = sum(sent.values()) / len(places)
    load = run.summary.load_max / len(places)
    figure = f"{mean:.2f} a message, at least {least}; the busiest host, {run.summary.load_max_host}, handles {load:.2f}"
    text = f"{run.label}: packets with each message: {formula}"
    if wrong and mean < sum(map(theory, places.values())) / len(places) and run.input.run.pack_ms is not None:
        return Claim("packets", text, None, f"{figure}; messages shared packets, so run it with --pack off")
    return Claim("packets", text, not wrong and min(sent.values()) >= least, figure)


def _control(run: MeasuredRun, formula: str, alone: Amount, to_group: Amount) -> Claim:
    """Whether there were so many control packets. A few more are due where packets are late.

    A message that got its number only when the next one was on its way, as the token site was slow, needs no pass of its own: the
    acknowledgement of the next one passes the token on.
    """
    places, theory = _places(run), alone if run.summary.medium == "unicast" else to_group
    each, most = {message: theory(place) for message, place in places.items()}, 1.05 * sum(map(theory, places.values()))
    late = _overtaken(run)
    least, packets = sum(each.values()) - sum(each[message] for message in late), run.packets_for("control")
    text = f"{run.label}: beside them, {formula}, and no more than one packet in twenty for anything else"
    figure = f"{packets / len(places):.2f} a message, {sum(each.values()) / len(places):.2f} by theory"
    if late:
        figure += f"; {len(late)} of {len(places)} messages were put into order only when the next one had been sent"
    return Claim("control", text, least <= packets <= most, figure)


def _overtaken(run: MeasuredRun) -> list[tuple[str, int]]:
    """The messages of which a packet left no sooner than the first packet of the next message."""
    spans = sorted((first, last, message) for message, (first, last) in run.data_spans_ns().items())
    return [message for (_, last, message), (following, _, _) in pairwise(spans) if last >= following]


def _expensive(run: MeasuredRun, formula: str, theory: Amount) -> Claim:
    """Whether as many of the packets crossed an expensive link."""
    places = _places(run)
    packets = run.expensive_packets(frozenset(places))["data"] / len(places)
    expected, least = sum(map(theory, places.values())) / len(places), len(run.network.clusters) - 1
    text = f"{run.label}: expensive ones: {formula}"
    figure = f"{packets:.2f} a message, {expected:.2f} by theory, at least {least}"
    if packets < expected and run.input.run.pack_ms is not None:
        return Claim("expensive", text, None, f"{figure}; messages shared packets, so run it with --pack off")
    return Claim("expensive", text, abs(packets - expected) < 1e-9 and packets >= least, figure)


def _delay(run: MeasuredRun, formula: str, theory: Amount, more: int) -> Claim:
    """Whether the last host has each message after so many delays of an expensive link, and hardly later."""
    latency_ms = max(link.delay_ms for link in run.network.links)
    took, places = run.last_ms(), _places(run)
    first = _first_delivery_ms(run)
    off = [message for message, ms in took.items() if not 0 <= ms / latency_ms - theory(places[message]) <= more + SLACK]
    text = f"{run.label}: the last host delivers after {formula}"
    if len(took) < len(places):
        return Claim("delay", text, holds=False, figure=f"only {len(took)} of {len(places)} messages reached all hosts")
    figure = (
        f"{sum(took.values()) / len(took) / latency_ms:.2f} L on average and {max(took.values()) / latency_ms:.2f} L at most; "
        f"the first host after {sum(first.values()) / len(first) / latency_ms:.2f} L"
    )
    return Claim("delay", text, not off, f"{figure}; L = {latency_ms:g} ms")


def _first_delivery_ms(run: MeasuredRun) -> dict[tuple[str, int], float]:
    """From the broadcast of each message to its first delivery at another host than its source."""
    began = {broadcast.message: broadcast.at_ns for broadcast in run.broadcasts}
    first: dict[tuple[str, int], float] = {}
    for delivery in sorted(run.history.deliveries, key=lambda delivery: delivery.at_ns):
        if delivery.host != delivery.message[0]:
            first.setdefault(delivery.message, (delivery.at_ns - began[delivery.message]) / 1e6)
    return first
