"""Who carries out the tasks of an analysis: Spark's workers, or this process where starting them would take longer than the work.

A small job is done here: the analysis of a small run starts no Spark at all, and needs no Java. Captures of a run that has just been made
go to Spark whatever their size, as it was started meanwhile. With a master that the user names, all tasks go there. A worker process that
has a run to itself does everything alone.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from runfiles.errors import ResultsError
from runfiles.reading import RunInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batches = Iterator[pa.RecordBatch]
Task = Callable[[], Batches]
SMALL: Final = 500_000
"""Up to so many rows are read here, in a second or two."""
_BYTES_OF_A_PACKET: Final = 100
"""About so long is a packet in a capture, which has the start of each."""


class Crew:
    """Starts Spark when it is first needed, or earlier in the background, so that it is up before anything is measured."""

    def __init__(self, master: str | None = None, session: "SparkSession | None" = None, *, alone: bool = False) -> None:
        self._master = master
        self._alone = alone
        self._session = session
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start Spark in the background."""
        if self._thread is None and self._session is None:
            self._thread = threading.Thread(target=self._start, daemon=True)
            self._thread.start()

    def _start(self) -> None:
        # Py4J logs a traceback for every call that Ctrl-C interrupts; the exceptions that matter are raised as well. The loggers of others,
        # through which Mininet prints, stay as they are.
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        try:
            from analysis.spark import start_session

            self._session = start_session(self._master or "local[*]")
        except Exception as error:  # noqa: BLE001 - raised again in session
            self._failure = error

    def begin_for(self, runs: Sequence[RunInput]) -> None:
        """Start Spark in the background if the captures of runs are many."""
        if not self._is_small(self.rows_of_captures(runs)):
            self.begin()

    def rows_of_captures(self, runs: Sequence[RunInput]) -> int | None:
        """About how many packets the captures of runs hold; None if Spark is on its way, which then reads them however few they are."""
        if self._thread is not None or self._session is not None:
            return None
        files = (run.directory / capture.file for run in runs for capture in run.run.captures)
        return sum(file.stat().st_size for file in files if file.exists()) // _BYTES_OF_A_PACKET

    def tasks_at_once(self, rows: int | None) -> int:
        """How many tasks that read so many rows are carried out at the same time."""
        return 1 if self._is_small(rows) else self.session().sparkContext.defaultParallelism

    def session(self) -> "SparkSession":
        """The session of Spark, once it is up."""
        self.begin()
        if self._thread is not None:
            self._thread.join()
        if self._session is None:
            assert self._failure is not None, "Spark has started or failed"
            raise self._failure
        return self._session

    def do(self, tasks: Sequence[Task], schema: pa.Schema, rows: int | None = None) -> pa.Table:
        """Carry out the tasks, here if they read few rows, else in Spark's workers. Returns all that they gave."""
        if not tasks:
            return schema.empty_table()
        if self._is_small(rows):
            return pa.Table.from_batches([batch for task in tasks for batch in task()], schema)
        session = self.session()
        # Imported when Spark is up: two threads must not import PySpark at the same time.
        from analysis.spark import SPARK_ERRORS, reason

        try:
            return _distributed(session, tasks, schema)
        except SPARK_ERRORS as error:
            raise ResultsError(f"Spark failed: {reason(error)}") from error
        except ConnectionError as error:
            raise ResultsError(f"Spark has ended in the middle of its work, perhaps because memory ran out: {error}") from error

    def _is_small(self, rows: int | None) -> bool:
        return self._alone or (self._master is None and rows is not None and rows <= SMALL)


def _distributed(session: "SparkSession", tasks: Sequence[Task], schema: pa.Schema) -> pa.Table:
    from pyspark.sql.pandas.types import from_arrow_schema

    def work(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from tasks[number]()

    return session.range(len(tasks)).mapInArrow(work, from_arrow_schema(schema)).toArrow()
