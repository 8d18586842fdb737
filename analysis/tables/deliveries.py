"""The table of deliveries, over all runs of the job with the position of the run in column `run`; and writing tables.

Other modules make the other tables: `analysis.tables.scan` packets and link costs, `analysis.tables.journeys` the costs of messages, and
`analysis.tables.small` the small ones.
"""

from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.tables.place import unfinished_tables
from runfiles.format import PARQUET_METADATA

_MESSAGE: Final = ["run", "origin", "sequence"]
_COLUMNS: Final = [*_MESSAGE, "host", "broadcast_ns", "delivered_ns", "delay_ms", "position"]


class _Destinations(msgspec.Struct):
    """The part of the details of a broadcast that says whom it is for."""

    to: list[str] | None = None


def deliveries(events: pa.Table) -> pa.Table:
    """First deliveries at destinations other than the origin; a delivery at the origin says nothing about the network.

    The destinations of a message are those that its origin logged; a message without such a list is for all hosts.
    """
    broadcasts = _first(events.filter(pc.equal(events["event"], "broadcast")), _MESSAGE, "at_ns", "details")
    broadcasts = broadcasts.rename_columns([*_MESSAGE, "broadcast_ns", "details"])
    elsewhere = pc.and_(pc.equal(events["event"], "deliver"), pc.not_equal(events["host"], events["origin"]))
    delivered = _first(events.filter(elsewhere), [*_MESSAGE, "host"], "at_ns", "position")
    delivered = delivered.rename_columns([*_MESSAGE, "host", "delivered_ns", "position"])
    both = delivered.join(broadcasts, _MESSAGE, join_type="inner").combine_chunks()
    both = both.filter(_are_destinations(both["host"], both["details"]))
    delay_ns = pc.subtract(both["delivered_ns"], both["broadcast_ns"])
    return both.append_column("delay_ms", pc.divide(delay_ns.cast(pa.float64()), 1e6)).select(_COLUMNS)


def _first(events: pa.Table, keys: list[str], *columns: str) -> pa.Table:
    """For each combination of the keys, columns of the event that comes first in a host's log."""
    in_order = events.sort_by("position").group_by(keys, use_threads=False)
    return in_order.aggregate([(column, "first", pc.ScalarAggregateOptions(skip_nulls=False)) for column in columns])


def _are_destinations(hosts: pa.ChunkedArray, details: pa.ChunkedArray) -> pa.Array:
    """Whether each host is a destination according to the details of the broadcast."""
    texts = details.dictionary_encode().combine_chunks() if len(details) else pa.array([], pa.string()).dictionary_encode()
    named = [msgspec.json.decode(text or "{}", type=_Destinations).to for text in texts.dictionary.to_pylist()]
    to = [named[index] if index is not None else None for index in texts.indices.to_pylist()]
    return pa.array([names is None or host in names for host, names in zip(hosts.to_pylist(), to, strict=True)], pa.bool_())


def write(table: pa.Table, directory: Path, name: str) -> None:
    """Write a small table of a run as Parquet."""
    pq.write_table(table.replace_schema_metadata(PARQUET_METADATA), unfinished_tables(directory) / f"{name}.parquet")
