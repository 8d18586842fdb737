"""What goes wrong when Spark starts is said in a sentence."""

import subprocess

import pyarrow as pa
import pytest

from analysis import crew as crews
from analysis import spark as spark_start
from analysis.crew import SMALL, Crew
from analysis.spark import start_session
from runfiles.errors import ResultsError


def test_no_java_is_a_sentence(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ResultsError, match="found none: install a Java runtime"):
        start_session()


def test_a_java_home_without_java_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ResultsError, match="JAVA_HOME"):
        start_session()


def test_nothing_listens_beyond_this_machine(spark):
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_an_archive_of_classes_is_used_if_it_is_there_and_nothing_is_said_of_a_stale_one(tmp_path, monkeypatch):
    monkeypatch.setattr(spark_start, "ARCHIVE", tmp_path / "classes.jsa")
    assert spark_start._shared_classes() == ()
    (tmp_path / "classes.jsa").write_bytes(b"of another Java" * 100)
    said = subprocess.run(["java", *spark_start._shared_classes(), "-version"], capture_output=True, text=True, check=True)
    assert said.stdout == ""
    assert [line.split()[0] for line in said.stderr.splitlines()] == ["openjdk", "OpenJDK", "OpenJDK"]


ONE = pa.schema({"one": pa.int64()})


def one_row():
    yield pa.RecordBatch.from_pydict({"one": [1]}, ONE)


def test_a_crew_that_is_alone_does_the_largest_work_itself(monkeypatch):
    monkeypatch.setattr(Crew, "session", lambda _: pytest.fail("Spark was started"))
    crew = Crew(alone=True)
    assert crew.do([one_row, one_row], ONE, rows=SMALL + 1)["one"].to_pylist() == [1, 1]
    assert crew.tasks_at_once(None) == 1


def test_a_spark_that_ends_in_the_middle_is_not_called_a_file_that_cannot_be_written(crew, monkeypatch):
    def refused(*_):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(crews, "_distributed", refused)
    with pytest.raises(ResultsError, match="Spark has ended in the middle of its work"):
        crew.do([one_row], ONE)
