"""The claims of the papers, each by its scenario, in virtual time and small; and the pages of the papers, held against docs/papers."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from analysis.figures.claims import MeasuredRun
from analysis.figures.summary import read_summary as read_figures
from analysis.job import analyse
from papers import PAPERS
from papers.findings import findings_of
from papers.page import read_summary, view_of, write_page
from runfiles.reading import load
from scenarios.catalogue import every, find
from testbed.commands.paper_runs import Shelf, work_out
from testbed.running import simulated

EXPERIMENTS = {experiment.scenario: (paper, experiment) for paper in PAPERS for experiment in paper.experiments}
DOCS = Path(__file__).parents[2] / "docs" / "papers"


@pytest.fixture(scope="module")
def shelf_of(tmp_path_factory):
    place = tmp_path_factory.mktemp("papers")
    return lambda paper: Shelf(paper, place, quick=True)


@pytest.fixture(scope="module")
def made(shelf_of, crew):
    """The runs of a scenario, made once for its own test and for the page of its paper."""

    @cache
    def make(name):
        paper, experiment = EXPERIMENTS[name]
        tasks = shelf_of(paper).tasks(experiment, "simulator")
        for task in tasks:
            simulated.run(task, lambda *_: None)
        analyse([task.output for task in tasks], crew)
        return [MeasuredRun(load(task.output), read_figures(task.output)) for task in tasks]

    return make


def test_every_scenario_with_claims_belongs_to_one_paper():
    belongs = Counter(experiment.scenario for paper in PAPERS for experiment in paper.experiments)
    assert set(belongs.values()) == {1}
    assert {definition.name for definition in every() if definition.claims} == set(belongs)


def is_refuted(claim, name):
    """Whether a statement of the paper, which this claim decides, is refuted in the summary."""
    paper, _ = EXPERIMENTS[name]
    stated = {finding.name: finding.verdict for finding in read_summary(DOCS / f"{paper.name}.json").findings}
    return any(by.source == name and by.picks(claim) and stated[said.name] == "no" for said in paper.statements for by in said.by)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_claims_hold(name, made):
    runs = made(name)
    assert {run.label: run.summary.differences for run in runs if run.summary.differences} == {}
    assert {run.label: run.summary.verdict_reasons for run in runs if run.summary.verdict != "holds"} == {}
    definition = find(name)
    claims = definition.conclude(runs)
    assert claims
    assert [claim for claim in claims if claim.holds is None] == []
    assert [claim for claim in claims if not claim.holds and not is_refuted(claim, name)] == []
    assert definition.sweep is None or definition.pictures(runs)
    assert definition.tables is None or definition.compare_tables(runs)


@pytest.mark.timeout(1800)  # alone, it makes all runs of a paper; after the tests above it makes none
@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_a_small_page_says_what_the_summary_of_the_paper_says(paper, shelf_of, made):
    shelf = shelf_of(paper)
    for experiment in paper.experiments:
        made(experiment.scenario)
    outcomes = [shelf.outcome(experiment, "simulator") for experiment in paper.experiments]
    for study in paper.studies:
        for item in shelf.points(study):
            work_out(study, item)
        outcomes.append(shelf.study_outcome(study))
    findings = findings_of(paper, outcomes, quick=True, command="")
    page = write_page(view_of(paper, findings, outcomes), shelf.out / paper.name).read_text()
    assert all(f">{finding.name}<" in page for finding in findings.findings)
    stated = read_summary(DOCS / f"{paper.name}.json")
    told = {(finding.name, finding.text): _in_virtual_time(finding) for finding in stated.findings}
    # A first look has too few draws for the intervals of chapter 4.
    assert {
        (finding.name, finding.text): _in_virtual_time(finding) for finding in findings.findings if finding.name != "confidence"
    } == {key: verdicts for key, verdicts in told.items() if key[0] != "confidence"}


def _in_virtual_time(finding):
    return [(piece.source, piece.verdict) for piece in finding.evidence if piece.engine == "simulator"]
