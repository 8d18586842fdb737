"""Journeys: what the captures of a run together say of each host-to-host packet, however many links it was seen on.

There are as many journeys as packets, and nobody looks at them one by one. So workers make them out of the packets table, as arrays, and
hand over only how many had the same fate and what each message cost. A task takes some of a run's packets, chosen by the low bits of
their numbers, so that all sightings of a packet meet in one task and a long run is shared out. It reads the table past all others: of
five million sightings, that is half of the work, and from there on it grows with their square.

Cost is packets. Where several messages share a datagram (kind 255, `hostagent.contract.wire.PACK`), it is one packet, and it counts for
the message that its header names, the first of those with the lowest purpose: so a message may cost nothing, and costs per message are to
be read over a stream.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from analysis.tables.scan import Batches, batch_of, distribute, packets_table
from hostagent.contract.messages import Purpose
from hostagent.contract.wire import COST_DSCP
from runfiles.reading import RunInput

FATES: Final = pa.schema(
    [
        ("gap", pa.bool_()),
        ("repeated", pa.bool_()),
        ("wrong_bit", pa.bool_()),
        ("vanished_at", pa.string()),
        ("disturbed", pa.bool_()),
        ("example", pa.string()),
    ]
)
MESSAGES: Final = pa.schema([("origin", pa.string()), ("sequence", pa.int64()), ("purpose", pa.string())])
COUNTED: Final = pa.schema([("run", pa.int32()), *FATES, *MESSAGES, ("packets", pa.int64())])
"""What workers hand over: rows of packets that had the same fate, with an `example`, and rows without one, of the packets that crossed an
expensive link for a message. `run` is the position of the run in the job."""

# Sightings in a task: some 200 MB of arrays.
_SIGHTINGS: Final = 1 << 20
_NODES: Final = ("source", "target", "sender", "destination", "origin")
_READ: Final = (*_NODES, "purpose", "packet", "sequence", "at_ns", "dscp", "expensive")
_PURPOSES: Final = pa.array([purpose.name.lower() for purpose in Purpose])

Numbers = NDArray[Any]


class Journeys(NamedTuple):
    """An entry in each array is a packet, in the order of senders and their numbers. Nodes are positions in a list, -1 is none.

    `gap`: it left a node that it was never seen to reach. `repeated`: it was seen twice in one direction of a link. `vanished_at`: the
    node that it was seen to reach and not to leave, if it did not arrive. `wrong_bit`: at its destination, the cost bit was not what the
    links say.
    """

    sender: Numbers
    packet: Numbers
    destination: Numbers
    origin: Numbers
    sequence: Numbers
    purpose: Numbers
    expensive: Numbers
    last_ns: Numbers
    gap: Numbers
    repeated: Numbers
    vanished_at: Numbers
    wrong_bit: Numbers


def count_journeys(
    spark: SparkSession, runs: Sequence[RunInput], disturbed: Sequence[Sequence[tuple[int, int]]]
) -> tuple[pa.Table, pa.Table]:
    """How many packets of each run had the same fate, and what each message cost; both with a column `run`.

    `disturbed` holds, for each run, the intervals of link failures, which do not overlap.
    """
    tasks = [
        partial(_counted, number, run, disturbed[number], some, of)
        for number, run in enumerate(runs)
        for of in [_tasks(packets_table(run.directory))]
        for some in range(of)
    ]
    found = distribute(spark, tasks, COUNTED).toArrow()
    is_fate = found["example"].is_valid()
    fates = found.filter(is_fate).group_by(["run", *FATES.names[:-1]], use_threads=False)
    costs = found.filter(pc.invert(is_fate)).group_by(["run", *MESSAGES.names], use_threads=False)
    return (
        _renamed(fates.aggregate([("packets", "sum"), ("example", "first")]), ("run", *FATES.names[:-1], "packets", "example")),
        _renamed(costs.aggregate([("packets", "sum")]), ("run", *MESSAGES.names, "packets")),
    )


def _tasks(place: Path) -> int:
    """How many tasks share a table: none, or a power of two."""
    sightings = sum(pq.read_metadata(file).num_rows for file in place.glob("part-*"))
    return 1 << (sightings // _SIGHTINGS).bit_length() if sightings else 0


def _counted(number: int, run: RunInput, disturbed: Sequence[tuple[int, int]], some: int, of: int) -> Batches:
    """Count the journeys of a part of a run's packets."""
    nodes = [*run.network.hosts, *run.network.switches]
    found = journeys(_read(packets_table(run.directory), some, of), nodes)
    names = pa.array(nodes)
    for table in (_fates(found, names, disturbed), _message_costs(found, names)):
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        yield batch_of(COUNTED, table.num_rows, columns | {"run": pa.repeat(number, table.num_rows)})


def _read(place: Path, some: int, of: int) -> pa.Table:
    """The sightings of every packet of ours whose number ends in `some`, with texts as numbers."""
    form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=(*_NODES, "purpose")))
    chosen = pc.bit_wise_and(ds.field("packet"), of - 1) == some
    return ds.dataset(place, format=form).to_table(list(_READ), filter=chosen, use_threads=False)


