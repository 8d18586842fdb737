"""Makes the archive of classes from which Spark starts in less than half the time: `python -m analysis.class_archive`, run by set-up.

When the JVM ends, it writes the classes that a session and a small job have loaded into the archive.
"""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it

from analysis import spark


def main() -> None:
    """Run a small job without an archive, and put the new archive in place when it is complete."""
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
    """Use what analyses use: Python workers, joins, sums and Arrow."""
    table = table.withColumn("name", F.concat(F.lit("h"), "id")).persist()
    counted = table.groupBy("name").agg(F.count("*").alias("count"), F.min("id").alias("id"))
    joined = counted.join(table, ["id", "name"]).where("count > 0")
    joined.groupBy("name").agg(F.sum("id")).toArrow()


if __name__ == "__main__":
    main()
