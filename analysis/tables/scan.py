"""Capture files to the packets table, and event logs to the table of events: each worker reads some files, or parts of files.

`sparkpcap` reads the captures; this module turns numbers into names. Crew write the packets table themselves, since passing every
packet to the JVM would take most of the time. For each part of a file they return a `report` (what the part holds and what could not be
read) and the costs of the link. So one pass over the files gives packets, reports and costs, and a missing or damaged file becomes a
sentence in the books instead of a failed job.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv4Address
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.books import FOREIGN, GUEST, GUEST_OUTSIDE, CaptureReport
from analysis.crew import Batches, Crew
from analysis.tables.place import discard, unfinished_tables
from hostagent.contract.messages import Purpose
from hostagent.contract.wire import COST_DSCP, FIELDS, MAGIC, VERSION, Header
from runfiles.event_logs import read_log
from runfiles.format import CROSSINGS, PARQUET_METADATA, CaptureRecord
from runfiles.parquet import check_format
from runfiles.reading import RunInput
from sparkpcap.plan import FilePart, plan
from sparkpcap.rows import Query, Report, read
from topologies.network import MOST_GROUPS, group_address, group_name

PACKETS: Final = pa.schema(
    [
        ("link", pa.string()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("expensive", pa.bool_()),
        ("at_ns", pa.int64()),
        ("sender", pa.string()),
        ("destination", pa.string()),
        ("dscp", pa.int32()),
        ("bytes", pa.int32()),
        ("protocol", pa.int32()),
        ("kind", pa.int32()),
        ("purpose", pa.string()),
        ("packet", pa.int64()),
        ("group", pa.int32()),
        ("origin", pa.string()),
        ("sequence", pa.int64()),
    ],
    metadata=PARQUET_METADATA,
)
"""One row for each sighting of a datagram on a link. A datagram to our port that is not of this run has no `packet` and no other field of
the header; its `sender` follows from its address. So it is with the packets of a guest, which have a purpose, though."""

LINK_COSTS: Final = pa.schema(
    [
        ("link", pa.string()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("expensive", pa.bool_()),
        ("purpose", pa.string()),
        ("packets", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
"""What each link carried, by direction and purpose. Datagrams to our port that are not of the run have the purpose `foreign`; packets of a
guest have the purpose `guest`, and `guest-outside` before the run began and after it ended."""

ACCOUNTS: Final = pa.schema([("run", pa.int32()), ("report", pa.string()), ("missed", pa.bool_()), *LINK_COSTS])
"""What workers return: for each part of a capture file a row with its report, and rows without one with the costs of its packets. `run` is
the position of the run in the job."""

EVENTS: Final = pa.schema(
    [
        ("run", pa.int32()),
        ("host", pa.string()),
        ("position", pa.int64()),
        ("event", pa.string()),
        ("at_ns", pa.int64()),
        ("origin", pa.string()),
        ("sequence", pa.int64()),
        ("details", pa.string()),
        ("report", pa.string()),
    ]
)
"""One row for each logged event that histories use (`runfiles.event_logs.KEPT`). `details` is JSON, or null without details."""

_BATCH: Final = 200_000
BYTES_OF_AN_EVENT: Final = 100
"""About so long is a line of an event log."""
_ETHERNET_HEADER: Final = 14
_FIRST_GROUP: Final = int(IPv4Address(group_address(0)))
# Only texts are encoded with a dictionary: trying it for numbers takes as long as all other writing. They are so already in memory, which
# makes adding up costs and writing faster; readers see plain texts. Nobody looks for a range of texts, so only numbers have statistics.
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_TEXTS: Final = [field.name for field in PACKETS if pa.types.is_string(field.type)]
_NUMBERS: Final = [name for name in PACKETS.names if name not in _TEXTS]
_ENCODED: Final = pa.schema([field.with_type(_TEXT) if field.name in _TEXTS else field for field in PACKETS])
_PURPOSES: Final = pa.array([purpose.name.lower() for purpose in Purpose])

_READ_IP: Final = ("at_ns", "source", "destination", "dscp", "ip_length")
_READ: Final = (*_READ_IP, *Header._fields)


class _Names(NamedTuple):
    """What a worker needs to turn the numbers in packets of a run into names, and the links of the run."""

    directory: Path
    run: int
    udp_port: int
    hosts: pa.Array
    addresses: pa.Array
    captures: tuple[CaptureRecord, ...]
    links: tuple[tuple[str, bool], ...]
    guest_ns: tuple[int, int] | None
    """In a run of a guest, when the run began and ended; else None."""


class Scanned(NamedTuple):
    """Both tables have a column `run`."""

    reports: pa.Table
    link_costs: pa.Table


def scan_packets(crew: Crew, runs: Sequence[RunInput], *, guessing: bool = True) -> Scanned:
    """Write the packets table of every run, from captures or from crossings of a simulation; again if cuts were guessed wrongly."""
    places = [_empty_table(run.directory) for run in runs]
    names = [_names(run) for run in runs]
    simulated = [number for number, run in enumerate(runs) if not run.has_captures]
    captures = {
        str(run.directory / capture.file): (number, item)
        for number, run in enumerate(runs)
        for item, capture in enumerate(run.run.captures)
        if number not in simulated
    }

    def store_parts(number: int, parts: Sequence[FilePart]) -> Batches:
        for run, of_run in groupby(parts, key=lambda part: captures[part.path][0]):
            with _writer(places[run], number) as writer:
                for part in of_run:
                    yield from store_capture(names[run], run, captures[part.path][1], part, writer)

    def store_crossings(run: int) -> Batches:
        with _writer(places[run], 0) as writer:
            file = pq.ParquetFile(runs[run].directory / CROSSINGS)
            check_format(file.schema_arrow, runs[run].directory / CROSSINGS)
            for batch in file.iter_batches(_BATCH):
                packets = batch_of(_ENCODED, batch.num_rows, dict(zip(batch.schema.names, batch.columns, strict=True)))
                writer.write_batch(packets)
                yield _costs(run, packets)

    accounts = ACCOUNTS.empty_table()
    if captures:
        packets = crew.rows_of_captures(runs)
        planned = plan(list(captures), crew.tasks_at_once(packets), guessing=guessing)
        accounts = crew.do([partial(store_parts, number, parts) for number, parts in enumerate(planned)], ACCOUNTS, packets)
    if simulated:
        rows = sum(pq.read_metadata(runs[run].directory / CROSSINGS).num_rows for run in simulated)
        of_crossings = crew.do([partial(store_crossings, run) for run in simulated], ACCOUNTS, rows)
        accounts = pa.concat_tables([accounts, of_crossings])
    if guessing and pc.any(accounts["missed"]).as_py():
        return scan_packets(crew, runs, guessing=False)
    is_report = accounts["report"].is_valid()
    return Scanned(accounts.filter(is_report).select(["run", "report"]), _sums(accounts.filter(pc.invert(is_report))))


def packets_table(directory: Path) -> Path:
    """Where the analysis writes a run's packets: a directory of files."""
    return unfinished_tables(directory) / "packets.parquet"


