"""A Spark master with two workers, all on this machine's loopback, makes the same tables as a session inside the command."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from tests.analysis.synthetic import honest

ROOT = Path(__file__).parent.parent.parent
SPARK = Path(pyspark.__file__).parent
TABLES = ("packets", "link_costs", "message_costs", "deliveries", "parents")


def environment(scratch: Path) -> dict[str, str]:
    own = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOG_DIR": str(scratch),
        "SPARK_WORKER_DIR": str(scratch),
    }
    return os.environ | own | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK)}


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    """The address of a master with two workers of one core each."""
    scratch = tmp_path_factory.mktemp("spark")
    started = []

    def start(name: str, *words: str) -> Path:
        log = scratch / f"{name}.log"
        command = [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{name.split('-', maxsplit=1)[0]}", *words]
        with log.open("wb") as output:
            started.append(subprocess.Popen(command, stdout=output, stderr=output, env=environment(scratch), cwd=scratch))
        return log

    def wait_for(log: Path, text: str) -> str:
        deadline = time.monotonic() + 120
        while not (found := [line for line in log.read_text().splitlines() if text in line]):
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)
        return found[0]

    try:
        log = start("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        address = next(word for word in wait_for(log, "Starting Spark master at").split() if word.startswith("spark://"))
        workers = [
            start(f"worker.Worker-{n}", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g", address)
            for n in (1, 2)
        ]
        for worker in workers:
            wait_for(worker, "Successfully registered with master")
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def rows(run: Path, table: str) -> list[str]:
    return sorted(map(repr, pq.read_table(run / "tables" / f"{table}.parquet").to_pylist()))


def test_a_cluster_makes_the_same_tables(master, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    honest().write(here)
    shutil.copytree(here, there)
    for run, words in ((here, ()), (there, ("--spark-master", master))):
        command = [sys.executable, "-m", "testbed", "analyse", str(run), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(tmp_path))
        assert done.returncode == 0, done.stderr
    assert all(rows(here, table) for table in TABLES if table != "parents")
    assert {table: rows(here, table) for table in TABLES} == {table: rows(there, table) for table in TABLES}
    assert (here / "summary.json").read_text() == (there / "summary.json").read_text()
