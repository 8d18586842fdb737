"""Verdicts on what papers state, from the claims of scenarios."""

import dataclasses
from pathlib import Path

import pytest

from analysis.figures.claims import Claim
from analysis.figures.stated import Entry, Table, compare_tables
from papers import PAPERS
from papers.findings import Outcome, decided, findings_of, together
from papers.page import MOST_ROWS, overview, read_summary, table_view, tidy, view_of, write_index, write_page, write_summary
from papers.paper import By, Experiment, Paper, Slip, StatedTable, Statement

YES, NO, UNKNOWN = (Claim("1", f"it is {holds}", holds, "the figure") for holds in (True, False, None))


def outcome(*claims, engine="simulator", source="cycle", tables=()):
    return Outcome(source, engine, "About it.", "./castbed run cycle", 2, 1, "simulator/cycle", [*claims], [], [*tables])


def paper(*by, **more):
    said = Statement("1", "Nothing lasts.", by or (By("cycle", "1"),), "4", why="because of `this`")
    return Paper("small", "A small paper", "Nobody", "About <nothing>.", (Experiment("cycle"),), (said,), **more)


def finding(*outcomes, by=()):
    return findings_of(paper(*by), outcomes, quick=True, command="./castbed paper small").findings[0]


@pytest.mark.parametrize(
    ("words", "verdict"),
    [(["yes", "yes"], "yes"), (["yes", "unknown"], "unknown"), (["unknown", "no"], "no"), ([], "unknown")],
)
def test_one_no_refutes_and_only_all_yes_confirm(words, verdict):
    assert together(words) == verdict


def test_a_statement_has_the_verdict_of_the_claims_that_decide_it_and_of_no_others():
    other = Claim("2", "another", False, "")
    assert finding(outcome(YES, other)).verdict == "yes"
    assert finding(outcome(YES, NO, other)).verdict == "no"
    assert finding(outcome(other)).verdict == "unknown"
    assert finding(outcome(YES, other, source="elsewhere")).verdict == "unknown"


def test_claims_are_chosen_by_words_of_their_text():
    assert finding(outcome(YES, NO), by=[By("cycle", text="True")]).verdict == "yes"
    assert finding(outcome(YES, NO), by=[By("cycle", but_not="False")]).verdict == "yes"


def test_a_claim_that_says_the_opposite_refutes():
    against = [By("cycle", refutes=True)]
    assert finding(outcome(YES), by=against).verdict == "no"
    assert finding(outcome(NO), by=against).verdict == "yes"
    assert finding(outcome(UNKNOWN), by=against).verdict == "unknown"


def test_why_is_told_only_of_what_is_refuted():
    assert finding(outcome(NO)).why == "because of `this`"
    assert not finding(outcome(YES)).why


def test_engines_that_disagree_are_told():
    assert not finding(outcome(YES), outcome(YES, engine="mininet")).differs
    assert (
        finding(outcome(YES), outcome(NO, engine="mininet")).differs
        == "The engines disagree: confirmed on the simulator, refuted on Mininet."
    )


def test_the_page_says_of_what_both_engines_can_tell_and_whether_they_agree(tmp_path):
    def page(*outcomes):
        findings = findings_of(paper(), outcomes, quick=True, command="./castbed paper small")
        return write_page(view_of(paper(), findings, outcomes), tmp_path).read_text()

    both = page(outcome(YES), outcome(YES, engine="mininet"))
    assert "Both can tell of 1 of the 1 statements, and they agree on all of them." in both
    assert "Both engines agree." in both
    apart = page(outcome(YES), outcome(NO, engine="mininet"))
    assert "Both can tell of 1 of the 1 statements, on 0 of them they agree, on 1 they do not." in apart
    assert "The engines disagree: confirmed on the simulator, refuted on Mininet." in apart
    alone = page(outcome(YES), outcome(UNKNOWN, engine="mininet"))
    assert "None of the 1 statements was put to the test on both." in alone
    assert "Only the simulator can tell." in alone
    assert "can tell" not in page(outcome(YES))


def test_no_line_ends_within_a_short_formula_or_before_a_unit():
    assert (
        tidy("n - 1 packets at N = 10, E = 2 %, in 5 ms")
        == "n\xa0\u2212\xa01 packets at N\xa0=\xa010, E\xa0=\xa02\xa0%, in 5\xa0ms"
    )
    assert tidy("from s2-s3 on") == "from s2-s3 on"


def test_an_engine_that_cannot_tell_leaves_it_to_the_other():
    found = finding(outcome(NO), outcome(UNKNOWN, engine="mininet"))
    assert (found.verdict, found.differs) == ("no", "")
    assert finding(outcome(UNKNOWN)).verdict == "unknown"


def test_the_claims_that_decide_are_those_that_are_told():
    (piece,) = finding(outcome(YES, YES, NO)).evidence
    assert (piece.figures, piece.told, piece.checks) == (["it is False: the figure"], "1 of 3 checks", 3)


