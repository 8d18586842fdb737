"""The table of deliveries, a Spark DataFrame over all runs of the job with the position of the run in column `run`; and writing tables.

Other modules make the other tables: `analysis.tables.scan` packets and link costs, `analysis.tables.journeys` the costs of messages, and
`analysis.tables.small` the tables that need no Spark.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it

from analysis.tables.place import unfinished_tables
from runfiles.format import PARQUET_METADATA


def deliveries(events: DataFrame) -> DataFrame:
    """First deliveries at destinations other than the origin; a delivery at the origin says nothing about the network.

    The destinations of a message are those that its origin logged; a message without such a list is for all hosts.
    """
    destinations = F.from_json("details", "to array<string>")["to"].alias("destinations")
    broadcasts = (
        events.where("event = 'broadcast'")
        .groupBy("run", "origin", "sequence")
        .agg(_first("at_ns").alias("broadcast_ns"), _first("details").alias("details"))
        .select("run", "origin", "sequence", "broadcast_ns", destinations)
    )
    delivered = events.where("event = 'deliver' and host != origin").groupBy("run", "origin", "sequence", "host")
    delay = ((F.col("delivered_ns") - F.col("broadcast_ns")) / 1e6).alias("delay_ms")
    return (
        delivered.agg(_first("at_ns").alias("delivered_ns"), F.min("position").alias("position"))
        .join(broadcasts, ["run", "origin", "sequence"])
        .where("destinations is null or size(destinations) = 0 or array_contains(destinations, host)")
        .select("run", "origin", "sequence", "host", "broadcast_ns", "delivered_ns", delay, "position")
    )


def _first(column: str) -> Column:
    """A column of the event that comes first in a host's log."""
    return F.min_by(column, "position")


def write(table: pa.Table, directory: Path, name: str) -> None:
    """Write a small table of a run as Parquet."""
    pq.write_table(table.replace_schema_metadata(PARQUET_METADATA), unfinished_tables(directory) / f"{name}.parquet")
