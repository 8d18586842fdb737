"""The verdict on a run: all findings together, with what else is in doubt, and the share of its opportunities that a protocol used."""

import subprocess
import sys

import msgspec
import pytest

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import conclude
from analysis.judging.history import History
from analysis.judging.judge import Finding, Judgement, Verdict, judge
from hostagent.contract.promises import Carrier, Guarantee
from hostagent.protocols.basic import Basic
from tests.analysis import plays
from tests.analysis.mutants import Bare, ForgetsToDeduplicate, Relay
from tests.analysis.stage import Stage, promise, star


def judged(stage: Stage, *guarantees: Guarantee, doubts=(), damage=(), **changes) -> Judgement:
    promised = msgspec.structs.replace(promise(**changes), guarantees=guarantees)
    return judge(stage.history(damage), promised, stage.connectivity(), doubts)


def test_a_run_that_keeps_every_promise_holds():
    judgement = judged(plays.quiet_day(Basic), Guarantee.NO_CREATION, Guarantee.VALIDITY, Guarantee.QUIESCENCE)
    assert (judgement.verdict, judgement.reasons, judgement.relative_reliability) == (Verdict.HOLDS, (), 1.0)
    assert list(judgement.findings) == [Guarantee.NO_CREATION, Guarantee.VALIDITY, Guarantee.QUIESCENCE]


def test_only_what_is_promised_is_checked():
    assert judged(plays.loss(Bare), Guarantee.NO_CREATION).verdict is Verdict.HOLDS
    assert judged(plays.loss(Bare), Guarantee.VALIDITY).verdict is Verdict.VIOLATED


def test_a_violation_outweighs_doubt_and_doubt_outweighs_the_rest():
    one, two = Guarantee.VALIDITY, Guarantee.AGREEMENT
    broken, unsure = Finding(Verdict.VIOLATED, "v"), Finding(Verdict.UNKNOWN, "u")
    assert conclude({one: unsure, two: broken}, ["d"]) == (Verdict.VIOLATED, ("v", "d"))
    assert conclude({one: unsure, two: unsure}, ["d"]) == (Verdict.UNKNOWN, ("u", "d"))
    assert conclude({one: Finding(Verdict.HOLDS), two: unsure}, []) == (Verdict.UNKNOWN, ("u",))
    assert conclude({}, ["d"]) == (Verdict.UNKNOWN, ("d",))


def test_damage_and_doubts_leave_a_run_unknown_even_if_nothing_is_promised():
    stage = plays.quiet_day(Basic)
    assert judged(stage, damage=("a log is cut",)).reasons == ("a log is cut",)
    assert judged(stage, doubts=("the books are open",)).reasons == ("the books are open",)


def test_a_run_holds_if_one_promise_was_tested_and_names_those_that_were_not():
    one, two = Guarantee.VALIDITY, Guarantee.AGREEMENT
    kept, idle = Finding(Verdict.HOLDS, cases=3), Finding(Verdict.NOT_TESTED, "n", cases=0)
    assert conclude({one: kept, two: idle}, []) == (Verdict.HOLDS, ())
    assert conclude({one: kept, two: idle}, ["d"]) == (Verdict.UNKNOWN, ("d",))
    assert conclude({one: idle, two: idle}, []) == (Verdict.NOT_TESTED, ("n",))
    assert conclude({}, []) == (Verdict.NOT_TESTED, ("nothing is promised",))
    stage = Stage(Basic)
    stage.isolate("h1")
    stage.broadcast("h1")
    stage.run(20)
    judgement = judged(stage, one, two, Guarantee.QUIESCENCE)
    assert (judgement.verdict, judgement.not_tested) == (Verdict.HOLDS, (two, Guarantee.QUIESCENCE))


def test_a_run_without_messages_tests_nothing():
    promised = msgspec.structs.replace(promise(), guarantees=(Guarantee.VALIDITY, Guarantee.AGREEMENT))
    silent = judge(History(("h1", "h2"), (), (), 1), promised, Connectivity(star(2)))
    assert (silent.verdict, silent.reasons) == (Verdict.NOT_TESTED, ("no message was broadcast",))
    assert silent.not_tested == promised.guarantees
    assert silent.relative_reliability is None


def test_a_judgement_survives_being_written_and_read():
    judgement = judged(plays.everything_twice(ForgetsToDeduplicate), Guarantee.NO_DUPLICATION)
    assert judgement.verdict is Verdict.VIOLATED
    assert msgspec.json.decode(msgspec.json.encode(judgement), type=Judgement) == judgement


@pytest.mark.parametrize(("core", "share"), [(Bare, 4 / 6), (Relay, 6 / 6)])
def test_relative_reliability_is_the_share_of_what_some_protocol_could_have_delivered(core, share):
    """h1 dies after the second message has left for h2 alone: nobody could have asked h1, but h2 was there to pass it on."""
    assert judged(plays.source_dies_half_way(core), patience_ms=0.5).relative_reliability == pytest.approx(share)


def test_relative_reliability_does_not_count_what_no_path_could_have_carried():
    stage = Stage(Bare)
    stage.isolate("h3")
    stage.broadcast("h1")
    stage.run(20)
    assert judged(stage).relative_reliability == 1.0
    stage.rejoin("h3")
    stage.run(20)
    assert judged(stage).relative_reliability == 0.5
    assert judged(stage, carrier=Carrier.ANYONE).relative_reliability == 0.5


def test_relative_reliability_of_a_source_that_is_alone_is_not_a_number():
    stage = Stage(Bare)
    stage.isolate("h1")
    stage.broadcast("h1")
    stage.run(20)
    assert judged(stage).relative_reliability is None


def test_judging_imports_nothing_that_takes_seconds():
    heavy = "{'pyspark', 'pyarrow', 'matplotlib', 'networkx', 'rich'}"
    program = f"import sys, analysis.judging.judge; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
