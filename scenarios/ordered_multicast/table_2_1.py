#!./castbed run
"""Table 2.1 of the third paper: which algorithm gives which order, on which network; a claim for each cell that a run can show.

Every host is a source, at random times, so that messages cross. Where a protocol knows groups there are three, each two of which overlap in
two hosts; without them multiple-group order has no meaning. Causal order is no column of the table, and is judged beside it. A cell that
the table leaves empty is a claim too: the order is violated in the run, or the protocol works on that network all the same, which refutes
the cell.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, Unpack

from analysis.figures.claims import Claim, Entry, MeasuredRun, Runs, Table, Verdict, kept
from hostagent.contract.promises import Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from topologies import clusters
from topologies.properties import Expensive

GROUPS: Final = (
    Group("alpha", ("h1", "h2", "h3", "h4")),
    Group("beta", ("h3", "h4", "h5", "h6")),
    Group("gamma", ("h5", "h6", "h1", "h2")),
)
Medium = Literal["unicast", "multicast"]
NETWORKS: Final[Mapping[Medium, str]] = {"multicast": "broadcast network", "unicast": "point-to-point network"}


class Row(NamedTuple):
    """What the table says of an algorithm, and the protocol that is it here."""

    title: str
    source: str
    """Multiple-source order: `*` provided as is, empty for not provided."""
    group: str
    """Multiple-group order: the same, or `+` if it is provided if the algorithm is modified."""
    point: str
    """Whether it is for point-to-point networks: `*`, empty, or `x` for provided but not intended. All are for broadcast networks."""
    parameters: Mapping[str, object]
    has_groups: bool = True
    causal: bool = True
    """Whether the protocol promises causal order here."""


TABLE: Final = {
    "fan": Row("sequence numbers", "", "", "*", {"level": 3}, has_groups=False, causal=False),
    "timestamp": Row("timestamps", "*", "*", "*", {}),
    "token-site": Row("token-passing", "*", "+", "", {}, has_groups=False, causal=False),
    "sequencer": Row("sequencer", "*", "+", "x", {}, causal=False),
    "two-phase": Row("two-phase", "*", "*", "x", {}, causal=False),
    "trans-total": Row("Total", "*", "*", "", {}),
    "propagation-graph": Row("propagation graph", "*", "*", "*", {}, causal=False),
}
"""The algorithms of the table that there are here, modified so that they give multiple-group order where that is said to be possible.

The propagation graph is the third paper's own, and comes after the table.
"""
STATED: Final = {"*": "provided", "+": "provided if modified", "x": "provided, not intended", "": "empty"}


def scenario(messages: int = 200, **expensive: Unpack[Expensive]) -> list[Variant]:
    """The same stream with each protocol on both networks.

    messages: broadcasts of each run
    """
    network = clusters(3, 2, "ring", **expensive)
    stream = Workload(messages=messages, interval=10.0, arrivals="poisson", settle=3000.0)
    return [
        Variant(
            f"{protocol}-{medium}",
            Scenario(network=network, sources=network.hosts, groups=GROUPS if row.has_groups else (), workload=stream),
            protocol,
            row.parameters,
            medium=medium,
        )
        for protocol, row in TABLE.items()
        for medium in NETWORKS
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """The cells of each row, on each network."""
    for run in runs:
        row, medium = TABLE[run.input.run.protocol], run.input.run.medium
        yield _works(run, row.title, row.point if medium == "unicast" else "*")
        yield _cell(run, row.title, Scope.SINGLE_SOURCE, "*")
        yield _cell(run, row.title, Scope.MULTIPLE_SOURCE, row.source)
        if row.has_groups:
            yield _cell(run, row.title, Scope.MULTIPLE_GROUP, row.group)
        if row.causal:
            yield kept("no column", run, Order(Scope.CAUSAL, Strength.STRICT), expected=True)


def _cell(run: MeasuredRun, title: str, scope: Scope, stated: str) -> Claim:
    """A cell of the columns with orders."""
    claim = kept("Table 2.1", run, Order(scope, Strength.STRICT), expected=bool(stated))
    outcome = "holds" if stated else "is violated"
    return Claim("Table 2.1", f"{run.label}: {title}, {scope} order, {STATED[stated]}: {outcome}", claim.holds, claim.figure)


def _works(run: MeasuredRun, title: str, stated: str) -> Claim:
    """A cell of the columns with networks: whether each message was delivered by all its destinations."""
    complete, number = _complete(run)
    network = NETWORKS[run.input.run.medium]
    text = f"{run.label}: {title}, {network}, {STATED[stated]}: {'works' if stated else 'works all the same, which refutes the cell'}"
    return Claim("Table 2.1", text, complete == number, f"{complete} of {number} messages delivered everywhere")


def _complete(run: MeasuredRun) -> tuple[int, int]:
    """How many messages all their destinations delivered, and how many there were."""
    delivered, destinations = run.delivered(), run.history.destinations
    return sum(all(message in delivered[host] for host in hosts) for message, hosts in destinations.items()), len(destinations)


def tables(runs: Runs) -> Iterator[Table]:
    """The table: what it says of each algorithm on each network, and what the runs show."""
    rows = {}
    for run in runs:
        row, medium = TABLE[run.input.run.protocol], run.input.run.medium
        orders = {Scope.SINGLE_SOURCE: "*", Scope.MULTIPLE_SOURCE: row.source}
        orders |= {Scope.MULTIPLE_GROUP: row.group} if row.has_groups else {}
        complete, number = _complete(run)
        network = row.point if medium == "unicast" else "*"
        cells = {f"{scope} order": _entry(run, scope, stated) for scope, stated in orders.items()}
        works = Entry(STATED[network], "works" if complete == number else "fails", agrees=bool(network) == (complete == number))
        rows[f"{row.title}, {NETWORKS[medium]}"] = {"network": works, **cells}
    yield Table("Table 2.1", "Which algorithm gives which order on which network", rows)


def _entry(run: MeasuredRun, scope: Scope, stated: str) -> Entry:
    verdict = run.finding(Order(scope, Strength.STRICT)).verdict
    return Entry(STATED[stated], str(verdict), agrees=(verdict is Verdict.HOLDS) == bool(stated))
