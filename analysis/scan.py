"""Capture files and event logs to Spark rows: each worker takes some files, or parts of files, and yields Arrow batches.

Beside its data every part of a file yields one row with a `report`: what was in it and what could not be read. So one pass over the
files gives both, and a file that is missing or damaged is a sentence in the books and not the end of the job.
`sparkpcap` reads the captures; here numbers become names.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from analysis.books import CaptureReport
from analysis.inputs import RunInput
from analysis.logs import read_log
from analysis.results import CROSSINGS, Capture
from hostagent.messages import Purpose
from hostagent.wire import HEADER, MAGIC, VERSION, Header
from sparkpcap.plan import Part, plan
from sparkpcap.rows import Query, Report, read

PACKETS: Final = pa.schema(
    [
        ("run", pa.int32()),
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
        ("report", pa.string()),
    ]
)
"""One row for each time a datagram was seen on a link. `run` is the position of the run in the job. Datagrams to our port that are not
of this run have no `packet`, and what else only the header tells; their `sender` is who the address says it was."""

EVENTS: Final = pa.schema(
    [
        ("run", pa.int32()),
        ("host", pa.string()),
        ("event", pa.string()),
        ("at_ns", pa.int64()),
        ("origin", pa.string()),
        ("sequence", pa.int64()),
        ("details", pa.string()),
        ("report", pa.string()),
    ]
)
"""One row for each event in a log that a history is made of (`analysis.logs.KEPT`); `details` is JSON, where there are any."""

_BATCH: Final = 200_000
_TASK: Final = pa.schema([("task", pa.int32())])
_ETHERNET_HEADER: Final = 14
_PURPOSES: Final = pa.array([purpose.name.lower() for purpose in Purpose])

_SIZES: Final = {"B": "u1", "H": ">u2", "I": ">u4", "Q": ">u8"}
_CODES: Final = HEADER.format[1:]
FIELDS: Final = tuple(
    (name, struct.calcsize("!" + _CODES[:number]), _SIZES[code])
    for number, (name, code) in enumerate(zip(Header._fields, _CODES, strict=True))
)
"""The fixed header of `hostagent.wire`, derived from it so that the two cannot disagree."""
_READ: Final = ("at_ns", "source", "destination", "dscp", "ip_length", *Header._fields)

Batches = Iterator[pa.RecordBatch]
Task = Callable[[], Batches]


class _Names(NamedTuple):
    """How workers turn the numbers of one run into names, and which links there are."""

    directory: Path
    run: int
    udp_port: int
    hosts: pa.Array
    addresses: pa.Array
    captures: tuple[Capture, ...]
    links: tuple[tuple[str, bool], ...]


def scan_packets(spark: SparkSession, runs: Sequence[RunInput]) -> DataFrame:
    """Every packet on every link of every run: from captures, with a report of each, or from what the simulator wrote."""
    names = [_names(run) for run in runs]
    simulated = [number for number, run in enumerate(runs) if run.run.engine == "simulator"]
    captures = {
        str(run.directory / capture.file): (number, item)
        for number, run in enumerate(runs)
        for item, capture in enumerate(run.run.captures)
        if number not in simulated
    }

    def read_parts(parts: Sequence[Part]) -> Batches:
        for part in parts:
            run, item = captures[part.path]
            yield from read_capture(names[run], run, item, part)

    tasks: list[Task] = [partial(read_parts, parts) for parts in plan(list(captures), spark.sparkContext.defaultParallelism)]
    tasks += [partial(read_crossings, names[run].directory, run) for run in simulated]
    return _distribute(spark, tasks, PACKETS)


def scan_events(spark: SparkSession, runs: Sequence[RunInput]) -> DataFrame:
    """Every event that a history is made of, in every log of every run, with a report for each log that is damaged."""
    tasks = [
        partial(read_events, host, run.directory / "events" / f"{host}.jsonl", number)
        for number, run in enumerate(runs)
        for host in run.network.hosts
    ]
    return _distribute(spark, tasks, EVENTS)


def _distribute(spark: SparkSession, tasks: Sequence[Task], schema: pa.Schema) -> DataFrame:
    """Spread the tasks over the workers, several to each."""

    def work(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for number in batch["task"].to_pylist():
                yield from tasks[number]()

    numbers = [(number,) for number in range(len(tasks))]
    return spark.createDataFrame(numbers, from_arrow_schema(_TASK)).mapInArrow(work, from_arrow_schema(schema))


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
    )


def read_crossings(directory: Path, run: int) -> Batches:
    """The packets of a simulated run."""
    for batch in pq.ParquetFile(directory / CROSSINGS).iter_batches(_BATCH):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        yield _batch(PACKETS, batch.num_rows, columns | {"run": pa.repeat(run, batch.num_rows)})


def read_capture(names: _Names, run: int, item: int, part: Part) -> Batches:
    """The packets of a capture file or of a part of it, then its report."""
    query = Query(names.udp_port, FIELDS, {"magic": MAGIC, "version": VERSION, "run": names.run}, columns=_READ)
    batches = read(part, query)
    while True:
        try:
            batch = next(batches)
        except StopIteration as end:
            yield _report(run, names.captures[item].file, end.value)
            return
        yield _packets(names, run, item, batch)


def _packets(names: _Names, run: int, item: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of numbers to a batch with names."""
    rows, capture, (link, expensive) = batch.num_rows, names.captures[item], names.links[item]
    by_number = pa.array(np.arange(1, len(names.hosts) + 1), pa.int32())
    sender = _lookup(batch["sender"], by_number, names.hosts)
    origin = _lookup(batch["origin"], by_number, names.hosts)
    # An agent refuses what comes from or is about a host that it does not know, so that is not ours either.
    known = pc.and_(sender.is_valid(), origin.is_valid())
    ours = pc.and_(known, pc.fill_null(pc.less_equal(batch["purpose"], int(Purpose.CONTROL)), fill_value=False))
    by_address = _lookup(batch["source"], names.addresses, names.hosts)
    backwards = pc.and_(capture.both_ways, pc.not_equal(pc.fill_null(by_address, ""), capture.source))

    def own(values: Any) -> pa.Array:
        return pc.if_else(ours, values, None)

    columns = {
        "run": pa.repeat(run, rows),
        "link": pa.repeat(link, rows),
        "source": pc.if_else(backwards, capture.target, capture.source),
        "target": pc.if_else(backwards, capture.source, capture.target),
        "expensive": pa.repeat(expensive, rows),
        "at_ns": batch["at_ns"],
        "sender": pc.if_else(ours, sender, by_address),
        "destination": _lookup(batch["destination"], names.addresses, names.hosts),
        "dscp": batch["dscp"],
        "bytes": pc.add(batch["ip_length"], _ETHERNET_HEADER),
        "purpose": own(_PURPOSES.take(pc.min_element_wise(batch["purpose"], pa.scalar(int(Purpose.CONTROL), pa.int32())))),
        "origin": own(origin),
        **{name: own(batch[name]) for name in ("protocol", "kind", "packet", "group", "sequence")},
    }
    return _batch(PACKETS, rows, columns)


