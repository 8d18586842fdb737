"""Scenarios conclude something from their runs: what a claim needs to be believed, and what becomes of one that cannot be."""

import json
from types import SimpleNamespace

import msgspec
import pytest

from analysis.figures.claims import Claim, Gain, MeasuredRun, Runs, Sweep, evaluate, least_cost, over_repeats
from analysis.pictures.plots import sweep_figure
from runfiles.reading import load
from scenarios import Scenario, ScenarioError, Variant, Workload
from scenarios.catalogue import Definition, find
from testbed.commands import run as run_commands
from testbed.errors import CannotRun
from testbed.running import simulated
from testbed.running.settings import choose
from testbed.running.tasks import Task
from tests.analysis.synthetic import honest
from topologies import clusters

YES = Claim("1", "it holds", holds=True, figure="3 of 3")
SCENARIO = Scenario(network=clusters(2, 1, "line"), workload=Workload(messages=3))
OTHER = Scenario(network=clusters(3, 1, "line"))


def run(label="basic", seed=1, *, balanced=True, damage=()):
    """A run of which only this is known."""
    return MeasuredRun(None, SimpleNamespace(label=label, seed=seed, balanced=balanced, damage=damage))


def looks_at(*labels, claim=YES):
    """A claims function that uses these runs."""

    def claims(runs):
        for label in labels:
            assert runs[label].label == label
        yield claim

    return claims


@pytest.fixture
def written(tmp_path):
    """Makes a scenario file of the user with this text behind `scenario`."""

    def make(text):
        path = tmp_path / "mine.py"
        path.write_text(
            '"""Two hosts."""\nfrom analysis.figures.claims import Claim, Sweep\nfrom scenarios import Scenario, Variant\n'
            "from topologies import clusters\n"
            f"def scenario():\n    return Scenario(network=clusters(2, 1, 'line'))\n{text}\n"
        )
        return find(str(path))

    return make


def test_a_claim_on_a_run_of_which_something_is_missing_is_unknown():
    (claim,) = evaluate(looks_at("basic"), [run(damage=("a log is cut",))])
    assert (claim.holds, claim.figure) == (None, "3 of 3 (basic: a log is cut)")


@pytest.mark.parametrize("reads", [lambda one: one.broadcasts, lambda one: one.history, lambda one: one.logged("deliver")])
def test_a_log_that_was_damaged_after_the_analysis_makes_claims_unknown(reads, tmp_path):
    measured = MeasuredRun(load(honest().write(tmp_path / "run")), run().summary)

    def claims(runs):
        reads(runs["basic"])
        yield YES

    assert evaluate(claims, [measured]) == [YES]
    log = tmp_path / "run" / "events" / "h1.jsonl"
    log.write_bytes(log.read_bytes() + b"no line\n")
    (claim,) = evaluate(claims, [MeasuredRun(load(tmp_path / "run"), run().summary)])
    assert claim.holds is None
    assert "the event log of h1 is damaged" in claim.figure


def test_a_claim_on_a_run_whose_books_do_not_balance_is_unknown():
    runs = [run("good"), run("bad", balanced=False)]
    assert evaluate(looks_at("good"), runs) == [YES]
    (claim,) = evaluate(looks_at("good", "bad"), runs)
    assert claim.holds is None
    assert claim.figure == "3 of 3 (the books of bad do not balance)"


def test_a_no_on_such_a_run_is_unknown_too():
    no = msgspec.structs.replace(YES, holds=False)
    assert evaluate(looks_at("bad", claim=no), [run("bad", balanced=False)])[0].holds is None


def test_a_run_that_was_looked_at_for_one_claim_counts_for_those_after_it():
    def claims(runs):
        yield YES
        assert len(list(runs)) == 1
        yield YES
        yield YES

    assert [claim.holds for claim in evaluate(claims, [run(balanced=False)])] == [True, None, None]


