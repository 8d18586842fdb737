#!./castbed run
"""Figure 3.2 as a system: eight overlapping groups of ten hosts, one order for all, and n + e packets per message (third paper).

The same groups on three networks of different shape. All hosts are sources, also of groups that they are not in. Run it with --pack off:
where messages share packets, there are fewer than theory says.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept, ways
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
    """The order, the packets of every group, and the longest times against the bounds P4 and Q3."""
    for run in runs:
        yield kept("order", run, ONE_ORDER, expected=True)
        yield kept("order", run, Guarantee.CONVERGENCE, expected=True)
        yield _packets(run)
        for bound in run.input.run.promise.time_bounds:
            yield kept("7.2.1", run, bound, expected=True)


def _packets(run: MeasuredRun) -> Claim:
    """Whether each message took n + e packets, or one less where its source is the primary destination."""
    on_multicast = run.input.run.medium == "multicast"
    sent, found = run.data_packets(), ways(run)
    expected = {message: way.packets(message[0], multicasts=on_multicast) for message, way in found.items()}
    wrong = [message for message, packets in expected.items() if sent[message] != packets]
    each = "one packet from each host that passes a message on" if on_multicast else "n + e packets with each message"
    text = f"{run.label}: {each}, {'one more to' if on_multicast else 'one less from'} a primary destination"
    figure = f"{sum(sent.values())} packets for {len(expected)} messages, {sum(expected.values())} expected"
    if wrong and sum(sent.values()) < sum(expected.values()) and run.input.run.pack_ms is not None:
        return Claim("N = n + e", text, None, f"{figure}; messages shared packets, so run it with --pack off")
    return Claim("N = n + e", text, not wrong, figure)