def _empty_table(directory: Path) -> Path:
    """An empty packets table for a run, without the files of an analysis that was killed."""
    discard(directory)
    place = packets_table(directory)
    place.mkdir(parents=True)
    return place


@contextmanager
def _writer(place: Path, task: int) -> Iterator[pq.ParquetWriter]:
    """Write a file of the packets table of a run. Readers see the file when it is complete."""
    name = f"part-{task}.parquet"
    with pq.ParquetWriter(
        place / f".{name}",
        _ENCODED,
        compression="snappy",
        use_dictionary=_TEXTS,
        write_statistics=_NUMBERS,
        # The file would remember that texts were encoded in memory.
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata(PARQUET_METADATA)
        yield writer
    (place / f".{name}").replace(place / name)


def scan_events(crew: Crew, runs: Sequence[RunInput]) -> pa.Table:
    """Every event that a history is made of, in every log of every run, with a report for each log that is damaged."""
    logs = [
        (number, host, run.directory / "events" / f"{host}.jsonl")
        for number, run in enumerate(runs)
        for host in run.network.hosts
    ]
    rows = sum(path.stat().st_size for _, _, path in logs if path.exists()) // BYTES_OF_AN_EVENT
    return crew.do([partial(read_events, host, path, number) for number, host, path in logs], EVENTS, rows)


def _names(run: RunInput) -> _Names:
    network = run.network
    ends = [network.link(capture.source, capture.target) for capture in run.run.captures]
    return _Names(
        directory=run.directory,
        run=run.run.run,
        udp_port=run.run.udp_port,
        hosts=pa.array(network.hosts),
        addresses=pa.array([int(IPv4Address(network.addresses[host])) for host in network.hosts], pa.int64()),
        captures=run.run.captures,
        links=tuple((link.name, link.expensive) for link in ends),
        guest_ns=(run.run.started_ns, run.run.ended_ns) if run.run.guest else None,
    )


def store_capture(names: _Names, run: int, item: int, part: FilePart, writer: pq.ParquetWriter) -> Batches:
    """Write the packets of a part of a capture file; yields their costs, then the report."""
    query = Query(names.udp_port, FIELDS, {"magic": MAGIC, "version": VERSION, "run": names.run}, columns=_READ)
    if names.guest_ns is not None:
        query = Query(columns=_READ_IP)
    batches = read(part, query)
    while True:
        try:
            batch = next(batches)
        except StopIteration as end:
            found: Report = end.value
            cut = (f"has {found.cut} packets of which too little was kept to read them",) if found.cut else ()
            report = CaptureReport(names.captures[item].file, found.packets, found.skipped, (*found.problems, *cut))
            text = msgspec.json.encode(report).decode()
            yield batch_of(ACCOUNTS, 1, {"run": [run], "report": [text], "missed": [found.missed]})
            return
        packets = _packets(names, item, batch) if names.guest_ns is None else _guest_packets(names, item, batch, *names.guest_ns)
        writer.write_batch(packets)
        yield _costs(run, packets)


def _costs(run: int, packets: pa.RecordBatch) -> pa.RecordBatch:
    """The costs of a batch of packets, by link, direction and purpose."""
    kept = packets.select([name for name in LINK_COSTS.names if name != "packets"])
    costs = _sums(pa.Table.from_batches([kept.append_column("packets", pa.repeat(1, packets.num_rows))]))
    columns = {name: costs[name].combine_chunks() for name in costs.column_names}
    columns["purpose"] = pc.fill_null(columns["purpose"].cast(pa.string()), FOREIGN)
    return batch_of(ACCOUNTS, costs.num_rows, columns | {"run": pa.repeat(run, costs.num_rows)})


def _sums(costs: pa.Table) -> pa.Table:
    """Costs summed by all columns other than packets and bytes."""
    kinds = [name for name in ("run", *LINK_COSTS.names) if name in costs.column_names and name not in {"packets", "bytes"}]
    sums = costs.group_by(kinds).aggregate([("packets", "sum"), ("bytes", "sum")])
    return sums.rename_columns([*kinds, "packets", "bytes"])


def _packets(names: _Names, item: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as captured to a batch of the packets table: numbers become names."""
    capture = names.captures[item]
    by_number = pa.array(np.arange(1, len(names.hosts) + 1), pa.int32())
    sender = pc.index_in(batch["sender"], value_set=by_number)
    origin = pc.index_in(batch["origin"], value_set=by_number)
    # Agents refuse packets that name an unknown host, so such packets are not of this run.
    known = pc.and_(sender.is_valid(), origin.is_valid())
    ours = pc.and_(known, pc.fill_null(pc.less_equal(batch["purpose"], int(Purpose.CONTROL)), fill_value=False))
    by_address = pc.index_in(batch["source"], value_set=names.addresses)
    # Hosts send without the cost bit, so a packet to a group that has it at its sender has come back, as may happen while trees change.
    returned = pc.and_(_is_group(batch["destination"]), pc.equal(batch["dscp"], COST_DSCP))
    backwards = pc.and_(capture.both_ways, pc.or_(_is_not(capture.source, by_address, names), returned))

    def own(values: Any) -> pa.Array:
        return pc.if_else(ours, values, None)

    columns = _on_link(names, item, batch, backwards) | {
        "sender": _named(pc.if_else(ours, sender, by_address), names.hosts),
        "destination": _destinations(names, batch["destination"]),
        "purpose": _named(own(batch["purpose"]), _PURPOSES),
        "origin": _named(own(origin), names.hosts),
        **{name: own(batch[name]) for name in ("protocol", "kind", "packet", "group", "sequence")},
    }
    return batch_of(_ENCODED, batch.num_rows, columns)


def _guest_packets(names: _Names, item: int, batch: pa.RecordBatch, start_ns: int, end_ns: int) -> pa.RecordBatch:
    """A batch as captured to a batch of the packets table, in a run of a guest: packets from hosts are the guest's."""
    capture = names.captures[item]
    sender = pc.index_in(batch["source"], value_set=names.addresses)
    inside = pc.and_(pc.greater_equal(batch["at_ns"], start_ns), pc.less(batch["at_ns"], end_ns))
    backwards = pc.and_(capture.both_ways, _is_not(capture.source, sender, names))
    columns = _on_link(names, item, batch, backwards) | {
        "sender": _named(sender, names.hosts),
        "destination": _named(pc.index_in(batch["destination"], value_set=names.addresses), names.hosts),
        "purpose": pc.if_else(sender.is_valid(), pc.if_else(inside, GUEST, GUEST_OUTSIDE), None),
    }
    return batch_of(_ENCODED, batch.num_rows, columns)


def _on_link(names: _Names, item: int, batch: pa.RecordBatch, backwards: pa.Array) -> dict[str, Any]:
    """Where packets were seen, and what their Ethernet and IP headers say."""
    rows, capture, (link, expensive) = batch.num_rows, names.captures[item], names.links[item]
    return {
        "link": _named(pa.repeat(0, rows), pa.array([link])),
        "source": _named(backwards, pa.array([capture.source, capture.target])),
        "target": _named(backwards, pa.array([capture.target, capture.source])),
        "expensive": pa.repeat(expensive, rows),
        "at_ns": batch["at_ns"],
        "dscp": batch["dscp"],
        "bytes": pc.add(batch["ip_length"], _ETHERNET_HEADER),
    }


def _destinations(names: _Names, addresses: pa.Array) -> pa.Array:
    """The host or the group of each address, or null."""
    groups = pc.unique(addresses.filter(_is_group(addresses)))
    named = [group_name(address - _FIRST_GROUP) for address in groups.to_pylist()]
    known = pa.concat_arrays([names.addresses, groups])
    return _named(pc.index_in(addresses, value_set=known), pa.concat_arrays([names.hosts, pa.array(named, pa.string())]))


def _is_group(addresses: pa.Array) -> pa.Array:
    return pc.and_(pc.greater_equal(addresses, _FIRST_GROUP), pc.less_equal(addresses, _FIRST_GROUP + MOST_GROUPS))


def _is_not(host: str, positions: pa.Array, names: _Names) -> pa.Array:
    """Whether each position among the hosts is another one than that of `host`, or null."""
    return pc.not_equal(pc.fill_null(positions, len(names.hosts)), names.hosts.index(host))


def _named(positions: pa.Array, names: pa.Array) -> pa.DictionaryArray:
    """Texts as their positions in a list; null has none."""
    return pa.DictionaryArray.from_arrays(positions.cast(pa.int32()), names)


def read_events(host: str, path: Path, run: int) -> Batches:
    """The events of one host that histories use, and a report if the log cannot be read to its end."""
    log = read_log(host, path)
    rows = len(log.events)
    columns = {name: [getattr(event, name) for _, event in log.events] for name in ("event", "at_ns", "origin", "sequence")}
    columns["position"] = [position for position, _ in log.events]
    columns["details"] = [msgspec.json.encode(event.details).decode() if event.details else None for _, event in log.events]
    yield batch_of(EVENTS, rows, {"run": pa.repeat(run, rows), "host": pa.repeat(host, rows), **columns})
    if log.problem:
        yield batch_of(EVENTS, 1, {"run": [run], "report": [log.problem]})


def batch_of(schema: pa.Schema, rows: int, columns: dict[str, Any]) -> pa.RecordBatch:
    """A batch of `schema`; columns that are not given are null."""
    arrays = [_column(columns.get(field.name), rows, field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def _column(values: Any, rows: int, kind: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(rows, kind)
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
