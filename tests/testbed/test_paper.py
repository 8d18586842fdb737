"""The command paper: the list, names, where runs are kept, and that a second call makes only what is missing."""

import json

from papers import PAPERS
from papers.chapter_4 import Mean, Measured, Point, measure
from papers.paper import Experiment, Paper, Study
from testbed.__main__ import main
from testbed.commands.paper_runs import Shelf, work_out


def test_a_paper_that_there_is_not_is_refused_with_the_names(capfd):
    assert main(["paper", "six"]) == 2
    assert "there is no paper 'six': choose from nonprogrammable_servers, " in capfd.readouterr().err


def test_the_list_has_every_paper_with_its_verdicts(capfd, tmp_path):
    assert main(["paper", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capfd.readouterr().out)
    assert list(found) == [paper.name for paper in PAPERS]
    assert all(set(count) == {"yes", "no", "unknown"} for count in found.values())


def paper(**more):
    experiments = (Experiment("cycle", {"draws": "2"}, quick={"draws": "1"}, pack_ms=None, repeat=3, on_mininet=False),)
    return Paper("small", "A small paper", "Nobody", "About nothing.", experiments, (), **more)


def test_a_first_look_has_its_own_directory_settings_and_one_seed(tmp_path):
    whole, quick = (Shelf(paper(), tmp_path, quick) for quick in (False, True))
    (experiment,) = paper().experiments
    assert (whole.plan(experiment, "simulator").repeat, quick.plan(experiment, "simulator").repeat) == (3, 1)
    assert (whole.plan(experiment, "simulator").fixed, quick.plan(experiment, "simulator").fixed) == (("draws=2",), ("draws=1",))
    assert whole.place("simulator", "cycle") != quick.place("simulator", "cycle")
    assert whole.begin("mininet") == []
    assert whole.outcomes([]) == []
    assert {task.seed for task in whole.begin("simulator")} == {1, 2, 3}
    (outcome,) = whole.outcomes([])
    assert outcome.command == "./castbed run cycle --on simulator --set draws=2 --pack off --repeat 3"
    assert (outcome.runs, outcome.claims) == (0, [])


def _points(quick):
    return [Point(6, 2, 3, "heuristic-1", 2 if quick else 3)]


def _conclude(results):
    assert [found.draws for found in results] == [2]
    return [], []


def test_the_points_of_a_study_are_kept_in_files(tmp_path):
    study = Study("points", "Points.", _points, measure, Measured, _conclude)
    shelf = Shelf(paper(studies=(study,)), tmp_path, quick=True)
    (item,) = shelf.points(study)
    assert shelf.study_outcome(study).runs == 0
    work_out(study, item)
    assert item[0].exists()
    assert shelf.study_outcome(study).runs == 1


def test_a_point_of_chapter_4_is_drawn_until_its_means_are_known():
    found = measure(Point(20, 10, 5, "heuristic-1"))
    assert found.draws >= 30
    assert all(figure.half <= max(0.1 * figure.mean, 0.5 * (name == "extra")) for name, figure in found.figures.items())
    assert found.figures["centralised"] == Mean(60.0, 0.0)
