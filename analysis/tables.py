"""The tables of a run, each a Spark DataFrame over all runs of the job with the run's position in column `run`.

packets        each datagram, each time it was seen on a link
link_costs     packets and bytes by link, direction and purpose; added up by `analysis.scan` as captures are read
journeys       each host-to-host packet once: the links it was seen on, whether one was expensive, whether it arrived
message_costs  host-to-host packets that crossed an expensive link, by message and purpose
deliveries     each delivery of a message at a host other than its origin, with its delay

Beside them those of `analysis.small_tables`, which the job makes of what it has collected.

Cost is packets. Where several messages share a datagram (kind 255, `hostagent.wire.PACK`), it is one packet, and it counts for the message
that its header names, the first of those with the lowest purpose: so a message may cost nothing, and costs per message are to be read
over a stream.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it

from hostagent.wire import COST_DSCP

# Delays are summed up by their quantiles at every half per cent: enough to draw the distribution, and p50 and p99 are among them.
QUANTILES = tuple(step / 200 for step in range(201))


def journeys(packets: DataFrame) -> DataFrame:
    """What the captures together say of each host-to-host packet, however many links it was seen on.

    `gap`: it left a node that it was never seen to reach. `repeated`: it was seen twice in one direction of a link. `vanished_at`: the
    node it was last seen at, if it did not arrive. `wrong_bit`: at its destination, the cost bit was not what the links say.
    """
    arrival, marked = F.col("target") == F.col("destination"), (F.col("dscp") == COST_DSCP).cast("int")
    seen = packets.where("packet is not null").groupBy("run", "sender", "packet").agg(
        *(F.first(name).alias(name) for name in ("destination", "purpose", "origin", "sequence")),
        F.max("expensive").alias("expensive"),
        F.max("at_ns").alias("last_ns"),
        F.max_by("target", "at_ns").alias("last_node"),
        F.collect_set("source").alias("sources"),
        F.collect_set("target").alias("targets"),
        F.count("*").alias("sightings"),
        F.count_distinct("source", "target").alias("hops"),
        F.max(arrival).alias("arrived"),
        F.min(F.when(arrival, marked)).alias("least_marked"),
        F.max(F.when(arrival, marked)).alias("most_marked"),
    )  # fmt: skip
    crossed = F.col("expensive").cast("int")
    return seen.select(
        *("run", "sender", "packet", "destination", "purpose", "origin", "sequence", "expensive", "last_ns"),
        (F.array_except("sources", "targets") != F.array("sender")).alias("gap"),
        (F.col("sightings") > F.col("hops")).alias("repeated"),
        F.when(~F.col("arrived"), _end("targets", "sources")).alias("vanished_at"),
        F.coalesce((F.col("least_marked") != crossed) | (F.col("most_marked") != crossed), F.lit(False)).alias("wrong_bit"),
    )


def _end(targets: str, sources: str) -> Column:
    """The node that a packet reached and did not leave; where it went in circles, the last node by time."""
    return F.coalesce(F.get(F.array_except(targets, sources), F.lit(0)), F.col("last_node"))


def journey_groups(crossings: DataFrame, disturbed: Sequence[Sequence[tuple[int, int]]]) -> DataFrame:
    """How many packets had the same fate, with an example each. `disturbed` holds, for each run, the intervals of link failures."""
    intervals = [(run, start, end) for run, times in enumerate(disturbed) for start, end in times]
    times = crossings.sparkSession.createDataFrame(intervals, "during int, start long, end long")
    same = (F.col("run") == F.col("during")) & F.col("last_ns").between(F.col("start"), F.col("end"))
    # The high half of a packet's number is the incarnation of its sender; people count within it.
    number = F.col("packet").bitwiseAND(0xFFFFFFFF)
    example = F.concat(
        F.lit("packet "), number, F.lit(" of "), "sender", F.lit(" to "), F.coalesce("destination", F.lit("nobody"))
    )
    fate = ("run", "gap", "repeated", "wrong_bit", "vanished_at", F.col("during").isNotNull().alias("disturbed"))
    return crossings.join(F.broadcast(times), same, "left").groupBy(*fate).agg(
        F.count("*").alias("packets"), F.min_by(example, F.struct("sender", "packet")).alias("example")
    )  # fmt: skip


def message_costs(crossings: DataFrame) -> DataFrame:
    """Distinct host-to-host packets that crossed an expensive link, by message and purpose. Sequence 0 is about no message."""
    return crossings.where("expensive").groupBy("run", "origin", "sequence", "purpose").agg(F.count("*").alias("packets"))


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
    """Write a small table of a run as Parquet. Readers see it when it is whole."""
    path = directory / "tables" / f"{name}.parquet"
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        # Spark wrote it, as it did for earlier runs.
        shutil.rmtree(path)
    pq.write_table(table, path.with_name(f".{path.name}"))
    path.with_name(f".{path.name}").replace(path)
