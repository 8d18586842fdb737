#!./castbed run
"""What each way to build a propagation graph costs: expensive packets per message, in clusters and on a grid (third paper, section 4.4).

The same overlapping groups on both networks, built in all six ways; every host sends. On a grid nearly every packet between hosts is
expensive, so extra hosts cost most; in clusters it matters more that neighbours pass messages on to each other.
"""

from collections.abc import Iterator
from typing import Annotated, Final

from analysis.figures.claims import Claim, MeasuredRun, Runs, Sweep, ways
from scenarios import Scenario, ScenarioError, Variant, Workload
from scenarios.groups import random_groups
from topologies import clusters, grid

HEURISTICS: Final = ("heuristic-1", "heuristic-2", "heuristic-3")
TREES: Final = ("minimum-spanning-tree", "shortest-path-tree")
GRAPHS: Final = (*HEURISTICS, "random", *TREES)
NETWORKS: Final = {"clusters": clusters(4, 4, "ring"), "grid": grid(4, 4, 1)}


def some_graphs(text: str) -> tuple[str, ...]:
    """Ways to build a graph, separated by commas."""
    chosen = tuple(text.split(","))
    if unknown := [name for name in chosen if name not in GRAPHS]:
        raise ScenarioError(f"there is no graph {unknown[0]!r}: choose from {', '.join(GRAPHS)}")
    return chosen


def scenario(graphs: Annotated[tuple[str, ...], some_graphs] = GRAPHS, draw: int = 1) -> list[Variant]:
    """Eight random groups of four among sixteen hosts; another `draw` gives other groups.

    graphs: the ways to build a propagation graph, a run for each
    draw: which random groups
    """
    stream = Workload(messages=160, interval=25.0, arrivals="poisson", settle=2000.0)
    made = {
        place: Scenario(network=network, sources=network.hosts, groups=random_groups(network.hosts, 8, 4, draw), workload=stream)
        for place, network in NETWORKS.items()
    }
    return [
        Variant(f"{place}-{method}", scenario, "propagation-graph", {"graph": method})
        for place, scenario in made.items()
        for method in graphs
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """Which graphs are cheap on which network, and what the trees over the network cost in extra hosts."""
    for place in NETWORKS:
        of = {run.summary.parameters["graph"]: run for run in runs if run.label.startswith(place)}
        packets = {graph: run.summary.cost.expensive_data_packets_per_message or 0.0 for graph, run in of.items()}
        crossings = {graph: run.summary.cost.expensive_data_crossings_per_message or 0.0 for graph, run in of.items()}
        extra = {graph: _extra(run) for graph, run in of.items()}
        yield _cheapest(place, packets, min((run.summary.cost.lower_bound for run in of.values()), default=0.0))
        yield _below("4.4", f"{place}: trees over the network cross fewer expensive links", crossings, TREES, HEURISTICS)
        yield _below("4.14", f"{place}: trees over the network have more extra hosts", extra, HEURISTICS, TREES)


def _cheapest(place: str, packets: dict[str, float], least: float) -> Claim:
    """In clusters a tree over the network is to be the cheapest, on the grid a heuristic."""
    cheap, word = (TREES, "a tree over the network") if place == "clusters" else (HEURISTICS, "a heuristic")
    told = ", ".join(f"{graph} {cost:.2f}" for graph, cost in sorted(packets.items(), key=lambda item: item[1]))
    figure = f"{told}; at least {least:.2f}"
    text = f"{place}: {word} takes the fewest expensive packets"
    if {*packets}.isdisjoint(TREES) or {*packets}.isdisjoint(HEURISTICS):
        return Claim("4.4", text, None, f"{figure}; there must be runs of heuristics and of trees")
    return Claim("4.4", text, min(packets, key=lambda graph: packets[graph]) in cheap, figure)


def _below(number: str, text: str, found: dict[str, float], low: tuple[str, ...], high: tuple[str, ...]) -> Claim:
    """Whether all graphs of one kind are below all of another kind."""
    lows, highs = ({graph: found[graph] for graph in kind if graph in found} for kind in (low, high))
    figure = "; ".join(f"{graph} {value:.2f}" for graph, value in {**lows, **highs}.items())
    return Claim(number, text, max(lows.values()) < min(highs.values()) if lows and highs else None, figure)


def _extra(run: MeasuredRun) -> float:
    """The extra hosts on the way of a message, on average."""
    found = ways(run)
    return sum(way.extra for way in found.values()) / len(found)


def sweep(runs: Runs) -> Sweep:
    """The expensive packets of a message with each graph, as a multiple of the least that its destinations allow."""
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for run in runs:
        place, cost = run.label.partition("-")[0], run.summary.cost
        x, packets = float(GRAPHS.index(run.summary.parameters["graph"])), cost.expensive_data_packets_per_message or 0.0
        multiple = packets / cost.lower_bound if cost.lower_bound else 0.0
        lines.setdefault(place, []).append((x, multiple, f"{multiple:.2f}"))
    return Sweep(
        title="Cost of a message with each propagation graph",
        x="",
        y="expensive packets with a message\nas a multiple of the least there must be",
        lines=lines,
        ticks=GRAPHS,
    )
