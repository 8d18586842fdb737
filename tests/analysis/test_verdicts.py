"""A verdict straight from a run directory, and its table: the same findings that Spark's tables lead to."""

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from analysis.job import analyse
from analysis.judging.check_run import check_run, history_of
from analysis.judging.history import ParentChange, Sample, Suspicion
from analysis.judging.judge import Verdict
from analysis.pages.terminal_tables import judgement_table
from analysis.tables.transits import recorded
from hostagent.contract.promises import Guarantee, TimeBound, Timing
from runfiles.errors import ResultsError
from runfiles.format import Event, FaultRecord
from runfiles.reading import load
from tests.analysis.synthetic import PROMISE, START_NS, Maker, honest


def sampled(promise=PROMISE) -> Maker:
    """An honest run whose hosts say every second how they are."""
    maker = honest()
    maker.promise = promise
    for host, events in maker.events.items():
        for second in range(1, 30):
            details = {"sent": maker.counters[host]["sent"], "items": 4}
            events.append(Event(at_ns=START_NS + second * 10**9, event="sample", details=details))
    for host, parent in (("h2", "h1"), ("h3", "h1"), ("h4", "h3")):
        details = {"source": "h1", "parent": parent, "leader": host == "h3"}
        maker.events[host].append(Event(at_ns=START_NS + 30 * 10**9, event="parent", details=details))
    for second, event in ((31, "suspect"), (32, "trust")):
        maker.events["h2"].append(Event(at_ns=START_NS + second * 10**9, event=event, details={"host": "h4"}))
    return maker


# In the honest run hosts deliver a message as soon as they have it, which is not safe, and install no views; and check_run alone knows no
# datagrams.
OTHERS = {Guarantee.SAFE, Guarantee.VIEW_PROGRESS, Guarantee.GENUINE, Guarantee.ONE_TOKEN}
EVERYTHING = msgspec.structs.replace(PROMISE, guarantees=tuple(one for one in Guarantee if one not in OTHERS))


def written(maker, directory):
    """A run whose books balance."""
    maker.write(directory)
    (directory / "summary.json").write_text('{"differences": []}')
    return directory


def drawn(judgement) -> str:
    console = Console(width=100, file=io.StringIO())
    console.print(judgement_table(judgement))
    return console.file.getvalue()


def test_an_honest_run_keeps_every_promise(tmp_path):
    judgement = check_run(written(sampled(EVERYTHING), tmp_path / "run"))
    assert (judgement.verdict, judgement.reasons, judgement.relative_reliability) == (Verdict.HOLDS, (), 1.0)
    assert tuple(judgement.findings) == EVERYTHING.guarantees


def test_spark_comes_to_the_same_findings(crew, tmp_path):
    bound = TimeBound(timing=Timing.P2, bound_ms=10, process_ms=0, network_ms=5)
    guarantees = (*EVERYTHING.guarantees, Guarantee.GENUINE)
    maker = sampled(msgspec.structs.replace(EVERYTHING, retained=3, guarantees=guarantees, time_bounds=(bound,)))
    maker.events["h4"].append(msgspec.structs.replace(maker.events["h4"][0], at_ns=maker.events["h4"][-1].at_ns))
    maker.faults.append(FaultRecord(fault="link-down", target="s2-s3", asked_ns=START_NS, applied_ns=START_NS))
    maker.faults.append(FaultRecord(fault="link-up", target="s2-s3", asked_ns=START_NS + 1, applied_ns=START_NS + 1))
    directory = maker.write(tmp_path / "run")
    unknown = {promise for promise, found in check_run(directory).findings.items() if found.verdict is Verdict.UNKNOWN}
    assert unknown == {Guarantee.GENUINE, str(bound)}
    (summary,) = analyse([directory], crew)
    quick = check_run(directory, recorded)
    assert summary.checks == quick.findings
    assert (summary.checks[str(bound)].cases, summary.checks[str(bound)].longest_ms) == (8, 4.0)
    assert (summary.longest_transit_ms, summary.longest_handling_ms) == (3.0, None)
    assert (summary.verdict, summary.relative_reliability) == (quick.verdict, quick.relative_reliability)
    assert {guarantee for guarantee, finding in quick.findings.items() if finding.verdict is Verdict.VIOLATED} == {
        Guarantee.NO_DUPLICATION,
        # The second delivery of the first message comes after the second message.
        *(Guarantee.ACYCLIC_ORDER, Guarantee.NO_GAPS, Guarantee.ROLLBACK_DISCIPLINE),
        Guarantee.BOUNDED_MEMORY,
    }


