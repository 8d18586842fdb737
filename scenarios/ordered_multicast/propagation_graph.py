#!./castbed run
"""Figure 3.2 as a system: eight overlapping groups of ten hosts, one order for all, and n + e packets per message (third paper).

The same groups on three networks of different shape. All hosts are sources, also of groups that they are not in. Run it with --pack off:
where messages share packets, there are fewer than theory says.
"""

from collections import Counter
from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from topologies import clusters, grid

FIGURE_3_2 = {"cd": "34", "abc": "123", "bcde": "2345", "ef": "56", "def": "456", "bg": "27", "ch": "38", "dj": ("4", "10")}
NETWORKS = {"ring": clusters(5, 2, "ring"), "line": clusters(2, 5, "line"), "grid": grid(2, 5, 1)}
ONE_ORDER = Order(Scope.MULTIPLE_GROUP, Strength.STRICT)


def scenario() -> list[Variant]:
    """Random sources and groups, on each network."""
    groups = tuple(Group(name, tuple(f"h{number}" for number in members)) for name, members in FIGURE_3_2.items())
    stream = Workload(messages=160, interval=30.0, arrivals="poisson", settle=3000.0)
    return [
        Variant(label, Scenario(network=network, sources=network.hosts, groups=groups, workload=stream), "propagation-graph")
        for label, network in NETWORKS.items()
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """The order, and the packets of every group."""
    for run in runs:
        yield kept("order", run, ONE_ORDER, expected=True)
        yield kept("order", run, Guarantee.CONVERGENCE, expected=True)
        yield _packets(run)


def _packets(run: MeasuredRun) -> Claim:
    """Whether each message took n + e packets, or one less where its source is the primary destination."""
    sent, expected = run.data_packets(), _expected(run)
    wrong = {message: (sent[message], packets) for message, packets in expected.items() if sent[message] != packets}
    text = f"{run.label}: n + e packets with each message, one less from a primary destination"
    figure = f"{sum(sent.values())} packets for {len(expected)} messages, {sum(expected.values())} expected"
    if wrong and sum(sent.values()) < sum(expected.values()) and run.input.run.pack_ms is not None:
        return Claim("N = n + e", text, None, f"{figure}; messages shared packets, so run it with --pack off")
    return Claim("N = n + e", text, not wrong, figure)


def _expected(run: MeasuredRun) -> Counter[tuple[str, int]]:
    """The packets of each message by theory, from the forest that the hosts report."""
    parents = {change.host: change.parent for change in run.history.parents}
    expected = Counter[tuple[str, int]]()
    for message, hosts in run.history.destinations.items():
        paths = [_path(host, parents) for host in hosts]
        primary = next(site for site in paths[0] if all(site in path for path in paths))
        sites = {site for path in paths for site in path[: path.index(primary) + 1]}
        expected[message] = len(sites) - (message[0] == primary)
    return expected


def _path(host: str, parents: dict[str, str]) -> list[str]:
    """A host, its parent, and so on up to the root."""
    found = [host]
    while parent := parents.get(found[-1]):
        found.append(parent)
    return found
