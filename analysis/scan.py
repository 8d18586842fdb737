"""Capture files and event logs to Spark rows: each worker takes a list of paths and yields Arrow batches.

Beside its data every file yields one row with a `report`: what was in it and what could not be read. So one pass over the files gives
both, and a file that is missing or damaged is a sentence in the books and not the end of the job.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
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

from analysis import pcap
from analysis.books import CaptureReport
from analysis.inputs import RunInput
from analysis.logs import read_log
from analysis.results import CROSSINGS, Capture
from hostagent.messages import Purpose

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

# Packets made into one batch at a time: some 60 MB of arrays, whatever the size of the file.
_BATCH: Final = 200_000
_TASK: Final = pa.schema([("run", pa.int32()), ("item", pa.int32())])
_PURPOSES: Final = pa.array([purpose.name.lower() for purpose in Purpose])

Batches = Iterator[pa.RecordBatch]


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
    """Every packet on every link of every run: from captures, with one report a file, or from what the simulator wrote."""
    names = [_names(run) for run in runs]
    simulated = [run.run.engine == "simulator" for run in runs]
    items = [1 if virtual else len(run.run.captures) for run, virtual in zip(runs, simulated, strict=True)]

    def read(run: int, item: int) -> Batches:
        return read_crossings(names[run].directory, run) if simulated[run] else read_capture(names[run], run, item)

    return _distribute(spark, items, PACKETS, read)


def scan_events(spark: SparkSession, runs: Sequence[RunInput]) -> DataFrame:
    """Every event that a history is made of, in every log of every run, with a report for each log that is damaged."""
    logs = [[(host, run.directory / "events" / f"{host}.jsonl") for host in run.network.hosts] for run in runs]
    items = [len(paths) for paths in logs]
    return _distribute(spark, items, EVENTS, lambda run, item: read_events(*logs[run][item], run))


def _distribute(spark: SparkSession, items: Sequence[int], schema: pa.Schema, read: Callable[[int, int], Batches]) -> DataFrame:
    """Spread the files over the workers, several to each."""

    def work(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for task in batch.to_pylist():
                yield from read(task["run"], task["item"])

    tasks = [(run, item) for run, count in enumerate(items) for item in range(count)]
    return spark.createDataFrame(tasks, from_arrow_schema(_TASK)).mapInArrow(work, from_arrow_schema(schema))


def _names(run: RunInput) -> _Names:
    network = run.network
    ends = [network.link(capture.source, capture.target) for capture in run.run.captures]
    return _Names(
        directory=run.directory,
        run=run.run.run,
        udp_port=run.run.udp_port,
        hosts=pa.array(network.hosts),
        addresses=pa.array([int(IPv4Address(network.addresses[host])) for host in network.hosts], pa.uint32()),
        captures=run.run.captures,
        links=tuple((link.name, link.expensive) for link in ends),
    )


def read_crossings(directory: Path, run: int) -> Batches:
    """The packets of a simulated run."""
    for batch in pq.ParquetFile(directory / CROSSINGS).iter_batches(_BATCH):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        yield _batch(PACKETS, batch.num_rows, columns | {"run": pa.repeat(run, batch.num_rows)})


def read_capture(names: _Names, run: int, item: int) -> Batches:
    """The packets of one capture file, then its report."""
    capture = names.captures[item]
    try:
        data = _map(names.directory / capture.file)
    except OSError as error:
        yield _report(run, CaptureReport(capture.file, problems=(f"cannot be read ({error.strerror})",)))
        return
    found = pcap.index(data)
    skipped = cut = 0
    for start in range(0, len(found.offsets), _BATCH):
        part = pcap.extract(data, found, slice(start, start + _BATCH), names.udp_port, names.run)
        skipped, cut = skipped + part.skipped, cut + part.cut
        yield _packets(names, run, item, part)
    problems = [found.problem] if found.problem else []
    if cut:
        problems.append(f"has {cut} packets of which too little was kept to read them")
    yield _report(run, CaptureReport(capture.file, len(found.offsets), skipped, tuple(problems)))


def _map(path: Path) -> pcap.Bytes:
    with path.open("rb") as file:
        if not path.stat().st_size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _packets(names: _Names, run: int, item: int, part: pcap.Datagrams) -> pa.RecordBatch:
    """Arrays of numbers to a batch with names."""
    header, capture, (link, expensive) = part.header, names.captures[item], names.links[item]
    by_number = pa.array(np.arange(1, len(names.hosts) + 1), pa.uint16())
    sender = _lookup(header["sender"], by_number, names.hosts)
    origin = _lookup(header["origin"], by_number, names.hosts)
    # An agent refuses what comes from or is about a host that it does not know, so that is not ours either.
    ours = pc.and_(pc.and_(pa.array(part.ours), sender.is_valid()), origin.is_valid())
    by_address = _lookup(part.source, names.addresses, names.hosts)
    backwards = pc.and_(capture.both_ways, pc.not_equal(pc.fill_null(by_address, ""), capture.source))

    def own(values: Any) -> pa.Array:
        return pc.if_else(ours, values, None)

    columns = {
        "run": pa.repeat(run, len(header)),
        "link": pa.repeat(link, len(header)),
        "source": pc.if_else(backwards, capture.target, capture.source),
        "target": pc.if_else(backwards, capture.source, capture.target),
        "expensive": pa.repeat(expensive, len(header)),
        "at_ns": part.at_ns,
        "sender": pc.if_else(ours, sender, by_address),
        "destination": _lookup(part.destination, names.addresses, names.hosts),
        "dscp": part.dscp,
        "bytes": part.bytes,
        "protocol": own(header["protocol"]),
        "kind": own(header["kind"]),
        "purpose": own(_PURPOSES.take(pa.array(np.minimum(header["purpose"], Purpose.CONTROL)))),
        # Spark has no unsigned numbers: the same 64 bits, still unique for each sender.
        "packet": own(_native(header["packet"]).view(np.int64)),
        "group": own(_native(header["group"])),
        "origin": own(origin),
        "sequence": own(_native(header["sequence"])),
    }
    return _batch(PACKETS, len(header), columns)


def _lookup(values: Any, keys: pa.Array, names: pa.Array) -> pa.Array:
    """The name of each value, or null."""
    return names.take(pc.index_in(pa.array(_native(values)), value_set=keys))


def _native(values: Any) -> Any:
    """Arrow reads numbers in the machine's byte order only."""
    return np.ascontiguousarray(values).astype(values.dtype.newbyteorder("="))


def read_events(host: str, path: Path, run: int) -> Batches:
    """The events of one host that a history is made of; a report if its log cannot be read to its end."""
    log = read_log(host, path)
    rows = len(log.events)
    columns = {name: [getattr(event, name) for event in log.events] for name in ("event", "at_ns", "origin", "sequence")}
    details = [msgspec.json.encode(event.details).decode() if event.details else None for event in log.events]
    yield _batch(EVENTS, rows, {"run": pa.repeat(run, rows), "host": pa.repeat(host, rows), "details": details, **columns})
    if log.problem:
        yield _batch(EVENTS, 1, {"run": [run], "report": [log.problem]})


def _report(run: int, report: CaptureReport) -> pa.RecordBatch:
    return _batch(PACKETS, 1, {"run": [run], "report": [msgspec.json.encode(report).decode()]})


def _batch(schema: pa.Schema, rows: int, columns: dict[str, Any]) -> pa.RecordBatch:
    """A batch of `schema`: columns that are not given are null."""
    arrays = [_column(columns.get(field.name), rows, field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def _column(values: Any, rows: int, kind: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(rows, kind)
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
