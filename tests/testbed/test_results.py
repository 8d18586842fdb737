"""Runs are listed, filtered and removed, and their pages are found."""

import json
import os

import pytest

from runfiles.format import write
from tests.analysis.synthetic import honest
from tests.testbed.conftest import castbed


@pytest.fixture
def results(tmp_path):
    """Three runs: two repeats of a scenario, and another protocol."""
    place = tmp_path / "results"
    for where, protocol, verdict in (("a/basic/1", "basic", "holds"), ("a/basic/2", "basic", "violated"), ("b/fan", "fan", "")):
        directory = honest(protocol).write(place / where)
        if verdict:
            write(directory / "summary.json", {"verdict": verdict})
    (place / "a" / "report.html").write_text("<!doctype html>")
    (place / "a" / "plots").mkdir()
    return place


def listed(results, *words):
    done = castbed("runs", str(results), "--json", *words)
    assert done.returncode == 0, done.stderr
    return [os.path.relpath(run["directory"], results) for run in json.loads(done.stdout)]


def test_all_runs_are_listed_and_some_by_what_they_are(results):
    assert listed(results) == ["a/basic/1", "a/basic/2", "b/fan"]
    assert listed(results, "--protocol", "fan") == ["b/fan"]
    assert listed(results, "--verdict", "violated") == ["a/basic/2"]
    assert listed(results, "--verdict", "none") == ["b/fan"]
    assert listed(results, "--on", "simulator") == []


def test_the_table_has_whole_names(results):
    shown = castbed("runs", str(results)).stdout
    assert "violated" in shown
    assert f"{results}/a/basic/\n" in shown, "a directory stands in one line, so that it can be copied"
    assert shown.rstrip().endswith("3 runs")


def test_nothing_is_removed_without_yes(results):
    done = castbed("runs", str(results), "--remove")
    assert "3 runs would be removed" in done.stdout
    assert len(listed(results)) == 3


def test_runs_are_removed_with_what_is_beside_them_and_nothing_else(results):
    (results / "b" / "notes.txt").write_text("mine")
    assert castbed("runs", str(results), "--verdict", "holds", "--remove", "--yes").returncode == 0
    assert listed(results) == ["a/basic/2", "b/fan"]
    assert (results / "a" / "report.html").exists()
    castbed("runs", str(results), "--remove", "--yes")
    assert sorted(path.name for path in results.rglob("*")) == ["b", "notes.txt"]


def test_other_files_in_a_run_keep_its_directory(results):
    (results / "b" / "fan" / "notes.txt").write_text("mine")
    done = castbed("runs", str(results), "--protocol", "fan", "--remove", "--yes")
    assert "has other files: notes.txt" in done.stderr.replace("\n", " ")
    assert (results / "b" / "fan" / "notes.txt").exists()


def test_a_page_is_found_from_any_of_its_runs(results, monkeypatch):
    for screen in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(screen, raising=False)
    page = str(results / "a" / "report.html")
    for place in ("a", "a/basic", "a/basic/1"):
        done = castbed("open", str(results / place))
        assert (done.returncode, done.stdout.strip()) == (0, page)
    assert castbed("open", cwd=results.parent).stdout.strip() == page


def test_what_has_no_page_or_no_runs_is_a_sentence(results, tmp_path):
    done = castbed("open", str(results / "b" / "fan"))
    assert done.returncode == 2
    assert "has no report.html: ./castbed analyse" in done.stderr
    done = castbed("runs", cwd=tmp_path / "results" / "b")
    assert done.returncode == 2
    assert done.stderr.startswith("castbed: there are no runs")
