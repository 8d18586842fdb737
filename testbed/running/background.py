"""Spark, started in the background."""

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkStart:
    """Starts Spark in the background, so that its start costs the user nothing, and is over before anything is measured.

    By default Spark runs inside the command, on all cores.
    """

    def __init__(self, master: str | None) -> None:
        self._master = master or "local[*]"
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        # Py4J logs every call that Ctrl-C interrupts, with a traceback; what matters comes as an exception.
        logging.disable(logging.CRITICAL)
        try:
            from analysis.spark import start_session

            self._session = start_session(self._master)
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits
            self._failure = error

    def wait(self) -> "SparkSession":
        """The session, as soon as it is there."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._session
