"""The one place that starts Spark. A command starts one session and uses it for everything."""

import os
import shutil
import sys
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # Py4J has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from runfiles.errors import ResultsError

# The jobs are short: the JVM's quick compiler and simplest collector start sooner, and the full ones would never pay off.
SHORT_JOBS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
HERE = Path(__file__).parent
ARCHIVE = Path(sys.prefix) / "castbed-spark.jsa"
"""Spark's classes as the JVM has them in memory; made by `analysis.class_archive`."""
SPARK_ERRORS = (PySparkException, Py4JError)
"""What Spark raises for whatever went wrong in it."""


def start_session(master: str = "local[*]") -> SparkSession:
    """A Spark session on `master`, quiet, and on this machine alone unless the master is elsewhere."""
    _find_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_CONF_DIR", str(HERE / "conf"))
    builder = SparkSession.builder.master(master).appName("castbed")
    for key, value in (_everywhere() | (_on_this_machine() if master.startswith("local") else {})).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (*SPARK_ERRORS, OSError) as error:
        raise ResultsError(f"Spark does not start on master {master!r}: {reason(error)}") from error


def _everywhere() -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Workers import these modules by name, from the folder they were started from.
        "spark.executorEnv.PYTHONPATH": str(HERE.parent),
        "spark.driver.extraJavaOptions": " ".join((SHORT_JOBS, _quiet(), *_shared_classes())),
    }


def _quiet() -> str:
    return f"-Dlog4j2.configurationFile={(HERE / 'conf' / 'log4j2.properties').as_uri()}"


def _shared_classes() -> tuple[str, ...]:
    """Classes in set-up's archive need not be read and checked again. An archive of another Java or Spark is passed over in silence."""
    return ("-Xshare:auto", f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable") if ARCHIVE.exists() else ()


def _on_this_machine() -> dict[str, str]:
    """Nothing listens beyond loopback, and a small job is neither cut into 200 pieces, nor compiled, nor planned again half-way."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
    }


def _find_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise ResultsError("Spark needs Java 17 or later and found none: install a Java runtime, or point JAVA_HOME to one")


def reason(error: Exception) -> str:
    """The cause in one line: what Java said, if Java was reached."""
    java_exception = getattr(error, "java_exception", None)
    text = java_exception.getMessage() if java_exception else str(error)
    return next((line for line in (text or "").splitlines() if line.strip()), type(error).__name__)
