"""Starts Spark; no other module does. A command starts one session and uses it for everything."""

import os
import shutil
import sys
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # Py4J has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from runfiles.errors import ResultsError

# Jobs are short, so the JVM uses its quick compiler and its simplest garbage collector, which start fastest.
SHORT_JOBS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
HERE = Path(__file__).parent
ARCHIVE = Path(sys.prefix) / "castbed-spark.jsa"
"""Spark's classes as the JVM has them in memory; made by `analysis.class_archive`."""
SPARK_ERRORS = (PySparkException, Py4JError)
"""The exceptions that Spark raises."""


def start_session(master: str = "local[*]") -> SparkSession:
    """Start a Spark session on `master`, with a quiet log. A local session listens on loopback only."""
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
    """Settings for any master."""
    logging = f"-Dlog4j2.configurationFile={(HERE / 'conf' / 'log4j2.properties').as_uri()}"
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Workers import these modules by name, from the folder they were started from.
        "spark.executorEnv.PYTHONPATH": str(HERE.parent),
        "spark.driver.extraJavaOptions": " ".join((SHORT_JOBS, logging, *_shared_classes())),
    }


def _shared_classes() -> tuple[str, ...]:
    """Options for the archive of classes that set-up made. The JVM silently ignores an archive of another Java or Spark."""
    return ("-Xshare:auto", f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable") if ARCHIVE.exists() else ()


def _on_this_machine() -> dict[str, str]:
    """Settings for a local master: listen on loopback only, and spend no time on what pays off for large jobs alone."""
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
    """The cause of an error in one line: the message of Java if the error came from there."""
    java_exception = getattr(error, "java_exception", None)
    text = java_exception.getMessage() if java_exception else str(error)
    return next((line for line in (text or "").splitlines() if line.strip()), type(error).__name__)
