"""Journeys: for each host-to-host packet, and for each copy of a packet to a group, what all captures of a run together say about it.

There are as many journeys as packets, and nobody looks at single ones. So workers compute journeys from the packets table, as arrays, and
return only how many packets had the same fate and what each message cost. A task takes a share of the packets of a run, chosen by the low
bits of the packets' numbers, so that all sightings of a packet are in one task and a long run has several tasks. Up to a few shares, each
task reads the whole table and keeps its own. With more that would grow with the square, so the table is first split into files by share.

Cost counts packets. A datagram that several messages share (kind 255, `hostagent.contract.wire.PACK`) is one packet. It counts for the
message that its header names: the first of the messages with the lowest purpose. So a single message may cost nothing, and costs per
message are meaningful over a stream only. A datagram to a group is one packet too, however many copies of it cross expensive links; beside
packets, crossings count every time that a packet or a copy was seen on an expensive link.
"""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from analysis.crew import Batches, Crew
from analysis.tables.copies import Forks, copy_fates
from analysis.tables.fates import Journeys, NetworkFacts, Numbers, Sightings, facts_of, packet_fates
from analysis.tables.scan import batch_of, packets_table
from hostagent.contract.messages import Purpose
from hostagent.contract.wire import COST_DSCP
from runfiles.reading import RunInput
from topologies.network import group_name

FATES: Final = pa.schema(
    [
        ("gap", pa.bool_()),
        ("repeated", pa.bool_()),
        ("wrong_bit", pa.bool_()),
        ("vanished_at", pa.string()),
        ("excused", pa.bool_()),
        ("checked", pa.bool_()),
        ("unpaid", pa.bool_()),
        ("stray", pa.bool_()),
        ("shared", pa.bool_()),
        ("perhaps_shared", pa.bool_()),
        ("example", pa.string()),
    ]
)
MESSAGES: Final = pa.schema([("origin", pa.string()), ("sequence", pa.int64()), ("purpose", pa.string())])
FORKS: Final = pa.schema([("node", pa.string()), ("made", pa.int64()), ("excess", pa.int64())])
COUNTED: Final = pa.schema([("run", pa.int32()), *FATES, *MESSAGES, *FORKS, ("packets", pa.int64()), ("crossings", pa.int64())])
"""What workers return. Rows with an `example` count packets or copies of the same fate; rows with a `node` count the copies that it made;
the other rows count the packets that crossed an expensive link for a message. `run` is the position of the run in the job."""

# The number of sightings in a task: about 200 MB of arrays.
_SIGHTINGS: Final = 1 << 20
# So many tasks may read the whole table each.
_MOST_READERS: Final = 4
_NODES: Final = ("source", "target", "sender", "destination", "origin")
_READ: Final = (*_NODES, "purpose", "packet", "sequence", "at_ns", "dscp", "expensive")
_TEXTS: Final = [*_NODES, "purpose"]
_PURPOSES: Final = pa.array([purpose.name.lower() for purpose in Purpose])
_FLAGS: Final = tuple(field.name for field in FATES if pa.types.is_boolean(field.type))


class Counted(NamedTuple):
    """What is counted of all runs; each table has a column `run`."""

    fates: pa.Table
    """The number of packets or copies of each fate."""
    costs: pa.Table
    """For each message and purpose, the packets that crossed an expensive link, and the crossings."""
    forks: pa.Table
    """For each node, how many copies of packets to groups it sent more than it got, and how many beyond one for each branch."""


class Costs(NamedTuple):
    """Arrays with an entry for each packet: the message that it is about, its purpose, and how often it was seen on an expensive link."""

    origin: Numbers
    sequence: Numbers
    purpose: Numbers
    crossings: Numbers


