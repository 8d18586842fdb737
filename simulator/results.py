"""A simulated run as a result directory: the same files as an emulated one, with the packets as a table instead of captures."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from runfiles.format import CROSSINGS, PARQUET_METADATA, CountersFile, LinkDrops, encoded
from runfiles.format import write as write_file
from simulator.engine import CROSSING, Outcome

_TYPES = {
    **dict.fromkeys(("link", "source", "target", "sender", "destination", "purpose", "origin"), pa.string()),
    **dict.fromkeys(("at_ns", "packet", "sequence"), pa.int64()),
    **dict.fromkeys(("dscp", "bytes", "protocol", "kind", "group"), pa.int32()),
    "expensive": pa.bool_(),
}


def write(outcome: Outcome, directory: Path) -> tuple[LinkDrops, ...]:
    """Write events, counters, faults and packets. Returns the drops of each direction of each link, for the run record."""
    encode = msgspec.json.Encoder()
    logs: dict[str, list[Any]] = {host: [] for host in outcome.world.network.hosts}
    for host, event in outcome.events:
        logs[host].append(event)
    for host, events in logs.items():
        (directory / "events" / f"{host}.jsonl").write_bytes(encode.encode_lines(events))
    write_file(directory / "counters.json", CountersFile(outcome.counters))
    (directory / "faults.jsonl").write_bytes(b"".join(encoded(fault) + b"\n" for fault in outcome.faults))
    columns = zip(*outcome.crossings, strict=True) if outcome.crossings else ((),) * len(CROSSING)
    arrays = {name: pa.array(values, _TYPES[name]) for name, values in zip(CROSSING, columns, strict=True)}
    pq.write_table(pa.table(arrays, metadata=PARQUET_METADATA), directory / CROSSINGS)
    return tuple(
        LinkDrops(pipe.source, pipe.target, pipe.counts.lost, pipe.counts.overflowed, duplicated=pipe.counts.duplicated)
        for pipe in outcome.world.pipes.values()
    )
