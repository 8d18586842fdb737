"""Starts Spark in the background."""

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkStart:
    """Starts Spark in the background, so that a user does not wait for it, and it is up before anything is measured.

    By default Spark runs inside the command, on all cores.
    """

    def __init__(self, master: str | None) -> None:
        self._master = master or "local[*]"
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        # Py4J logs a traceback for every call that Ctrl-C interrupts; the exceptions that matter are raised as well.
        logging.disable(logging.CRITICAL)
        try:
            from analysis.spark import start_session

            self._session = start_session(self._master)
        except Exception as error:  # noqa: BLE001 - raised again by wait
            self._failure = error

    def wait(self) -> "SparkSession":
        """Wait for the session and return it."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._session