def count_journeys(crew: Crew, runs: Sequence[RunInput]) -> Counted:
    """Count what became of the packets of every run."""
    sightings = [_sightings_in(packets_table(run.directory)) for run in runs]
    shares = list(map(_shares, sightings))
    split = [packets_table(run.directory) for run, of in zip(runs, shares, strict=True) if of > _MOST_READERS]
    crew.do([partial(_split, file, max(shares)) for place in split for file in place.glob("part-*")], COUNTED, sum(sightings))
    tasks = [
        partial(_counted, number, run.directory, facts, some, of)
        for number, run in enumerate(runs)
        for facts in [facts_of(run)]
        for of in [max(shares) if shares[number] > _MOST_READERS else shares[number]]
        for some in range(of)
    ]
    found = crew.do(tasks, COUNTED, sum(sightings))
    for place in split:
        shutil.rmtree(_shares_of(place))
    is_fate, is_fork = found["example"].is_valid(), found["node"].is_valid()
    fates = found.filter(is_fate).group_by(["run", *FATES.names[:-1]], use_threads=False)
    costs = found.filter(pc.invert(pc.or_(is_fate, is_fork))).group_by(["run", *MESSAGES.names], use_threads=False)
    forks = found.filter(is_fork).group_by(["run", "node"], use_threads=False)
    return Counted(
        fates.aggregate([("packets", "sum"), ("example", "first")]).rename_columns(
            ["run", *FATES.names[:-1], "packets", "example"]
        ),
        costs.aggregate([("packets", "sum"), ("crossings", "sum")]).rename_columns(
            ["run", *MESSAGES.names, "packets", "crossings"]
        ),
        forks.aggregate([("made", "sum"), ("excess", "sum")]).rename_columns(["run", *FORKS.names]),
    )


def _sightings_in(place: Path) -> int:
    """The number of rows of a packets table."""
    return sum(pq.read_metadata(file).num_rows for file in place.glob("part-*"))


def _shares(sightings: int) -> int:
    """The number of shares of a table: a power of two, or none for an empty table."""
    return 1 << (sightings // _SIGHTINGS).bit_length() if sightings else 0


def _shares_of(place: Path) -> Path:
    """Where the shares of a packets table are."""
    return place.with_name("shares")


def _counted(number: int, directory: Path, facts: NetworkFacts, some: int, of: int) -> Batches:
    """Count the journeys of share `some` of the packets of a run; there are `of` shares."""
    place = packets_table(directory)
    sightings = _read_split(place, some) if of > _MOST_READERS else _read(place, some, of)
    fates, costs, forks = journeys(sightings, facts)
    for table in (_fates(fates, facts), _message_costs(costs, facts), _forks(forks, facts)):
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        yield batch_of(COUNTED, table.num_rows, columns | {"run": pa.repeat(number, table.num_rows)})


def _read(place: Path, some: int, of: int) -> pa.Table:
    """The sightings of every packet whose number modulo `of` is `some`, with texts encoded as dictionaries."""
    form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=_TEXTS))
    chosen = pc.bit_wise_and(ds.field("packet"), of - 1) == some
    return ds.dataset(place, format=form).to_table(list(_READ), filter=chosen, use_threads=False)


def _split(file: Path, of: int) -> Batches:
    """Split one file of a packets table into files by share; a sighting without a packet is of no journey."""
    reader = pq.ParquetFile(file, read_dictionary=_TEXTS)
    for number, batch in enumerate(reader.iter_batches(_SIGHTINGS, columns=list(_READ), use_threads=False)):
        known = batch.filter(batch["packet"].is_valid())
        share = known["packet"].to_numpy() & (of - 1)
        grouped = known.take(pa.array(np.argsort(share, kind="stable")))
        ends = np.cumsum(np.bincount(share, minlength=of))
        for some, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            part = _shares_of(file.parent) / str(some) / f"{file.stem}-{number}.arrow"
            part.parent.mkdir(parents=True, exist_ok=True)
            with pa.ipc.new_file(part, grouped.schema) as writer:
                writer.write_batch(grouped.slice(start, end - start))
    yield from ()


def _read_split(place: Path, some: int) -> pa.Table:
    """The sightings of one share of a table that was split."""
    files = sorted((_shares_of(place) / str(some)).iterdir())
    return pa.concat_tables([pa.ipc.open_file(file).read_all() for file in files])


def journeys(sightings: pa.Table, facts: NetworkFacts) -> tuple[Journeys, Costs, Forks]:
    """Fates and costs of packets from their sightings: rows of the packets table that have a `packet`. Also the copies that nodes made."""
    seen = _sightings(sightings, facts)
    first, _ = seen.first()
    costs = Costs(seen.origin[first], seen.sequence[first], seen.purpose[first], _sums(seen.expensive, first))
    to_group = seen.destination >= len(facts.nodes)
    if not to_group.any():
        none = np.zeros(len(facts.nodes), np.int64)
        return packet_fates(seen, facts), costs, Forks(none, none)
    of_copies, forks = copy_fates(seen.only(to_group), facts)
    both = packet_fates(seen.only(~to_group), facts), of_copies
    return Journeys(*(np.concatenate(arrays) for arrays in zip(*both, strict=True))), costs, forks


