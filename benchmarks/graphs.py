"""The generator of propagation graphs, compared with the pseudo-code of the third paper's appendix I done line by line.

Both build the same forest for random groups, 40 of 40 sites each among up to a thousand sites as at the far end of the paper's experiments
(section 4.1.1). The other methods are shown beside heuristic 1, with distances on a grid that are known. Times are processor time.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import msgspec

from benchmarks import report
from benchmarks.yardsticks.appendix import forest
from hostagent.protocols.propagation_graph.generator import METHODS, Method, generate
from scenarios.groups import random_groups

SITES, COLUMNS = 1000, 40
NUMBER, SIZE = 40, 40
# Not slower than the text, which goes through all groups for every site: both take well below a second.
TARGET = 1.0


def _timed(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def measure(arguments: argparse.Namespace) -> report.Result:
    """Let both build the same graphs, in turn."""
    sites = tuple(f"h{number}" for number in range(arguments.sites))
    place = {site: divmod(number, COLUMNS) for number, site in enumerate(sites)}
    groups = {group.name: group.members for group in random_groups(sites, NUMBER, min(SIZE, len(sites)), seed=1)}
    if generate(groups, sites).parents != forest(groups, sites):
        raise AssertionError("heuristic 1 and the appendix build different forests")

    def distance(one: str, other: str) -> float:
        return abs(place[one][0] - place[other][0]) + abs(place[one][1] - place[other][1])

    def build(side: str) -> object:
        return generate(groups, sites, msgspec.convert(side, Method), distance) if side != "appendix" else forest(groups, sites)

    took: dict[str, list[float]] = {name: [] for name in ("appendix", *METHODS)}
    for number in range(arguments.repeat):
        for side in report.in_turn(number, *took):
            took[side].append(_timed(partial(build, side)))
    comparisons = [
        report.Comparison(method, "s", took[method], took["appendix"], TARGET if method == "heuristic-1" else None)
        for method in METHODS
    ]
    return report.Result(f"Propagation graphs, {NUMBER} groups of {SIZE} among {len(sites):,} sites", "appendix I", comparisons)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.graphs", description="The generator of propagation graphs against appendix I."
    )
    parser.add_argument("--repeat", type=report.positive, default=3, metavar="N", help="take the median of N (default 3)")
    parser.add_argument("--sites", type=report.positive, default=SITES, metavar="N", help=f"sites (default {SITES})")
    return report.main(parser, measure)


if __name__ == "__main__":
    raise SystemExit(main())
