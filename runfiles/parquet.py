"""Tables of a run as Parquet files, which have their format version in their metadata."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from runfiles.versions import refuse_newer


def check_format(schema: pa.Schema, path: Path) -> None:
    """Refuse a table of a newer format."""
    found = (schema.metadata or {}).get(b"castbed_format", b"1")
    refuse_newer(int(found) if found.isdigit() else 1, path)


def read_parquet(path: Path) -> pa.Table:
    """Read a table, unless it is of a newer format."""
    table = pq.read_table(path)
    check_format(table.schema, path)
    return table