def journeys(sightings: pa.Table, nodes: Sequence[str]) -> Journeys:
    """The journeys of packets from all that was seen of them: rows of the packets table that have a `packet`."""
    names = pa.array(nodes)
    seen = {name: _positions(sightings[name], names) for name in _NODES}
    seen |= {"purpose": _positions(sightings["purpose"], _PURPOSES)}
    seen |= {name: sightings[name].to_numpy() for name in ("packet", "sequence", "at_ns", "expensive")}
    seen |= {"marked": pc.equal(sightings["dscp"], COST_DSCP).to_numpy()}
    order = np.lexsort((seen["at_ns"], seen["packet"], seen["sender"]))
    seen = {name: values[order] for name, values in seen.items()}
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (np.diff(seen["sender"]) != 0) | (np.diff(seen["packet"]) != 0)
    first, journey = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    if not len(first):
        return Journeys(*(np.empty(0, np.int64) for _ in Journeys._fields))

    def any_of(flags: Numbers) -> Numbers:
        return np.logical_or.reduceat(flags, first)

    source, target = (journey * len(nodes) + seen[name] for name in ("source", "target"))
    from_nowhere, stays = ~np.isin(source, target), ~np.isin(target, source)
    is_sender = seen["source"] == seen["sender"]
    hops = np.sort(source * len(nodes) + seen["target"])
    repeated = np.zeros(len(first), np.bool_)
    repeated[hops[1:][hops[1:] == hops[:-1]] // len(nodes) ** 2] = True
    arriving = seen["target"] == seen["destination"]
    # Where a packet goes in circles, every node that it reaches it leaves, and the last node by time is its end.
    rows = np.arange(len(order))
    end = np.maximum.reduceat(np.where(stays, rows, -1), first)
    end = np.where(end < 0, np.append(first[1:], len(order)) - 1, end)
    lost = ~any_of(arriving) & (seen["destination"][first] >= 0)
    expensive = any_of(seen["expensive"])
    return Journeys(
        **{name: seen[name][first] for name in ("sender", "packet", "destination", "origin", "sequence", "purpose")},
        expensive=expensive,
        last_ns=np.maximum.reduceat(seen["at_ns"], first),
        gap=any_of(from_nowhere & ~is_sender) | ~any_of(from_nowhere),
        repeated=repeated,
        vanished_at=np.where(lost, seen["target"][end], -1),
        wrong_bit=any_of(arriving & (seen["marked"] != expensive[journey])),
    )


def _positions(texts: pa.ChunkedArray, known: pa.Array) -> Numbers:
    """The place of each text in a list of those that are known; -1 if it is none of them."""
    parts = [
        pc.index_in(chunk.dictionary, value_set=known).take(chunk.indices)
        for chunk in (part if pa.types.is_dictionary(part.type) else part.dictionary_encode() for part in texts.chunks)
    ]
    found: Numbers = pc.fill_null(pa.chunked_array(parts, pa.int32()), -1).to_numpy()
    return found.astype(np.int64)


def _fates(found: Journeys, names: pa.Array, disturbed: Sequence[tuple[int, int]]) -> pa.Table:
    """How many packets had the same fate, with the first of them as an example."""
    starts, ends = np.array(disturbed, np.int64).reshape(-1, 2).T
    interval = np.searchsorted(starts, found.last_ns, side="right") - 1
    is_disturbed = (interval >= 0) & (found.last_ns <= np.append(ends, 0)[interval])
    parts = (found.gap, found.repeated, found.wrong_bit, is_disturbed, found.vanished_at + 1)
    fate = np.ravel_multi_index(parts, (2, 2, 2, 2, len(names) + 1))
    _, example, count = np.unique(fate, return_index=True, return_counts=True)
    return pa.table(
        {
            "gap": found.gap[example],
            "repeated": found.repeated[example],
            "wrong_bit": found.wrong_bit[example],
            "vanished_at": _named(found.vanished_at[example], names),
            "disturbed": is_disturbed[example],
            "packets": count,
            "example": [
                # The high half of a packet's number is the incarnation of its sender; people count within it.
                f"packet {found.packet[each] & 0xFFFFFFFF} of {names[found.sender[each]]} to "
                f"{names[found.destination[each]] if found.destination[each] >= 0 else 'nobody'}"
                for each in example
            ],
        }
    )


def _message_costs(found: Journeys, names: pa.Array) -> pa.Table:
    """Distinct host-to-host packets that crossed an expensive link, by message and purpose. Sequence 0 is about no message."""
    paid = found.expensive.astype(np.bool_)
    columns = {"origin": found.origin[paid], "sequence": found.sequence[paid], "purpose": found.purpose[paid]}
    counted = pa.table(columns).group_by(list(columns), use_threads=False).aggregate([([], "count_all")])
    return pa.table(
        {
            "origin": names.take(counted["origin"]),
            "sequence": counted["sequence"],
            "purpose": _PURPOSES.take(counted["purpose"]),
            "packets": counted["count_all"],
        }
    )


def _named(positions: Numbers, names: pa.Array) -> pa.Array:
    return names.take(pa.array(positions, mask=positions < 0))


def _renamed(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.rename_columns(list(names))