def test_claims_on_a_run_that_was_not_made_are_unknown():
    def claims(runs):
        yield YES
        yield Claim("2", "never said", bool(runs["cluster-tree"]), "")

    first, second = evaluate(claims, [run()])
    assert first == YES
    assert (second.holds, second.figure) == (None, "the claim is about the run 'cluster-tree', which was not made")


@pytest.mark.parametrize(
    ("answers", "together"), [((True, True), True), ((True, False), False), ((True, None), None), ((None, False), False)]
)
def test_a_claim_holds_over_several_seeds_if_it_holds_with_each(answers, together):
    def claims(runs):
        (only,) = runs
        yield msgspec.structs.replace(YES, holds=answers[only.summary.seed - 1], figure=f"figure {only.summary.seed}")

    (claim,) = evaluate(claims, [run(seed=1), run(seed=2)])
    assert (claim.holds, claim.figure) == (together, "seed 1: figure 1; seed 2: figure 2")


def test_what_is_the_same_with_every_seed_is_told_once():
    (claim,) = evaluate(lambda _: [msgspec.structs.replace(YES, figure="3 of 3")], [run(seed=1), run(seed=2)])
    assert claim.figure == "3 of 3, with each of 2 seeds"


def test_of_many_seeds_those_that_decide_are_told():
    def claims(runs):
        (only,) = runs
        yield msgspec.structs.replace(YES, holds=only.summary.seed != 5, figure=f"figure {only.summary.seed}")

    (claim,) = evaluate(claims, [run(seed=seed) for seed in range(1, 7)])
    assert (claim.holds, claim.figure) == (False, "seed 5: figure 5; seed 1: figure 1; seed 2: figure 2; and 3 more seeds")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def claims(runs):\n    yield 1 / 0", r"claims\(\) of scenario mine fails at .*mine.py:8: ZeroDivisionError"),
        ("def claims(runs):\n    return ['yes']", r"must give Claim\(number, text, holds, figure\) .* not 'yes'"),
        ("def claims(runs):\n    yield Claim('1', 'x', 'maybe', '')", r"holds True, False or None, not Claim"),
        ("def claims(runs):\n    return None", r"claims\(\) of scenario mine fails"),
    ],
)
def test_claims_that_fail_are_named_with_their_line(written, text, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        written(text).conclude([run()])


@pytest.mark.parametrize("text", ["claims = 3", "def claims():\n    return []", "def sweep(runs, more):\n    pass"])
def test_what_cannot_be_called_with_runs_is_refused_before_anything_is_run(written, text):
    with pytest.raises(ScenarioError, match="must be a function of one argument, the runs"):
        written(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def scenario():\n    return []", r"scenario\(\) must return a Scenario, or Variants"),
        ("def scenario():\n    return 'grid'", r"scenario\(\) must return a Scenario, or Variants"),
        ("one = scenario()\ndef scenario():\n    return [Variant('a', one, 'basic')] * 2", "two runs have the label 'a'"),
        ("one = scenario()\ndef scenario():\n    return [Variant('../a', one, 'basic')]", "cannot be the label of a run"),
        ("one = scenario()\ndef scenario():\n    return [Variant('plots', one, 'basic')]", "cannot be the label of a run"),
    ],
)
def test_variants_that_make_no_sense_are_refused(written, text, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        written(text).build({})


def test_the_workload_can_be_set_for_every_variant():
    variants = find("cluster_tree").build({"messages": "7", "k": "3"})
    assert {variant.scenario.workload.messages for variant in variants} == {7}
    assert {len(variant.scenario.network.clusters) for variant in variants} == {3}


def labels(variants, *protocols, **parameters):
    return [variant.label for variant in choose(variants, protocols, parameters)]


def test_protocols_of_the_user_choose_among_the_runs_of_a_scenario():
    variants = [Variant("a", SCENARIO, "cluster-tree", {"ein_ms": 500.0}), Variant("b", SCENARIO, "basic")]
    assert labels(variants) == ["a", "b"]
    assert labels(variants, "basic") == ["b"]
    assert labels(variants, "cluster-tree", "basic", "basic") == ["a", "b"]


def test_a_protocol_that_the_scenario_does_not_have_is_run_on_each_of_its_networks():
    assert labels([Variant("a", SCENARIO, "cluster-tree"), Variant("b", SCENARIO, "cluster-tree")], "basic") == ["basic"]
    several = [Variant("a", SCENARIO, "cluster-tree"), Variant("b", OTHER, "cluster-tree")]
    assert labels(several, "basic") == ["a-basic", "b-basic"]


def test_parameters_of_the_user_are_added_to_those_of_the_runs():
    variants = [Variant("a", SCENARIO, "cluster-tree", {"ein_ms": 500.0}), Variant("b", SCENARIO, "basic")]
    tree, basic = choose(variants, (), {"cluster-tree": {"np1_ms": 100.0}, "basic": {"retry_ms": 50.0}})
    assert tree.parameters == {"ein_ms": 500.0, "np1_ms": 100.0}
    assert basic.parameters == {"retry_ms": 50.0}


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"cluster-tree": {"ein_ms": 1.0}}, "the runs of this scenario differ in cluster-tree.ein_ms"),
        ({"cluster-tree": {"nothing": 1.0}}, "its parameters are"),
        ({"nothing": {}}, "there is no protocol 'nothing'"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, sentence):
    with pytest.raises(CannotRun, match=sentence):
        choose([Variant("a", SCENARIO, "cluster-tree", {"ein_ms": 500.0})], (), parameters)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A simulated run."""
    directory = tmp_path_factory.mktemp("made") / "basic"
    simulated.run(Task("mine", SCENARIO, {}, "basic", {}, 1, directory, "basic"), lambda *_: None)
    return directory


def concluded(made, crew, out, capfdbinary, **functions):
    """The exit status, and what was printed, of an analysis with these functions of a scenario."""
    definition = Definition("mine", "", lambda: SCENARIO, **functions)
    status = run_commands.analyse_runs([made], crew, out, definition, as_json=True)
    return status, json.loads(capfdbinary.readouterr().out)


@pytest.mark.parametrize(("holds", "status"), [(True, 0), (False, 1), (None, 2)])
def test_the_exit_status_says_whether_the_claims_hold(made, crew, tmp_path, capfdbinary, holds, status):
    claim = msgspec.structs.replace(YES, holds=holds)
    found, printed = concluded(made, crew, tmp_path, capfdbinary, claims=looks_at("basic", claim=claim))
    assert found == status
    assert printed["runs"][0]["verdict"] == "holds"
    assert printed["claims"] == json.loads((tmp_path / "claims.json").read_text())["claims"] == [msgspec.to_builtins(claim)]


def test_books_that_were_cooked_leave_the_claim_unknown(made, crew, tmp_path, capfdbinary):
    counters = made / "counters.json"
    honest = counters.read_text()
    cooked = json.loads(honest)
    cooked["hosts"]["h1"]["sent"] += 1
    counters.write_text(json.dumps(cooked))
    try:
        status, printed = concluded(made, crew, tmp_path, capfdbinary, claims=looks_at("basic"))
    finally:
        counters.write_text(honest)
    assert (status, printed["claims"][0]["holds"]) == (2, None)


def test_a_scenario_without_claims_prints_none_and_a_sweep_is_drawn(made, crew, tmp_path, capfdbinary):
    sweep = Sweep("title", "x", "y", {"one": [(1.0, 2.0, "a"), (100.0, 200.0, "b")], "two": [(1.0, 3.0, "")]})
    status, printed = concluded(made, crew, tmp_path, capfdbinary, sweep=lambda _: sweep)
    assert (status, printed["claims"]) == (0, [])
    assert {"sweep.png", "sweep.svg"} <= {path.name for path in (tmp_path / "plots").iterdir()}
    assert not (tmp_path / "claims.json").exists()


@pytest.mark.parametrize(
    ("values", "holds", "told"),
    [
        ((0.5, 0.6, 0.7), True, "0.600 [0.352, 0.848] of it over 3 repeats; seed 1: 0.5"),
        ((0.5, -0.4, 0.7), None, "0.500 [-1.189, 1.722] of it over 3 repeats"),
        ((-0.5, -0.6, -0.7), False, "-0.600 [-0.848, -0.352] of it over 3 repeats"),
        ((0.5,), True, "0.5"),
    ],
)
def test_a_gain_is_about_all_repeats_together(values, holds, told):
    def claims(runs):
        (only,) = runs
        yield Gain.of("1", "it is above zero", values[only.summary.seed - 1], "of it", f"{values[only.summary.seed - 1]}")

    (claim,) = evaluate(claims, [run(seed=seed) for seed, _ in enumerate(values, start=1)])
    assert type(claim) is Claim
    assert claim.holds is holds
    assert claim.figure.startswith(told)


def test_a_sweep_of_several_seeds_has_medians_and_intervals_of_the_points_that_all_have():
    sweeps = [Sweep("t", "x", "y", {"one": [(1.0, y, "a"), (2.0, 5.0, "")], "two": [(1.0, y, "")]}) for y in (1.0, 2.0, 9.0)]
    sweeps[2].lines["two"].clear()
    together = over_repeats(sweeps)
    assert together.lines == {"one": [(1.0, 2.0, "a"), (2.0, 5.0, "")]}
    (low, high), exact = together.intervals["one"]
    assert low < 1.0
    assert high > 9.0
    assert exact == (5.0, 5.0)
    assert over_repeats(sweeps[:1]) is sweeps[0]
    (line,) = [line for line in sweep_figure(together).axes[0].collections if line.get_segments()]
    assert [segment[:, 0].tolist() for segment in line.get_segments()] == [[1.0, 1.0], [2.0, 2.0]]


def test_what_a_claim_can_ask_of_a_run(made, crew, tmp_path, capfdbinary):
    """Two hosts, three messages 50 ms apart, each a copy and an acknowledgement over the one expensive link."""
    asked: list[MeasuredRun] = []

    def claims(runs: Runs):
        asked.append(runs["basic"])
        yield YES

    concluded(made, crew, tmp_path, capfdbinary, claims=claims)
    (measured,) = asked
    assert (measured.source, measured.stream_end_s) == ("h1", 0.1)
    assert measured.sent_since(0.05) == {("h1", 2), ("h1", 3)}
    assert measured.delivered() == {host: {("h1", 1), ("h1", 2), ("h1", 3)} for host in ("h1", "h2")}
    assert measured.delivered(0.02)["h2"] == {("h1", 1)}
    assert (measured.highest("h2", 0.07), measured.highest("h2", -1.0)) == (2, 0)
    assert measured.expensive_packets(measured.sent_since(0.05)) == {"data": 2, "control": 2}
    assert measured.expensive_between(0, 0.07) == {"data": 2, "control": 2}
    assert measured.expensive_between(0, 9.0) == {"data": 3, "control": 3}
    assert least_cost(measured, 0.0).holds
    assert least_cost(measured, 5.0).holds is None
    assert [(line.host, line.message) for line in measured.logged("broadcast")] == [
        ("h1", ("h1", number)) for number in (1, 2, 3)
    ]
    assert {line.event for line in measured.logged("start", "stop")} == {"start", "stop"}
    assert [0.0 < delay < 50.0 for delay in measured.last_ms().values()] == [True] * 3
    assert measured.faults() == measured.cycles() == []
    assert load(measured.directory).network == measured.network


def test_the_runs_of_a_scenario_may_differ_in_the_medium_with_any_protocol():
    scenario = Scenario(network=clusters(2, 1, "line"))
    variants = [Variant(medium, scenario, "basic", medium=medium) for medium in ("unicast", "multicast")]
    chosen = choose(variants, ("best-effort",), {})
    assert [(variant.label, variant.medium) for variant in chosen] == [
        ("unicast-best-effort", "unicast"),
        ("multicast-best-effort", "multicast"),
    ]
