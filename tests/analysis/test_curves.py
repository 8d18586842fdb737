"""A sweep draws a curve over what was swept, with a line for each protocol and intervals over repeats."""

import dataclasses

import msgspec
import pytest

from analysis.books import balance
from analysis.figures.comparison import compared
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import grouped
from analysis.figures.summary import summarise
from analysis.judging.check_run import history_of
from analysis.pictures.curves import curve_figure, curve_name, curves, number_of
from runfiles.reading import load
from tests.analysis.synthetic import DELIVERIES, honest

replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    found = load(honest().write(tmp_path_factory.mktemp("curves") / "run"))
    empty = {"reports": (), "link_costs": (), "expensive_packets": {"data": 4}, "crossings": {"data": 4}}
    return MeasuredRun(found, summarise(found, history_of(found), balance(found, (), (), ()), DELIVERIES, **empty))


def run(measured, protocol, seed, cost, parameters=None, **settings):
    label = f"{protocol}-{'-'.join(settings.values())}"
    about = {"protocol": protocol, "label": label, "seed": seed}
    record = replace(measured.input.run, **about, settings=settings, started_ns=seed, parameters=parameters or {})
    figures = replace(measured.summary.cost, expensive_packets_per_message=cost)
    return MeasuredRun(dataclasses.replace(measured.input, run=record), replace(measured.summary, **about, cost=figures))


def drawn(runs):
    groups = grouped(runs)
    return curves(groups, compared(groups, "label"))


def test_there_is_a_line_for_each_protocol_over_the_swept_key(measured):
    runs = [
        run(measured, protocol, seed, cost + seed / 10, {"retry_ms": 5.0} if protocol == "basic" else {"level": 1}, loss=loss)
        for protocol, cost in (("basic", 18.0), ("fan", 3.0))
        for loss in ("0%", "1%", "5%")
        for seed in (1, 2, 3)
    ]
    (curve,) = drawn(runs)
    assert (curve.key, curve.ticks) == ("loss", {0.0: "0%", 0.01: "1%", 0.05: "5%"})
    assert list(curve.lines) == ["basic", "fan"]
    figure = curve_figure(curve)
    packets = figure.axes[0]
    assert [text.get_text() for text in figure.axes[2].get_xticklabels()] == ["0%", "1%", "5%"]
    lines = {line.get_label(): list(line.get_ydata()) for line in packets.lines}
    assert lines["basic"] == pytest.approx([18.2] * 3)
    assert len(packets.containers) == 6, "an interval for each point"
    assert curve_name(curve) == "against-loss"


def test_what_else_differs_gives_a_line_of_its_own(measured):
    runs = [run(measured, "basic", 1, 3.0, loss=loss, k=k) for loss in ("0%", "5%") for k in ("2", "3")]
    by_key = {curve.key: list(curve.lines) for curve in drawn(runs)}
    assert by_key == {"loss": ["basic, k 2", "basic, k 3"], "k": ["basic, loss 0%", "basic, loss 5%"]}


def test_what_is_no_number_has_no_curve(measured):
    assert drawn([run(measured, "basic", 1, 3.0, shape=shape) for shape in ("ring", "line")]) == []
    assert drawn([run(measured, protocol, 1, 3.0, loss="1%") for protocol in ("basic", "fan")]) == []


def test_values_are_read_with_their_units():
    assert [number_of(text) for text in ("3", "5%", "20ms", "2s", "500kbit", "ring")] == [3.0, 0.05, 20.0, 2000.0, 0.5, None]
