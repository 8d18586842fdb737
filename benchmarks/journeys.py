"""Journeys and books: from a packets table to what became of each packet, with five million sightings and with ten million.

Host h1 sends datagrams to every other host of two LANs, and each is seen on all links of its way; the table is what captures of about
100 bytes a packet, 1.2 GB for ten million, leave behind. Spark's workers follow the journeys, with the session up; the books are then
balanced, and their share of checked packets is printed. The yardstick for ten million sightings is the time for five million.
"""

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.books import Books, Fates, LinkCost, balance, told_books
from analysis.crew import Crew
from analysis.tables.journeys import count_journeys
from analysis.tables.scan import LINK_COSTS, PACKETS, batch_of, packets_table
from benchmarks import report
from benchmarks.pcap import NETWORK, run_of
from hostagent.contract.wire import COST_DSCP
from runfiles.reading import RunInput
from testbed.errors import CannotRun
from testbed.terminal import errors
from topologies.network import Link

FEWER, MORE = 5_000_000, 10_000_000
TARGET: Final = 2.2
PER_FILE: Final = 1_000_000
SENDER, *RECEIVERS = NETWORK.hosts


def way(destination: str) -> list[tuple[str, str, Link]]:
    """The links from the sender to another host, in the order in which a datagram crosses them."""
    first, last = NETWORK.access_switch(SENDER), NETWORK.access_switch(destination)
    nodes = [SENDER, first, *([last] if last != first else []), destination]
    return [(one, other, NETWORK.link(one, other)) for one, other in pairwise(nodes)]


def make_run(directory: Path, sightings: int) -> RunInput:
    """A run whose packets table has so many sightings."""
    place = packets_table(directory)
    place.mkdir(parents=True)
    hops = [(destination, *hop) for destination in RECEIVERS for hop in way(destination)]
    packets, sent = sightings // len(hops), 0
    for file in range(-(-sightings // PER_FILE)):
        count = min(PER_FILE // len(hops), packets - sent)
        batches = [_sightings(np.arange(sent, sent + count), number, hop) for number, hop in enumerate(hops)]
        pq.write_table(pa.Table.from_batches(batches), place / f"part-{file}.parquet")
        sent += count
    counters = {SENDER: {"sent": sent * len(RECEIVERS)}} | {host: {"received": sent} for host in RECEIVERS}
    run = run_of(Path("unused"), directory)
    return RunInput(directory, msgspec.structs.replace(run.run, captures=(), engine="simulator"), NETWORK, counters, ())


def _sightings(
    sent: "np.ndarray[tuple[int], np.dtype[np.int64]]", number: int, hop: tuple[str, str, str, Link]
) -> pa.RecordBatch:
    """The sightings of some datagrams on one link of their way."""
    (destination, source, target, link), count = hop, len(sent)
    crosses = any(expensive.expensive for _, _, expensive in way(destination))
    texts = {"link": link.name, "source": source, "target": target, "sender": SENDER, "destination": destination}
    columns = {name: pa.repeat(text, count) for name, text in {**texts, "purpose": "data", "origin": SENDER}.items()}
    # The switch before the expensive link sets the cost bit.
    marked = crosses and source != SENDER
    numbers = {
        "at_ns": sent * 1000 + number,
        "packet": sent * len(RECEIVERS) + RECEIVERS.index(destination) + 1,
        "sequence": sent + 1,
    }
    same = {"expensive": link.expensive, "dscp": COST_DSCP if marked else 0, "bytes": 100, "protocol": 1, "kind": 1, "group": 0}
    return batch_of(PACKETS, count, columns | numbers | {name: pa.repeat(value, count) for name, value in same.items()})


def follow(crew: Crew, run: RunInput) -> tuple[float, Books]:
    """The seconds in which the journeys of a run are followed, and its books."""
    began_s = time.perf_counter()
    found = count_journeys(crew, [run])
    took_s = time.perf_counter() - began_s
    fates = msgspec.convert(found.fates.drop_columns("run").to_pylist(), list[Fates])
    return took_s, balance(run, _link_costs(run), fates, ())


def _link_costs(run: RunInput) -> list[LinkCost]:
    """What each link carried."""
    kinds = [name for name in LINK_COSTS.names if name not in {"packets", "bytes"}]
    table = pq.read_table(packets_table(run.directory), columns=[*kinds, "bytes"])
    sums = table.group_by(kinds).aggregate([([], "count_all"), ("bytes", "sum")]).rename_columns(LINK_COSTS.names)
    return msgspec.convert(sums.to_pylist(), list[LinkCost])


def measure(arguments: argparse.Namespace) -> report.Result:
    """Follow the journeys of both tables, in turn."""
    crew = Crew()
    crew.begin()
    with tempfile.TemporaryDirectory(prefix="castbed-journeys-", dir=arguments.scratch) as private:
        runs = {}
        for sightings in (FEWER, MORE):
            errors.print(f"writing {sightings:,} sightings")
            runs[f"{sightings:,}"] = make_run(Path(private, str(sightings)), sightings)
        follow(crew, runs[f"{FEWER:,}"])
        took: dict[str, list[float]] = {name: [] for name in runs}
        told = {}
        for number in range(arguments.repeat):
            for name in report.in_turn(number, *runs):
                errors.print(f"{name} sightings, {number + 1} of {arguments.repeat}")
                took_s, books = follow(crew, runs[name])
                took[name].append(took_s)
                told[name] = f"{name} sightings, {books.packets:,} packets: {told_books(books)}"
                if not books.balanced:
                    raise CannotRun(f"the books do not balance: {books.differences[0]}")
    fewer, more = took.values()
    what = f"{MORE:,} sightings; {FEWER:,}"
    return report.Result("Journeys", "yardstick", [report.Comparison(what, "s", more, fewer, TARGET)], list(told.values()))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="benchmarks.journeys", description="From a packets table to journeys and books.")
    parser.add_argument("--repeat", type=report.positive, default=3, metavar="N", help="take the median of N (default 3)")
    parser.add_argument("--scratch", type=Path, metavar="FOLDER", help="where to write tables (default: the usual one)")
    return report.main(parser, measure)


if __name__ == "__main__":
    raise SystemExit(main())
