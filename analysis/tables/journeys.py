"""Journeys: for each host-to-host packet, what all captures of a run together say about it.

There are as many journeys as packets, and nobody looks at single ones. So workers compute journeys from the packets table, as arrays, and
return only how many packets had the same fate and what each message cost. A task takes a share of the packets of a run, chosen by the low
bits of the packets' numbers, so that all sightings of a packet are in one task and a long run has several tasks. Each task reads the whole
table and keeps its share. Up to five million sightings that is half of the work; beyond that it grows with the square.

Cost counts packets. A datagram that several messages share (kind 255, `hostagent.contract.wire.PACK`) is one packet. It counts for the
message that its header names: the first of the messages with the lowest purpose. So a single message may cost nothing, and costs per
message are meaningful over a stream only.
"""

from collections.abc import Iterable, Mapping, Sequence
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

from analysis.excuses import Excuse, excuses
from analysis.tables.scan import Batches, batch_of, distribute, packets_table
from hostagent.contract.messages import Purpose
from hostagent.contract.wire import COST_DSCP
from runfiles.controller_log import read_controller_log
from runfiles.reading import RunInput

FATES: Final = pa.schema(
    [
        ("gap", pa.bool_()),
        ("repeated", pa.bool_()),
        ("wrong_bit", pa.bool_()),
        ("vanished_at", pa.string()),
        ("excused", pa.bool_()),
        ("checked", pa.bool_()),
        ("unpaid", pa.bool_()),
        ("example", pa.string()),
    ]
)
MESSAGES: Final = pa.schema([("origin", pa.string()), ("sequence", pa.int64()), ("purpose", pa.string())])
COUNTED: Final = pa.schema([("run", pa.int32()), *FATES, *MESSAGES, ("packets", pa.int64())])
"""What workers return. Rows with an `example` count packets of the same fate; rows without one count the packets that crossed an expensive
link for a message. `run` is the position of the run in the job."""

# The number of sightings in a task: about 200 MB of arrays.
_SIGHTINGS: Final = 1 << 20
_NODES: Final = ("source", "target", "sender", "destination", "origin")
_READ: Final = (*_NODES, "purpose", "packet", "sequence", "at_ns", "dscp", "expensive")
_PURPOSES: Final = pa.array([purpose.name.lower() for purpose in Purpose])
_FLAGS: Final = tuple(field.name for field in FATES if pa.types.is_boolean(field.type))

Numbers = NDArray[Any]


class Journeys(NamedTuple):
    """Journeys as arrays with one entry for each packet, ordered by sender and packet number. Nodes are positions in a list; -1 is no node.

    `gap`: the packet left a node that it was never seen to reach. `repeated`: it was seen twice in one direction of a link. `vanished_at`:
    if the packet did not arrive, the node that it was seen to reach but not to leave. `wrong_bit`: at the destination, the cost bit did not
    agree with the links that the packet crossed. `excused`: a fault explains that the packet vanished there, or, if the packet arrived,
    that it went in a circle. `checked`: at no place on its way would a fault have excused a loss, or loss was certain (`analysis.excuses`).
    `unpaid`: the packet vanished before the first of the expensive links that it would have had to cross.
    """

    sender: Numbers
    packet: Numbers
    destination: Numbers
    origin: Numbers
    sequence: Numbers
    purpose: Numbers
    expensive: Numbers
    gap: Numbers
    repeated: Numbers
    vanished_at: Numbers
    wrong_bit: Numbers
    excused: Numbers
    checked: Numbers
    unpaid: Numbers


class NetworkFacts(NamedTuple):
    """What there is to know of a run's network: its nodes, the switch and the cluster of each host, and what its faults explain."""

    nodes: tuple[str, ...]
    switch_of: Mapping[str, str]
    cluster_of: Mapping[str, int]
    excuses: tuple[Excuse, ...]


def facts_of(run: RunInput) -> NetworkFacts:
    """What the journeys of a run's packets are held against."""
    network = run.network
    return NetworkFacts(
        nodes=(*network.hosts, *network.switches),
        switch_of={host: network.access_switch(host) for host in network.hosts},
        cluster_of={host: number for number, cluster in enumerate(network.clusters) for host in cluster},
        excuses=excuses(network, run.faults, read_controller_log(run.directory)),
    )


def count_journeys(spark: SparkSession, runs: Sequence[RunInput]) -> tuple[pa.Table, pa.Table]:
    """The number of packets of each fate, and the cost of each message; both tables have a column `run`."""
    tasks = [
        partial(_counted, number, run.directory, facts, some, of)
        for number, run in enumerate(runs)
        for facts in [facts_of(run)]
        for of in [_tasks(packets_table(run.directory))]
        for some in range(of)
    ]
    found = distribute(spark, tasks, COUNTED).toArrow()
    is_fate = found["example"].is_valid()
    fates = found.filter(is_fate).group_by(["run", *FATES.names[:-1]], use_threads=False)
    costs = found.filter(pc.invert(is_fate)).group_by(["run", *MESSAGES.names], use_threads=False)
    return (
        fates.aggregate([("packets", "sum"), ("example", "first")]).rename_columns(
            ["run", *FATES.names[:-1], "packets", "example"]
        ),
        costs.aggregate([("packets", "sum")]).rename_columns(["run", *MESSAGES.names, "packets"]),
    )


