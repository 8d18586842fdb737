"""Makes the archive of classes from which Spark starts in less than half the time: `python -m analysis.class_archive`, once, by set-up.

The JVM writes it when it ends: the classes that a session and a small job like ours have used.
"""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it

from analysis import spark


def main() -> None:
    """Run a small job with nothing of an earlier archive, and put the new one in its place when it is whole."""
    spark.ARCHIVE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=spark.ARCHIVE.parent) as private:
        made = Path(private) / "made.jsa"
        spark.SHORT_JOBS += f" -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        session = spark.start_session("local[1]")
        _use(session.range(10).mapInArrow(lambda batches: batches, "id long"))
        gateway = session.sparkContext._gateway  # noqa: SLF001 - the one way to wait for the JVM
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        if gateway.proc.wait():
            raise SystemExit("the JVM failed while it wrote the archive")
        made.replace(spark.ARCHIVE)


def _use(table: DataFrame) -> None:
    """What analyses do: Python workers, joins, sums and Arrow."""
    table = table.withColumn("name", F.concat(F.lit("h"), "id")).persist()
    counted = table.groupBy("name").agg(F.count("*").alias("count"), F.min("id").alias("id"))
    joined = counted.join(table, ["id", "name"]).where("count > 0")
    joined.groupBy("name").agg(F.sum("id")).toArrow()


if __name__ == "__main__":
    main()
