"""An unknown verdict of a run that was too short says what to set."""

import pytest

from analysis.figures.hints import hints
from analysis.judging.findings import unknown, violated
from runfiles.reading import load
from tests.analysis.synthetic import honest


@pytest.fixture
def run(tmp_path):
    return load(honest().write(tmp_path / "run"))


def test_a_run_that_was_too_short_is_told_how_long_to_settle(run):
    finding = unknown("h3 had not delivered message 1 of h1 when the run ended at 20.000 s: too soon to tell")
    (hint,) = hints([(run, {"validity": finding}), (run, {"validity": finding})])
    assert hint.startswith("basic: the run was too short for a verdict")
    assert "--set settle=" in hint


def test_nothing_is_said_where_more_time_would_not_help(run):
    assert hints([(run, {"validity": unknown("the log of h1 is damaged")}), (run, {"validity": violated(1, "too soon")})]) == []
