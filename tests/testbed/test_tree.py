"""The commands that show trees and pack runs; they need neither root nor Spark."""

import json

import pytest

from runfiles.format import Event, FaultRecord
from tests.analysis.synthetic import START_NS, honest
from tests.testbed.conftest import castbed


@pytest.fixture
def results(tmp_path):
    """Two runs: one with a tree and one without."""
    maker = honest("cluster-tree")
    for host, parent in (("h2", "h1"), ("h3", "h1"), ("h4", "h3")):
        about = {"source": "h1", "parent": parent, "leader": host == "h3"}
        maker.events[host].append(Event(at_ns=START_NS + 10**9, event="parent", details=about))
    maker.write(tmp_path / "cluster-tree")
    honest().write(tmp_path / "basic")
    return tmp_path


def test_it_prints_tables_and_draws_the_tree_of_each_run_that_has_one(results):
    done = castbed("tree", str(results), "--at", "2s", "--at", "500ms")
    assert done.returncode == 0, done.stderr
    lines = {" ".join(line.split()) for line in done.stdout.splitlines()}
    assert {"h1 (the source) h2", "h3 h1 h4", "a tree of clusters", "0.000 s first broadcast 900 ms 2 3"} <= lines
    assert {path.name for path in (results / "cluster-tree" / "plots").glob("*.png")} == {"tree-h1-2s.png", "tree-h1-0.5s.png"}


def test_it_prints_json(results):
    done = castbed("tree", str(results / "cluster-tree"), "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout).values()
    (tree,) = found["trees"]
    assert tree["clusters"][1] == {"leaders": {"h3": "h1"}, "members": {"h4": "h3"}, "connected": True}
    assert found["reformations"][0]["took_ns"] == 900_000_000
    assert [change["leader"] for change in found["leader_changes"]] == ["h1", "h3"]


def test_of_a_propagation_graph_it_shows_primary_destinations_closed_graphs_and_who_waits(tmp_path):
    maker = honest("propagation-graph")
    for host, parent, closed in (("h1", "", False), ("h2", "h1", True), ("h3", "h1", False), ("h4", "h3", False)):
        about = {"number": 1, "closed": closed, "primary_of": [1] if host == "h3" else []}
        maker.events[host] += [
            Event(at_ns=START_NS + 10**9, event="parent", details={"source": "h1", "parent": parent}),
            Event(at_ns=START_NS + 10**9, event="graph", details=about),
        ]
    maker.faults.append(
        FaultRecord(fault="crash", target="h3", asked_ns=START_NS + 3 * 10**9, applied_ns=START_NS + 3 * 10**9, details={})
    )
    maker.write(tmp_path / "run")
    done = castbed("tree", str(tmp_path / "run"), "--at", "2s", "--at", "4s")
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert {"h1 1", "h2 1 closed", "h3 group 1 1", "h4 1"} <= set(lines), "at 2 s"
    assert {"h3 group 1 1 down", "h4 1 waits for h3, which is down"} <= set(lines), "at 4 s"
    assert "graph 1, open and graph 1, closed" in lines
    names = {path.name for path in (tmp_path / "run" / "plots").glob("*.png")}
    assert names == {f"{kind}-h1-{when}.png" for kind in ("tree", "forest") for when in ("2s", "4s")}
    (found,) = json.loads(castbed("tree", str(tmp_path / "run"), "--json").stdout).values()
    assert [(host["host"], host["level"], host["waits_for"]) for host in found["trees"][0]["forest"]] == [
        *(("h1", 0, ""), ("h2", 1, ""), ("h3", 1, ""), ("h4", 2, "h3")),
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["basic"], "no host of basic ever had a parent"),
        (["cluster-tree", "--source", "h4"], "has no tree of 'h4': choose from h1"),
        (["cluster-tree", "--at", "99s"], "has no tree at 99 s: the run ended at 59.900 s"),
        (["cluster-tree", "--at", "3"], "'3' is not a time: write a number and a unit"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(results, words, sentence):
    done = castbed("tree", *words, cwd=results)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_archive_is_as_good_as_its_directory(results, tmp_path_factory):
    away = tmp_path_factory.mktemp("away") / "runs.zip"
    done = castbed("export", str(results), "--out", str(away))
    assert (done.returncode, done.stdout) == (0, f"{away}\n"), done.stderr
    assert castbed("check", str(away), "--json").stdout == castbed("check", "runs", "--json", cwd=away.parent).stdout.replace(
        "runs/", f"{away.parent}/runs/"
    )
    done = castbed("tree", away.name, "--at", "2s", cwd=away.parent)
    assert done.returncode == 0, done.stderr
    assert (away.parent / "runs" / "cluster-tree" / "plots" / "tree-h1-2s.png").exists()


def test_what_is_no_archive_is_a_sentence(tmp_path):
    (tmp_path / "runs.zip").write_text("hello")
    for command in ("check", "tree", "analyse", "replay"):
        done = castbed(command, str(tmp_path / "runs.zip"))
        assert (done.returncode, done.stdout) == (2, "")
        assert "runs.zip is not an archive of runs, or is damaged: File is not a zip file" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
