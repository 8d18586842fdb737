"""What goes wrong when Spark starts is said in a sentence."""

import pytest

from analysis.errors import AnalysisError
from analysis.spark import start_session


def test_no_java_is_a_sentence(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AnalysisError, match="found none: install a Java runtime"):
        start_session()


def test_a_java_home_without_java_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(AnalysisError, match="JAVA_HOME"):
        start_session()


def test_nothing_listens_beyond_this_machine(spark):
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"
