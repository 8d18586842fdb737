"""A claim of a paper, confirmed with real packets."""

import json

import pytest

from tests.testbed.conftest import castbed

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]


def test_gaps_of_hosts_that_are_not_neighbours_are_filled_while_the_source_is_cut_off(tmp_path):
    """Section 4.4, Figure 4.1, claim 7."""
    done = castbed("run", "figure_4_1", "--json", "--out", str(tmp_path / "out"), "--set", "settle=8s")
    assert done.returncode == 0, done.stdout + done.stderr
    printed = json.loads(done.stdout)
    assert [summary["label"] for summary in printed["runs"]] == ["frugal", "literal"]
    assert [(claim["number"], claim["holds"]) for claim in printed["claims"]] == [("7", True), ("7", True)]
    assert json.loads((tmp_path / "out" / "claims.json").read_text())["claims"] == printed["claims"]


def test_a_majority_that_delivers_and_dies_takes_the_message_along_unless_the_broadcast_is_uniform(tmp_path):
    """Second paper: four of six hosts deliver a message and die while the two others are cut off for a moment."""
    done = castbed("run", "majority_dies", "--json", "--out", str(tmp_path / "out"), "--set", "settle=10s")
    assert done.returncode == 0, done.stdout + done.stderr
    printed = json.loads(done.stdout)
    assert [summary["label"] for summary in printed["runs"]] == ["uniform", "majority"]
    assert [claim["holds"] for claim in printed["claims"]] == [True] * 6