def _sightings(table: pa.Table, facts: NetworkFacts) -> Sightings:
    nodes = pa.array([*facts.nodes, *map(group_name, facts.groups)])
    seen = {name: _positions(table[name], nodes) for name in _NODES}
    seen |= {"purpose": _positions(table["purpose"], _PURPOSES)}
    seen |= {name: table[name].to_numpy() for name in ("packet", "sequence", "at_ns", "expensive")}
    seen |= {"marked": pc.equal(table["dscp"], COST_DSCP).to_numpy()}
    return Sightings(**seen).only(np.lexsort((seen["at_ns"], seen["packet"], seen["sender"])))


def _sums(flags: Numbers, first: Numbers) -> Numbers:
    """How many sightings of each packet have a flag."""
    counted: Numbers = np.append(0, np.cumsum(flags))
    return np.diff(counted[np.append(first, len(flags))])


def _positions(texts: pa.ChunkedArray, known: pa.Array) -> Numbers:
    """The position of each text in the list `known`; -1 if it is not in the list."""
    parts = [
        pc.index_in(chunk.dictionary, value_set=known).take(chunk.indices)
        for chunk in (part if pa.types.is_dictionary(part.type) else part.dictionary_encode() for part in texts.chunks)
    ]
    found: Numbers = pc.fill_null(pa.chunked_array(parts, pa.int32()), -1).to_numpy()
    return found.astype(np.int64)


def _fates(found: Journeys, facts: NetworkFacts) -> pa.Table:
    """The number of packets or copies of each fate, with the first one as an example."""
    flags = [getattr(found, name).astype(np.bool_) for name in _FLAGS]
    fate = np.ravel_multi_index((*flags, found.vanished_at + 1), (*(2 for _ in flags), len(facts.nodes) + 1))
    _, example, count = np.unique(fate, return_index=True, return_counts=True)
    vanished_at = found.vanished_at[example]
    return pa.table(
        {name: flag[example] for name, flag in zip(_FLAGS, flags, strict=True)}
        | {
            "vanished_at": pa.array(facts.nodes).take(pa.array(vanished_at, mask=vanished_at < 0)),
            "packets": count,
            "example": [_described(found, facts, each) for each in example],
        }
    )


def _described(found: Journeys, facts: NetworkFacts, each: int) -> str:
    """A packet or a copy in words."""
    destination, group = found.destination[each], found.group[each]
    to = facts.nodes[destination] if destination >= 0 else "nobody"
    if group >= 0:
        to = f"{group_name(facts.groups[group])} (the copy {'seen on its way to' if found.stray[each] else 'for'} {to})"
    # The high half of a packet number is the incarnation of the sender; the low half counts within it.
    return f"packet {found.packet[each] & 0xFFFFFFFF} of {facts.nodes[found.sender[each]]} to {to}"


def _message_costs(found: Costs, facts: NetworkFacts) -> pa.Table:
    """Packets that crossed an expensive link and their crossings, by message and purpose. Sequence 0 stands for no message."""
    paid = found.crossings > 0
    costs = pa.table({name: values[paid] for name, values in found._asdict().items()})
    counted = costs.group_by(["origin", "sequence", "purpose"], use_threads=False).aggregate(
        [([], "count_all"), ("crossings", "sum")]
    )
    return pa.table(
        {
            "origin": pa.array(facts.nodes).take(counted["origin"]),
            "sequence": counted["sequence"],
            "purpose": _PURPOSES.take(counted["purpose"]),
            "packets": counted["count_all"],
            "crossings": counted["crossings_sum"],
        }
    )


def _forks(found: Forks, facts: NetworkFacts) -> pa.Table:
    """The nodes that copied packets to groups."""
    some = np.flatnonzero((found.made != 0) | (found.excess != 0))
    return pa.table({"node": pa.array(facts.nodes).take(pa.array(some)), "made": found.made[some], "excess": found.excess[some]})
