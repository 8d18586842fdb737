"""The data source that Spark sees: `spark.dataSource.register(PcapDataSource)`, then `spark.read.format("pcap")`."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sparkpcap.files import expand
from sparkpcap.plan import FilePart, plan
from sparkpcap.rows import Query, query_from, read_all


class Parts(InputPartition):  # type: ignore[misc] # PySpark has no types here
    """The parts of files that one task reads."""

    def __init__(self, parts: Sequence[FilePart]) -> None:
        super().__init__(parts)
        self.parts = parts


class PcapDataSource(DataSource):  # type: ignore[misc] # PySpark has no types here
    """Capture files as a table with a row for each packet."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "pcap"

    def schema(self) -> StructType:
        """All columns that the options give."""
        return from_arrow_schema(query_from(self.options).schema())

    def reader(self, schema: StructType) -> "PcapReader":
        """A reader of the columns in `schema`. The user may select some of the columns; Spark does not tell which ones it will use."""
        query = query_from(self.options, schema.fieldNames())
        if schema != from_arrow_schema(query.schema()):
            raise ValueError(
                f"the columns have other types than asked for: they are {from_arrow_schema(query.schema()).simpleString()}"
            )
        partitions = self.options.get("partitions", str(os.cpu_count() or 1))
        if not partitions.isdecimal() or int(partitions) < 1:
            raise ValueError(f"the option partitions is {partitions!r} and must be a whole number above zero")
        return PcapReader(_paths(self.options), query, int(partitions))


def _paths(options: Any) -> list[str]:
    paths = [*json.loads(options.get("paths", "[]")), *([options["path"]] if "path" in options else [])]
    if not paths:
        raise ValueError("there is no path: give files, directories or patterns to load()")
    return paths


class PcapReader(DataSourceReader):  # type: ignore[misc] # PySpark has no types here
    """Plans the partitions, and reads them."""

    def __init__(self, paths: list[str], query: Query, partitions: int) -> None:
        self._paths = paths
        self._query = query
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        """The partitions, one for each task."""
        settings = self._query.hadoop
        return [Parts(parts) for parts in plan(expand(self._paths, settings), self._partitions, settings=settings)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The packets of a partition. For an empty directory, Spark makes a partition without parts."""
        return read_all(partition.parts if isinstance(partition, Parts) else (), self._query)


def reports(table: DataFrame) -> DataFrame:
    """The report of each file, from a table that was read with the option `report`."""
    form = "file string, packets long, skipped long, cut long, problems array<string>"
    found = table.where("report is not null").select(F.from_json("report", form).alias("report")).select("report.*")
    return found.groupBy("file").agg(
        *(F.sum(name).alias(name) for name in ("packets", "skipped", "cut")),
        F.flatten(F.collect_list("problems")).alias("problems"),
    )


def ipv4_text(number: str | Column) -> Column:
    """A column with IPv4 addresses as text, from one with addresses as numbers; Spark computes it for the rows it needs."""
    value = F.col(number) if isinstance(number, str) else number
    octets = [F.shiftright(value, bits).bitwiseAND(0xFF).cast("string") for bits in (24, 16, 8, 0)]
    return F.concat(octets[0], F.lit("."), octets[1], F.lit("."), octets[2], F.lit("."), octets[3])
