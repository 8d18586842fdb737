"""Which runs are repeats of each other, what the groups are called, and what is said of the differences between them."""

import dataclasses
import io
import itertools

import msgspec
import pytest
from rich.console import Console

from analysis.books import LinkCost, balance
from analysis.figures.comparison import compared, difference_lines, method_lines
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import grouped
from analysis.figures.summary import summarise
from analysis.judging.check_run import history_of
from analysis.judging.findings import Verdict
from analysis.pages.report import _highlight
from analysis.pages.terminal_tables import comparison_tables
from analysis.pages.view import Highlight
from analysis.pictures import plots
from runfiles.errors import ResultsError
from runfiles.reading import load
from tests.analysis.synthetic import DELIVERIES, NETWORK, honest

replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run with figures that need no Spark."""
    found = load(honest().write(tmp_path_factory.mktemp("comparison") / "run"))
    costs = [LinkCost(link="s1-s2", source="s1", target="s2", expensive=True, purpose="data", packets=4, bytes=400)]
    summary = summarise(
        found,
        history_of(found),
        balance(found, (), (), ()),
        DELIVERIES,
        reports=(),
        link_costs=costs,
        expensive_packets={"data": 4},
        crossings={"data": 4},
    )
    return MeasuredRun(found, msgspec.structs.replace(summary, balanced=True, verdict=Verdict.HOLDS))


@pytest.fixture(scope="module")
def run(measured):
    """Makes a run like the honest one, but for what is given."""
    numbers = itertools.count()

    def make(protocol="basic", seed=1, cost=3.0, label="", network=NETWORK, **fields):
        fields = {"started_ns": next(numbers)} | fields
        record = replace(measured.input.run, protocol=protocol, label=label or protocol, seed=seed, **fields)
        packets = replace(measured.summary.cost, expensive_packets_per_message=cost)
        summary = replace(measured.summary, protocol=protocol, label=label or protocol, seed=seed, cost=packets)
        return MeasuredRun(dataclasses.replace(measured.input, run=record, network=network), summary)

    return make


def names(groups):
    return {group.name: [found.summary.seed for found in group.runs] for group in groups}


def test_runs_that_differ_in_the_seed_alone_are_repeats(run):
    runs = [run("basic", 2), run("uniform", 1), run("basic", 1), run("uniform", 2)]
    assert names(grouped(runs)) == {"basic": [1, 2], "uniform": [1, 2]}


def test_what_was_asked_differently_is_never_put_together(run):
    runs = [run(settings={"loss": "5%"}), run(settings={}), run(settings={"loss": "5%"}, seed=2), run(settings={}, pack_ms=25.0)]
    assert names(grouped(runs)) == {
        "basic, pack_ms off, loss 5%": [1, 2],
        "basic, pack_ms off, loss not set": [1],
        "basic, pack_ms 25, loss not set": [1],
    }


def test_runs_of_different_media_are_never_put_together(run):
    assert names(grouped([run(), run(medium="multicast"), run(seed=2)])) == {
        "basic, medium unicast": [1, 2],
        "basic, medium multicast": [1],
    }


def test_groups_by_a_setting_come_in_the_order_of_its_values(run):
    runs = [run(protocol, settings={"loss": loss}) for protocol in ("basic", "uniform") for loss in ("10%", "2%")]
    assert list(names(grouped(runs, "loss"))) == ["loss 2%, basic", "loss 2%, uniform", "loss 10%, basic", "loss 10%, uniform"]


def test_groups_by_a_parameter_with_or_without_its_protocol(run):
    runs = [run(parameters={"retry_ms": 500.0}), run(parameters={"retry_ms": 50.0})]
    assert list(names(grouped(runs, "basic.retry_ms"))) == ["basic.retry_ms 50", "basic.retry_ms 500"]
    assert list(names(grouped(runs, "retry_ms"))) == ["retry_ms 50", "retry_ms 500"]
    assert list(names(grouped([run(seed=2), run(seed=1)], "seed"))) == ["seed 1", "seed 2"]


def test_a_key_that_no_run_has_is_answered_with_those_that_there_are(run):
    with pytest.raises(ResultsError, match=r"no run has a value for 'lose': these runs differ in loss, seed; .*protocol"):
        grouped([run(settings={"loss": "5%"}), run(settings={"loss": "1%"}, seed=2)], "lose")


def test_a_copy_of_a_run_is_no_repeat(run):
    assert names(grouped([run(started_ns=5), run(started_ns=5), run(started_ns=6)])) == {"basic": [1, 1]}


def test_a_copy_of_a_run_in_virtual_time_is_no_repeat(run):
    assert names(grouped([run(engine="simulator"), run(engine="simulator")])) == {"basic": [1]}
    assert names(grouped([run(engine="mininet"), run(engine="mininet")])) == {"basic": [1, 1]}


def test_a_line_goes_through_groups_that_differ_in_size_alone(run):
    small = dataclasses.replace(
        NETWORK, name="one host less", hosts=NETWORK.hosts[:3], links=NETWORK.links[:3] + NETWORK.links[4:]
    )
    runs = [
        run(network=network, settings={"n": size, "loss": loss})
        for network, size in ((small, "3"), (NETWORK, "4"))
        for loss in "12"
    ]
    assert {group.line: [] for group in grouped(runs)} == {"basic, loss 1": [], "basic, loss 2": []}
    assert len(grouped(runs)) == 4


@pytest.fixture(scope="module")
def ten(run):
    """Ten runs of each: `near` is the same as `basic`, `dear` costs more each time."""
    costs = {"basic": 10.0, "near": 10.0, "dear": 20.0}
    return grouped([run(label, seed, cost + seed) for label, cost in costs.items() for seed in range(1, 11)])


def test_what_differs_is_told_from_what_does_not(ten):
    found = compared(ten, "label")
    told = {(d.group, d.shown) for d in found.differences if d.figure == "expensive_packets_per_message"}
    assert told == {("near", False), ("dear", True)}
    (dear,) = (d for d in found.differences if d.group == "dear" and d.figure == "expensive_packets_per_message")
    assert (dear.p, dear.p_holm) == pytest.approx((2 / 184756, 4 / 184756))
    assert found.groups[0].estimates["expensive_packets_per_message"] == msgspec.convert(
        {"median": 15.5, "low": 12, "high": 19, "method": "order statistics"}, type(found.groups[0].estimates["delivered_share"])
    )
    leaders = found.leaders("expensive_packets_per_message")
    assert [group.name for group in leaders.groups] == ["basic", "near"]
    assert (leaders.of, leaders.enough_runs) == (3, True)
    assert next(iter(difference_lines(found))) == (
        "expensive packets per message: differs: dear (p < 0.0001); no difference shown: near (p = 1)"
    )
    assert [group.name for group in compared(ten, "label", "dear").groups] == ["basic", "near", "dear"]


def test_the_lowest_median_alone_makes_no_group_the_best(run):
    """Three runs against three: every value of one is below every value of the other, and that still happens once in ten times."""
    groups = [run(label, seed, cost + seed) for label, cost in (("basic", 10.0), ("dear", 20.0)) for seed in (1, 2, 3)]
    leaders = compared(grouped(groups), "label").leaders("expensive_packets_per_message")
    assert [group.name for group in leaders.groups] == ["basic", "dear"]
    assert not leaders.enough_runs


def test_the_best_group_is_told_where_tests_show_it_and_books_are_closed(run):
    costs = {"dear": 20.0, "basic": 10.0, "open": 1.0}
    runs = [run(label, seed, cost + seed) for label, cost in costs.items() for seed in range(1, 7)]
    runs = [MeasuredRun(one.input, replace(one.summary, balanced=False)) if one.summary.label == "open" else one for one in runs]
    leaders = compared(grouped(runs), "label").leaders("expensive_packets_per_message")
    assert [group.name for group in leaders.groups] == ["basic"]
    assert (leaders.of, leaders.enough_runs) == (2, True)
    assert compared(grouped(runs[:6]), "label").leaders("expensive_packets_per_message") is None


@pytest.mark.parametrize(
    ("repeats", "highlight"),
    [
        (3, Highlight("Expensive", "12.00 to 22.00", "basic 12.00, dear 22.00", "too few runs to tell them apart")),
        (7, Highlight("Fewest", "14.00", "basic", "11.00 to 17.00")),
    ],
)
def test_a_page_names_a_best_group_only_where_tests_show_it(run, repeats, highlight):
    runs = [run(label, seed, cost + seed) for label, cost in (("basic", 10.0), ("dear", 20.0)) for seed in range(1, repeats + 1)]
    figure = "expensive_packets_per_message"
    leaders = compared(grouped(runs), "label").leaders(figure)
    assert _highlight(figure, ("Fewest", "Expensive"), leaders) == highlight


def test_an_unknown_group_is_refused(ten):
    with pytest.raises(ResultsError, match="there is no group 'nobody': choose from basic, near, dear"):
        compared(ten, "label", "nobody")


def test_single_runs_have_neither_interval_nor_difference(run):
    found = compared(grouped([run(), run("uniform", cost=100.0)]), "label")
    assert {difference.shown for difference in found.differences} == {None}
    assert found.groups[0].estimates["load_max"].low is None
    assert "one run only, so no interval: basic, uniform" in found.notes
    assert "too few runs" in " ".join(difference_lines(found))
    assert not list(method_lines(found))


def test_what_makes_a_comparison_doubtful_is_said(run):
    cooked = run("uniform", scenario="another", engine="simulator")
    cooked = MeasuredRun(cooked.input, replace(cooked.summary, balanced=False))
    told = " ".join(compared(grouped([run(), cooked]), "label").notes)
    assert "several scenarios (another, demo)" in told
    assert "several engines (mininet, simulator)" in told
    assert "uniform: the books of 1 of 1 runs do not balance" in told


def test_the_tables_fit_a_terminal_of_80_columns(ten):
    console = Console(width=80, file=io.StringIO())
    for table in comparison_tables(compared(ten, "label")):
        console.print(table)
    text = console.file.getvalue()
    assert "15.50" in text
    assert "holds" in text
    assert "…" not in text


def test_repeats_that_are_all_the_same_can_be_drawn(run):
    """The parts of 3.2 add up to a little less: an error bar cannot point inwards."""
    same = [run(seed=seed, cost=3.2).summary for seed in range(1, 7)]
    parts = {"expensive_data_packets_per_message": 0.17, "expensive_repair_packets_per_message": 3.03}
    drawn = [replace(summary, cost=replace(summary.cost, expensive_control_packets_per_message=0.0, **parts)) for summary in same]
    for repeats in (2, 6):
        assert plots.cost_figure({"basic": drawn[:repeats]})
