"""The tables of deliveries and of delays, each a Spark DataFrame over all runs of the job with the run's position in column `run`.

The others are made elsewhere: packets and link costs by `analysis.tables.scan`, the costs of messages by `analysis.tables.journeys`, and
what the job can make of what it has collected by `analysis.tables.small`.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it

from analysis.tables.place import unfinished_tables

# Delays are summed up by their quantiles at every half per cent: enough to draw the distribution, and p50 and p99 are among them.
QUANTILES = tuple(step / 200 for step in range(201))


def deliveries(events: DataFrame) -> DataFrame:
    """First deliveries at hosts other than the origin, whose own delivery tells nothing of the network."""
    broadcasts = (
        events.where("event = 'broadcast'").groupBy("run", "origin", "sequence").agg(F.min("at_ns").alias("broadcast_ns"))
    )
    delivered = events.where("event = 'deliver' and host != origin").groupBy("run", "origin", "sequence", "host")
    delay = ((F.col("delivered_ns") - F.col("broadcast_ns")) / 1e6).alias("delay_ms")
    return (
        delivered.agg(F.min("at_ns").alias("delivered_ns"))
        .join(broadcasts, ["run", "origin", "sequence"])
        .select("run", "origin", "sequence", "host", "broadcast_ns", "delivered_ns", delay)
    )


def delay_quantiles(delivered: DataFrame) -> DataFrame:
    """For each run the quantiles of the delay, and of the delay to each message's last host the median.

    A quantile is the smallest delay that this share of deliveries does not exceed, exact to one in 10,000.
    """
    last = delivered.groupBy("run", "origin", "sequence").agg(F.max("delay_ms").alias("last_ms"))
    medians = last.groupBy("run").agg(F.percentile_approx("last_ms", 0.5).alias("last_p50"))
    quantiles = F.percentile_approx("delay_ms", QUANTILES).alias("quantiles")
    return delivered.groupBy("run").agg(quantiles, F.count("*").alias("pairs")).join(medians, "run")


def write(table: pa.Table, directory: Path, name: str) -> None:
    """Write a small table of a run as Parquet."""
    pq.write_table(table, unfinished_tables(directory) / f"{name}.parquet")
