"""Plots: a protocol has one colour, delays have one kind of axis, titles tell variants apart, and numbers do not cover each other."""

import dataclasses
import itertools

import msgspec
import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.books import balance
from analysis.figures.claims import Sweep
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import grouped
from analysis.figures.summary import summarise
from analysis.judging.check_run import history_of
from analysis.pictures import fault_plots, plots, repeat_plots
from hostagent.protocols import PROTOCOLS
from runfiles.format import FaultRecord
from runfiles.reading import load
from tests.analysis.synthetic import DELIVERIES, honest

replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return load(honest().write(tmp_path_factory.mktemp("looks") / "run"))


@pytest.fixture(scope="module")
def summary(run):
    return summarise(
        run,
        history_of(run),
        balance(run, (), (), ()),
        DELIVERIES,
        reports=(),
        link_costs=(),
        expensive_packets={"data": 4},
        crossings={"data": 4},
    )


def test_every_protocol_has_a_colour_of_its_own():
    ours = {name for name, core in PROTOCOLS.items() if core.__module__.startswith("hostagent.protocols.")}
    assert ours == {*plots.KNOWN}


def test_a_protocol_has_the_same_colour_whatever_it_is_compared_with():
    one = plots.looks({"basic": "basic", "cluster-tree": "cluster-tree"})
    other = plots.looks({"uniform": "uniform", "mine": "mine", "cluster-tree": "cluster-tree", "basic": "basic"})
    assert {name: other[name] for name in one} == one
    assert len({look.colour for look in other.values()}) == 4


def sweep(title, **lines):
    return Sweep(
        title, "sites", "ms", {name.replace("_", "-"): [(float(x), y, "") for x, y in points] for name, points in lines.items()}
    )


def test_a_way_to_build_a_graph_has_the_same_colour_in_every_graph():
    few = plots.sweep_figure(sweep("a", heuristic_2=[(1, 1.0), (2, 2.0)], random=[(1, 1.0), (2, 2.0)]))
    more = plots.sweep_figure(
        sweep("b", random=[(1, 1.0), (2, 2.0)], heuristic_1=[(1, 1.0), (2, 2.0)], heuristic_2=[(1, 1.0), (2, 2.0)])
    )
    colours = [{line.get_label(): line.get_color() for line in figure.axes[0].lines} for figure in (few, more)]
    assert colours[0].items() <= colours[1].items()
    assert len({*colours[1].values()}) == 3


def test_graphs_beside_each_other_have_one_scale():
    low, high = sweep("low", basic=[(1, 0.1), (2, 0.2)]), sweep("high", basic=[(1, 8.0), (2, 9.0)])
    one, other = (plots.sweep_figure(*both).axes[0] for both in ((low, [high]), (high, [low])))
    assert one.get_yscale() == other.get_yscale() == "log"
    assert one.get_ylim() == other.get_ylim()
    assert "(logarithmic)" in one.get_ylabel()
    assert plots.sweep_figure(low).axes[0].get_yscale() == "linear"


def test_several_points_of_one_line_at_one_setting_are_no_rows():
    (axes,) = plots.sweep_figure(sweep("C", basic=[(0, 1.5), (0, 2.5)], uniform=[(0, 12.25)])).axes
    assert axes.get_xlabel()


def test_points_at_one_setting_are_rows_with_their_values():
    (axes,) = plots.sweep_figure(sweep("Num", basic=[(6, 1.5)], uniform=[(6, 12.25)])).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["basic", "uniform"]
    assert {text.get_text() for text in axes.texts} == {"1.5", "12.25"}
    assert "sites: 6" in axes.get_title("right")


def test_groups_of_one_protocol_share_its_colour_and_differ_in_style():
    found = plots.looks({"b 0%": "basic", "b 5%": "basic", "c 0%": "cluster-tree", "c 5%": "cluster-tree"})
    assert found["b 0%"].colour == found["b 5%"].colour != found["c 0%"].colour
    assert len({*found.values()}) == 4


def test_groups_that_are_all_of_one_protocol_have_different_colours():
    assert len({look.colour for look in plots.looks(dict.fromkeys(("ring", "line", "star"), "cluster-tree")).values()}) == 3


@pytest.mark.parametrize("longest", [1.5, 5000.0])
def test_delays_always_have_a_logarithmic_axis_so_that_plots_side_by_side_compare(summary, longest):
    delays = replace(summary.delay_ms, quantiles=(1.0, longest))
    figure = plots.delay_figure({"basic": [replace(summary, delay_ms=delays)]})
    assert figure.axes[0].get_xscale() == "log"


def test_delays_over_time_are_logarithmic_and_titles_tell_variants_and_seeds_apart(run):
    history = history_of(run)
    variants = [
        dataclasses.replace(run, run=replace(run.run, label=label, seed=seed))
        for label, seed in itertools.product(("ring", "line"), (1, 2))
    ]
    figures = [fault_plots.delays_over_time_figure(variant, history) for variant in variants]
    assert {figure.axes[0].get_yscale() for figure in figures} == {"log"}
    assert len({figure.get_suptitle() for figure in figures}) == 4


def boxes(figure: Figure):
    figure.draw_without_rendering()
    return [text.get_window_extent() for text in figure.axes[0].texts]


def covers(figure: Figure):
    """What the white boxes behind texts cover: a tenth of their size more than the texts."""
    return [text.get_window_extent().padded(0.1 * text.get_size() * figure.dpi / 72) for text in figure.axes[0].texts]


def test_the_numbers_of_bars_cover_neither_each_other_nor_the_marks_of_crossings(summary):
    costs = [replace(summary.cost, expensive_packets_per_message=3.0, expensive_crossings_per_message=3.2)] * 6
    groups = {f"cluster-tree-loss-{n}pct": [replace(summary, cost=cost)] for n, cost in enumerate(costs)}
    figure = plots.cost_figure(groups)
    found = boxes(figure)
    axes = figure.axes[0]
    (marks,) = [line for line in axes.lines if line.get_marker() == "D"]
    points = axes.transData.transform(list(zip(*marks.get_data(), strict=True)))
    assert len(found) == 6
    assert not any(one.overlaps(other) for one, other in itertools.combinations(found, 2))
    half_mark = figure.dpi / 72 * (marks.get_markersize() / 2 * 2**0.5)
    assert not any(box.contains(x, y + up) for box in covers(figure) for x, y in points for up in (-half_mark, 0, half_mark))


@pytest.mark.parametrize("at_s", [1, 9.9])
def test_the_names_of_faults_stay_inside_and_the_legend_covers_none(run, summary, at_s, monkeypatch):
    stream = repeat_plots.Stream(0, np.array([0]), np.array([10_000_000_000]), 1)
    monkeypatch.setattr(repeat_plots, "_stream", lambda _: stream)
    at_ns = int(at_s * 1e9)
    fault = FaultRecord(fault="crash", target="a-host-with-a-name-that-is-long", asked_ns=at_ns, applied_ns=at_ns)
    ended = replace(run.run, ended_ns=11_000_000_000)
    figure = repeat_plots.over_time_figure(
        grouped([MeasuredRun(dataclasses.replace(run, run=ended, faults=(fault,)), summary)], "label")
    )
    (name,) = boxes(figure)
    axes, legend = figure.axes[0].get_window_extent(), figure.axes[0].get_legend().get_window_extent()
    assert axes.x0 <= name.x0 < name.x1 <= axes.x1
    assert not legend.overlaps(name)
    assert legend.x1 <= figure.bbox.x1