def test_the_page_has_tables_slips_and_checks_and_escapes_what_it_shows(tmp_path):
    (made,) = compare_tables(
        [[Table("Table 1", "Packets", {"<b>": {"N": Entry("n + 1", 4.0 + seed / 10, 4.0)}})] for seed in range(6)]
    )
    stated = StatedTable("cycle", Statement("Table 1", "So many.", (By("cycle"),)))
    whole = paper(tables=(stated,), slips=(Slip("4", "`E < 0`", "means less than 1"),))
    outcomes = [outcome(YES, tables=[made])]
    findings = findings_of(whole, outcomes, quick=True, command="./castbed paper small --quick")
    page = write_page(view_of(whole, findings, outcomes), tmp_path).read_text()
    for text in (
        "<code>E &lt; 0</code>",
        "&lt;b&gt;",
        "4.25",
        "4 to 4.5",
        "+0.25",
        "first look",
        "About &lt;nothing&gt;.",
        "it is True",
    ):
        assert text in page
    assert "<script" not in page
    json, markdown = write_summary(whole, findings, tmp_path)
    assert read_summary(json) == findings
    assert "| 1 | Nothing lasts. | **confirmed** |" in markdown.read_text()
    index = write_index([(whole, findings), (dataclasses.replace(whole, title="Another"), None)], tmp_path / "all").read_text()
    assert "Another" in index
    assert "Not made yet" in index


def test_what_is_refuted_stands_at_the_top_of_the_page_and_in_the_index(tmp_path):
    findings = findings_of(paper(), [outcome(NO)], quick=True, command="./castbed paper small")
    page = write_page(view_of(paper(), findings, [outcome(NO)]), tmp_path / "small").read_text()
    assert page.index('<a href="#claim-1">Nothing lasts.</a>') < page.index('id="claims"') < page.index('id="claim-1"')
    index = write_index([(paper(), findings)], tmp_path).read_text()
    assert '<a href="small/index.html#claim-1">Nothing lasts.</a><small>because of <code>this</code></small>' in index
    assert "All runs were <strong>simulated</strong>" in index
    assert "1 refuted" in index


def test_many_checks_are_folded_and_their_number_is_told(tmp_path):
    outcomes = [outcome(*[YES] * 20, NO)]
    findings = findings_of(paper(), outcomes, quick=True, command="./castbed paper small")
    page = write_page(view_of(paper(), findings, outcomes), tmp_path).read_text()
    assert "<details>\n    <summary>21 checks, 20 of them hold</summary>" in page


@pytest.mark.parametrize("rows", [MOST_ROWS, MOST_ROWS + 1])
def test_a_long_table_is_folded(rows, tmp_path):
    (made,) = compare_tables([[Table("Table 1", "Packets", {f"N = {row}": {"N": Entry("n", 1.0, 1.0)} for row in range(rows)})]])
    whole = paper(tables=(StatedTable("cycle", Statement("Table 1", "So many.", (By("cycle"),), note="Of ours.")),))
    outcomes = [outcome(YES, tables=[made])]
    findings = findings_of(whole, outcomes, quick=False, command="./castbed paper small")
    page = write_page(view_of(whole, findings, outcomes), tmp_path).read_text()
    assert (f"<summary>The {rows} rows of the table</summary>" in page) == (rows > MOST_ROWS)
    assert "<small>Of ours.</small>" in page


def test_words_in_tables_are_compared_by_what_the_scenario_says():
    (made,) = compare_tables([[Table("Table 2", "Orders", {"counter": {"order": Entry("empty", "holds", agrees=False)}})]])
    ((_, (cell,)),) = table_view("simulator", made).rows
    assert (cell.measured, cell.differs) == ("holds", True)


@pytest.mark.parametrize("known", PAPERS, ids=lambda known: known.name)
def test_every_statement_is_decided_by_a_scenario_or_study_of_its_paper(known):
    sources = {experiment.scenario for experiment in known.experiments} | {study.name for study in known.studies}
    assert [by.source for said in known.statements for by in said.by if by.source not in sources] == []
    assert all(said.by for said in known.statements)
    names = [said.name for said in known.statements]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("known", PAPERS, ids=lambda known: known.name)
def test_a_summary_says_what_its_evidence_says_and_was_not_changed_by_hand(known, tmp_path):
    docs = Path(__file__).parents[2] / "docs" / "papers"
    stated = read_summary(docs / f"{known.name}.json")
    assert [(found.name, (found.engines, found.verdict)) for found in stated.findings] == [
        (found.name, decided(found.evidence)) for found in stated.findings
    ]
    _, markdown = write_summary(known, stated, tmp_path)
    assert markdown.read_text() == (docs / markdown.name).read_text()


def test_the_tables_of_papers_in_the_readme_are_those_of_the_summaries():
    root = Path(__file__).parents[2]
    told = overview(PAPERS, root / "docs" / "papers")
    assert told == (root / "docs" / "papers" / "README.md").read_text()
    readme = (root / "README.md").read_text().replace("](docs/papers/", "](").splitlines()
    assert [line for line in told.splitlines() if line.startswith("|") and line not in readme] == []