def _lookup(values: pa.Array, keys: pa.Array, names: pa.Array) -> pa.Array:
    """The name of each value, or null."""
    return names.take(pc.index_in(values, value_set=keys))


def read_events(host: str, path: Path, run: int) -> Batches:
    """The events of one host that a history is made of; a report if its log cannot be read to its end."""
    log = read_log(host, path)
    rows = len(log.events)
    columns = {name: [getattr(event, name) for event in log.events] for name in ("event", "at_ns", "origin", "sequence")}
    details = [msgspec.json.encode(event.details).decode() if event.details else None for event in log.events]
    yield _batch(EVENTS, rows, {"run": pa.repeat(run, rows), "host": pa.repeat(host, rows), "details": details, **columns})
    if log.problem:
        yield _batch(EVENTS, 1, {"run": [run], "report": [log.problem]})


def _report(run: int, file: str, found: Report) -> pa.RecordBatch:
    cut = (f"has {found.cut} packets of which too little was kept to read them",) if found.cut else ()
    report = CaptureReport(file, found.packets, found.skipped, (*found.problems, *cut))
    return _batch(PACKETS, 1, {"run": [run], "report": [msgspec.json.encode(report).decode()]})


def _batch(schema: pa.Schema, rows: int, columns: dict[str, Any]) -> pa.RecordBatch:
    """A batch of `schema`: columns that are not given are null."""
    arrays = [_column(columns.get(field.name), rows, field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def _column(values: Any, rows: int, kind: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(rows, kind)
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