def test_the_history_of_a_run_has_its_groups_and_samples(tmp_path):
    maker = sampled()
    maker.events["h1"][0] = msgspec.structs.replace(maker.events["h1"][0], details={"group": 3})
    history = history_of(load(maker.write(tmp_path / "run")))
    assert history.broadcasts[0].group == 3
    assert history.samples[0] == Sample(START_NS + 10**9, "h1", 6, 4)
    assert len(history.samples) == 4 * 29
    assert history.parents[-1] == ParentChange(START_NS + 30 * 10**9, "h4", "h1", "h3", 32, leads=False)
    assert history.suspicions[0] == Suspicion(START_NS + 31 * 10**9, "h2", "h4", True)


DAMAGE = {
    "cut": lambda log: log.write_bytes(log.read_bytes()[:-5]),
    "not ours": lambda log: log.write_bytes(b'{"at_ns": 1, "event": "sample", "details": {"sent": "many"}}\n' + log.read_bytes()),
    "no parent": lambda log: log.write_bytes(
        b'{"at_ns": 1, "event": "parent", "details": {"source": "h1"}}\n' + log.read_bytes()
    ),
    "nobody suspected": lambda log: log.write_bytes(b'{"at_ns": 1, "event": "suspect"}\n' + log.read_bytes()),
    "gone": lambda log: log.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_log_leaves_the_verdict_unknown(tmp_path, damage):
    directory = written(honest(), tmp_path / "run")
    DAMAGE[damage](directory / "events/h3.jsonl")
    judgement = check_run(directory)
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.reasons[0].startswith("the event log of h3 ")
    assert drawn(judgement).count("unknown") == 3


def test_open_books_that_a_summary_tells_of_are_a_doubt(tmp_path):
    directory = honest().write(tmp_path / "run")
    (directory / "summary.json").write_text('{"differences": ["a packet vanished"]}')
    judgement = check_run(directory)
    assert (judgement.verdict, judgement.reasons) == (Verdict.UNKNOWN, ("the books are not balanced: a packet vanished",))
    assert "a packet vanished" in drawn(judgement)


@pytest.mark.parametrize("damage", [lambda path: path.write_text("{"), Path.unlink])
def test_books_that_nobody_has_done_are_a_doubt(tmp_path, damage):
    directory = written(honest(), tmp_path / "run")
    assert check_run(directory).verdict is Verdict.HOLDS
    damage(directory / "summary.json")
    judgement = check_run(directory)
    assert (judgement.verdict, judgement.reasons) == (
        Verdict.UNKNOWN,
        ("its books have not been done: ./castbed analyse does them",),
    )


def test_problems_of_the_run_are_told_once(tmp_path):
    maker = honest()
    maker.problems = ("a trigger never fired",)
    text = drawn(check_run(maker.write(tmp_path / "run")))
    assert text.count("a trigger never fired") == 3


def test_the_table_has_a_row_for_each_promise_and_the_share_of_opportunities(tmp_path):
    maker = honest()
    maker.events["h4"].append(maker.events["h4"][-1])
    text = drawn(check_run(maker.write(tmp_path / "run")))
    assert [" ".join(line.split()) for line in text.splitlines() if line.strip().startswith(("no ", "val"))] == [
        "no creation holds 9",
        "no duplication violated 9 h4 delivered message 2 of h1 twice, at 0.104 s and 0.104 s",
        "validity holds 8",
    ]
    assert "100% of the deliveries that the network allowed" in text


def test_a_promise_that_is_not_known_is_a_sentence(tmp_path: Path):
    directory = honest().write(tmp_path / "run")
    text = (directory / "run.json").read_text()
    (directory / "run.json").write_text(text.replace('"validity"', '"world peace"'))
    with pytest.raises(ResultsError, match=r"run.json is not what a run writes: Invalid enum value 'world peace'"):
        check_run(directory)


def test_a_source_that_counts_anew_leaves_the_verdict_unknown(tmp_path):
    maker = honest()
    maker.events["h1"].append(msgspec.structs.replace(maker.events["h1"][0], at_ns=START_NS + 10**9))
    judgement = check_run(written(maker, tmp_path / "run"))
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.reasons[0] == "h1 has broadcast two messages with number 1, which cannot be told apart"
