"""Propagation graphs held against the third paper by other means: `python -m tests.hostagent.brute_force --sets 20000`.

Heuristic 1 must build the same forest as appendix I line by line (`benchmarks/yardsticks/appendix.py`). `problems` looks for the primary
destination and the paths of every group by trying all sites and following all edges, with no code of the protocol.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from benchmarks.yardsticks.appendix import forest
from hostagent.protocols.propagation_graph.generator import METHODS, generate, make_independent, spread_load
from hostagent.protocols.propagation_graph.graph import PropagationGraph

Edges = Mapping[str, Sequence[str]]


def problems(graph: PropagationGraph) -> Iterator[str]:
    """PG1 and PG2 by brute force. A graph with edges past sites has its own edges for each group."""
    for group, members in graph.groups.items():
        edges: dict[str, list[str]] = {site: [] for site in graph.parents}
        if graph.bypasses:
            for site in graph.parents:
                edges[site] += graph.receivers(site, group)
        else:
            for site, parent in graph.parents.items():
                if parent:
                    edges[parent].append(site)
        above = [site for site in edges if all(_paths(edges, site, member) for member in members)]
        lowest = [site for site in above if not any(_paths(edges, site, other) for other in above if other != site)]
        if lowest != [graph.primary(group)]:
            yield f"PG1: {group} has the primary destinations {lowest}, not {graph.primary(group)}"
        for member in members:
            if (number := _paths(edges, graph.primary(group), member)) != 1:
                yield f"PG2: {group} has {number} paths to {member}"
            if graph.path(group, member)[0] != graph.primary(group):
                yield f"PG2: the messages of {group} for {member} do not come from its primary destination"


def _paths(edges: Edges, start: str, end: str, seen: tuple[str, ...] = ()) -> int:
    """The number of ways from a site to another, without going in circles."""
    if start == end:
        return 1
    return sum(_paths(edges, following, end, (*seen, start)) for following in edges[start] if following not in seen)


def group_set(random: Random) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Random groups, few or many, small or large, and their sites."""
    sites = [f"h{number}" for number in range(random.randint(2, 14))]
    sizes = [random.randint(1, random.choice((3, 6, len(sites)))) for _ in range(random.randint(1, 9))]
    return {f"g{n}": tuple(random.sample(sites, min(size, len(sites)))) for n, size in enumerate(sizes)}, sites


def compare(seed: int) -> None:
    """Hold all graphs of a random set of groups against the two checks."""
    random = Random(f"{seed}/appendix")
    groups, sites = group_set(random)
    place = {site: (random.randrange(4), random.randrange(4)) for site in sites}

    def distance(one: str, other: str) -> float:
        return abs(place[one][0] - place[other][0]) + abs(place[one][1] - place[other][1])

    assert generate(groups, sites).parents == forest(groups, sites), f"seed {seed}: heuristic 1 and the appendix differ"
    for method in METHODS:
        graph = generate(groups, sites, method, distance, seed)
        for made in (graph, make_independent(graph), spread_load(graph, 2)):
            for problem in problems(made):
                raise AssertionError(f"seed {seed}, {method}: {problem}")


def main() -> None:
    """Compare as many sets of groups as asked for."""
    parser = argparse.ArgumentParser(
        prog="tests.hostagent.brute_force", description="Random groups: the generator against brute force."
    )
    parser.add_argument("--sets", type=int, default=20_000, metavar="N", help="sets of groups (default %(default)s)")
    count, began_s = parser.parse_args().sets, time.monotonic()
    for seed in range(count):
        compare(seed)
    took_s = time.monotonic() - began_s
    print(f"{count} sets of groups, each with {len(METHODS)} graphs and their changes: all as they should be, {took_s:.0f} s")


if __name__ == "__main__":
    main()
