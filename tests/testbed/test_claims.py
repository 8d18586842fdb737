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
    assert json.loads((tmp_path / "out" / "claims.json").read_text()) == printed["claims"]