def _tasks(place: Path) -> int:
    """The number of tasks for a table: a power of two, or none for an empty table."""
    sightings = sum(pq.read_metadata(file).num_rows for file in place.glob("part-*"))
    return 1 << (sightings // _SIGHTINGS).bit_length() if sightings else 0


def _counted(number: int, directory: Path, facts: NetworkFacts, some: int, of: int) -> Batches:
    """Count the journeys of share `some` of the packets of a run; there are `of` shares."""
    found = journeys(_read(packets_table(directory), some, of), facts)
    names = pa.array(facts.nodes)
    for table in (_fates(found, names), _message_costs(found, names)):
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        yield batch_of(COUNTED, table.num_rows, columns | {"run": pa.repeat(number, table.num_rows)})


def _read(place: Path, some: int, of: int) -> pa.Table:
    """The sightings of every packet whose number modulo `of` is `some`, with texts encoded as dictionaries."""
    form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=(*_NODES, "purpose")))
    chosen = pc.bit_wise_and(ds.field("packet"), of - 1) == some
    return ds.dataset(place, format=form).to_table(list(_READ), filter=chosen, use_threads=False)


def journeys(sightings: pa.Table, facts: NetworkFacts) -> Journeys:
    """The journeys of packets from their sightings: rows of the packets table that have a `packet`."""
    nodes, names = facts.nodes, pa.array(facts.nodes)
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
    # A packet in a routing loop leaves every node that it reaches; its end is then the last node by time.
    rows = np.arange(len(order))
    end = np.maximum.reduceat(np.where(stays, rows, -1), first)
    end = np.where(end < 0, np.append(first[1:], len(order)) - 1, end)
    lost = ~any_of(arriving) & (seen["destination"][first] >= 0)
    expensive = any_of(seen["expensive"])
    excused, unchecked = _excused(seen, facts)
    cluster = np.array([*(facts.cluster_of.get(node, -1) for node in nodes), -1])
    is_far = cluster[seen["sender"][first]] != cluster[seen["destination"][first]]
    return Journeys(
        **{name: seen[name][first] for name in ("sender", "packet", "destination", "origin", "sequence", "purpose")},
        expensive=expensive,
        gap=any_of(from_nowhere & ~is_sender) | ~any_of(from_nowhere),
        repeated=repeated,
        vanished_at=np.where(lost, seen["target"][end], -1),
        wrong_bit=any_of(arriving & (seen["marked"] != expensive[journey])),
        excused=np.where(lost, excused[end], any_of(excused)),
        checked=~any_of(unchecked),
        unpaid=lost & ~expensive & is_far,
    )


def _excused(seen: Mapping[str, Numbers], facts: NetworkFacts) -> tuple[Numbers, Numbers]:
    """For each sighting, whether a fault explains that the packet is seen nowhere else, and whether such packets may also get through."""
    place_of = {node: number for number, node in enumerate(facts.nodes)}
    nodes = len(facts.nodes)
    last = np.array([*(place_of[facts.switch_of[node]] if node in facts.switch_of else -1 for node in facts.nodes), -1])
    leads = seen["target"] * nodes + last[seen["destination"]]
    leads[last[seen["destination"]] < 0] = -1
    came = seen["source"] * nodes + seen["target"]
    excused, unchecked = np.zeros(len(leads), np.bool_), np.zeros(len(leads), np.bool_)
    by_time = np.argsort(seen["at_ns"], kind="stable")
    times = seen["at_ns"][by_time]

    def among(values: Numbers, pairs: Iterable[tuple[str, str]]) -> Numbers:
        return np.isin(values, [place_of[one] * nodes + place_of[other] for one, other in pairs])

    for excuse in facts.excuses:
        rows = by_time[np.searchsorted(times, excuse.start_ns) : np.searchsorted(times, excuse.end_ns, side="right")]
        at = np.isin(seen["target"][rows], [place_of[node] for node in excuse.nodes])
        explained = rows[at | among(leads[rows], excuse.places) | among(came[rows], excuse.over)]
        excused[explained] = True
        unchecked[explained] |= not excuse.certain
    return excused, unchecked


def _positions(texts: pa.ChunkedArray, known: pa.Array) -> Numbers:
    """The position of each text in the list `known`; -1 if it is not in the list."""
    parts = [
        pc.index_in(chunk.dictionary, value_set=known).take(chunk.indices)
        for chunk in (part if pa.types.is_dictionary(part.type) else part.dictionary_encode() for part in texts.chunks)
    ]
    found: Numbers = pc.fill_null(pa.chunked_array(parts, pa.int32()), -1).to_numpy()
    return found.astype(np.int64)


def _fates(found: Journeys, names: pa.Array) -> pa.Table:
    """The number of packets of each fate, with the first packet as an example."""
    flags = [getattr(found, name).astype(np.bool_) for name in _FLAGS]
    fate = np.ravel_multi_index((*flags, found.vanished_at + 1), (*(2 for _ in flags), len(names) + 1))
    _, example, count = np.unique(fate, return_index=True, return_counts=True)
    vanished_at = found.vanished_at[example]
    return pa.table(
        {name: flag[example] for name, flag in zip(_FLAGS, flags, strict=True)}
        | {
            "vanished_at": names.take(pa.array(vanished_at, mask=vanished_at < 0)),
            "packets": count,
            "example": [
                # The high half of a packet number is the incarnation of the sender; the low half counts within it.
                f"packet {found.packet[each] & 0xFFFFFFFF} of {names[found.sender[each]]} to "
                f"{names[found.destination[each]] if found.destination[each] >= 0 else 'nobody'}"
                for each in example
            ],
        }
    )


def _message_costs(found: Journeys, names: pa.Array) -> pa.Table:
    """Distinct host-to-host packets that crossed an expensive link, by message and purpose. Sequence 0 stands for no message."""
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
