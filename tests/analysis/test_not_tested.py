"""*Not tested*, wherever a verdict is told: exit status, tables, summary, claims and campaigns."""

import io
from collections import Counter

import msgspec
import pytest
from rich.console import Console

from analysis.books import balance
from analysis.figures.claims import kept
from analysis.figures.comparison import compared
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import grouped
from analysis.figures.summary import read_summary, summarise, write_summary
from analysis.judging.check_run import history_of
from analysis.judging.findings import Finding, Verdict, not_tested
from analysis.pages.terminal_tables import comparison_tables, judgement_table, summary_table
from analysis.tables.small import small_tables
from hostagent.contract.promises import Guarantee
from runfiles.reading import load
from simulator.campaign import Tally, run_seed
from simulator.cases import run as run_case
from simulator.swarm import draw_case
from testbed.commands.campaign import print_tally
from testbed.status import status_of
from tests.analysis.cast import BROKEN
from tests.analysis.synthetic import DELIVERIES, PROMISE, honest
from tests.analysis.test_checks import judged

TREE = Guarantee.CLUSTER_TREE


@pytest.fixture
def measured(tmp_path):
    """A run that is too short for the tree that it promises to be due."""
    maker = honest()
    maker.promise = msgspec.structs.replace(PROMISE, guarantees=(*PROMISE.guarantees, TREE), patience_ms=100_000.0)
    found = load(maker.write(tmp_path / "run"))
    books = balance(found, (), (), ())
    books = msgspec.structs.replace(books, balanced=True, differences=())
    summary = summarise(
        found,
        history_of(found),
        books,
        DELIVERIES,
        reports=(),
        link_costs=(),
        expensive_packets={"data": 4},
        crossings={"data": 4},
    )
    return MeasuredRun(found, summary)


def shown(*what, width=80) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(*what)
    return console.file.getvalue()


def test_a_run_that_tested_nothing_does_not_end_with_the_status_of_one_that_holds():
    assert status_of([Verdict.NOT_TESTED]) == status_of([Verdict.HOLDS, Verdict.NOT_TESTED]) == 2
    assert status_of([Verdict.HOLDS]) == 0


def test_a_run_that_holds_names_what_it_did_not_test(measured):
    summary = measured.summary
    assert (summary.verdict, summary.verdict_reasons, summary.not_tested) == (Verdict.HOLDS, (), (TREE,))
    assert "basic: not tested: cluster tree" in shown(summary_table([summary]))
    assert "not tested: cluster tree" in shown(*comparison_tables(compared(grouped([measured]), "")), width=120)
    tables = dict(small_tables(measured.input, measured.history, DELIVERIES, summary))
    rows = {row["guarantee"]: (row["verdict"], row["cases"]) for row in tables["verdicts"].to_pylist()}
    assert rows == {
        "no creation": ("holds", 8),
        "no duplication": ("holds", 8),
        "validity": ("holds", 8),
        "cluster tree": ("not tested", 0),
    }


def test_a_summary_of_before_the_word_can_still_be_read(measured, tmp_path):
    write_summary(measured.summary, tmp_path)
    assert read_summary(tmp_path) == measured.summary
    old = msgspec.json.decode((tmp_path / "summary.json").read_bytes())
    del old["not_tested"]
    for check in old["checks"].values():
        del check["cases"]
    old["checks"]["cluster tree"] = {
        "verdict": "holds",
        "reason": "nothing was asked of it: nobody broadcast after the last fault",
    }
    (tmp_path / "summary.json").write_bytes(msgspec.json.encode(old))
    found = read_summary(tmp_path)
    assert (found.verdict, found.not_tested, found.checks[TREE].cases) == (Verdict.HOLDS, (), None)
    assert "not tested" not in shown(summary_table([found]))


def test_a_claim_that_rests_on_a_promise_nobody_tested_is_unknown(measured):
    claim = kept("3", measured, TREE, expected=True)
    assert (claim.holds, claim.figure) == (None, "not tested: the run ended before the tree had to stand, at 100.000 s")
    assert kept("3", measured, Guarantee.VALIDITY, expected=True).holds is True


def test_the_table_of_check_has_the_number_of_cases():
    _, core, play, _ = next(row for row in BROKEN if row[0] is Guarantee.NO_DUPLICATION)
    judgement = judged(play(core), Guarantee.NO_DUPLICATION, TREE)
    findings = judgement.findings | {TREE: not_tested("a reason"), Guarantee.VALIDITY: Finding(Verdict.HOLDS)}
    lines = [line.split() for line in shown(judgement_table(msgspec.structs.replace(judgement, findings=findings))).splitlines()]
    assert ["validity", "holds", "-"] in lines
    assert ["cluster", "tree", "not", "tested", "0", "a", "reason"] in lines


def test_a_campaign_counts_how_often_each_promise_was_tested(capsys):
    seed = next(seed for seed in range(50) if not draw_case("cluster-tree", seed)[0].beyond)
    line = run_seed("cluster-tree", seed, {})
    findings = run_case(draw_case("cluster-tree", seed)[0]).judgement.findings
    assert line.tested == {promise: found.verdict is Verdict.HOLDS for promise, found in findings.items()}
    tally = Tally()
    tally.add(line)
    tally.add(msgspec.structs.replace(line, tested=dict.fromkeys(line.tested, False) | {"validity": True}))
    assert (tally.tested["validity"], tally.tested["no creation"]) == (2, 1)
    print_tally("cluster-tree", Tally(tested=Counter({"validity": 2, "cluster tree": 0})), {})
    said = capsys.readouterr().out
    assert "tested:                  validity in 2\n" in said
    assert "no schedule tested:      cluster tree\n" in said


def test_a_campaign_tells_in_how_many_cases_a_second_token_lived_and_how_long(capsys):
    seed = next(seed for seed in range(50) if not draw_case("optimistic", seed, brief=True)[0].beyond)
    line = msgspec.structs.replace(run_seed("optimistic", seed, {}, brief=True), longest_ms={})
    tally = Tally()
    for longest_ms in ({}, {"one token": 20.0}, {"one token": 1528.4}, {"one token": 7.0}):
        tally.add(msgspec.structs.replace(line, longest_ms=longest_ms))
    tally.add(msgspec.structs.replace(line, longest_ms={"one token": 9999.0}, beyond=True))
    for one in (tally, Tally(tested=tally.tested)):
        print_tally("optimistic", one, {})
    said = " ".join(capsys.readouterr().out.split())
    assert "one token in 4, a second one lived in 3 of them for 1528 ms at most," in said
    assert "one token in 4, a second one lived in 0 of them," in said
