"""Intervals and tests against values worked out by hand, from tables, and by counting every split."""

import math
import random
from itertools import combinations
from math import comb
from statistics import median

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.books import balance
from analysis.figures import statistics
from analysis.figures.statistics import EXACT, STUDENT, estimate, holm, least_p_value, p_value, quantiles
from analysis.figures.summary import summarise
from analysis.judging.check_run import history_of
from analysis.tables.small import small_tables
from runfiles.reading import load
from tests.analysis.synthetic import honest

FEW = st.lists(st.integers(0, 4), min_size=1, max_size=5)


@pytest.mark.parametrize(("runs", "rank"), [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10)])
def test_the_interval_for_a_median_is_the_one_in_the_tables(runs, rank):
    found = estimate([float(value) for value in range(1, runs + 1)])
    assert (found.low, found.high, found.method) == (rank, runs + 1 - rank, EXACT)


@pytest.mark.parametrize("runs", range(6, 60))
def test_it_covers_the_median_with_95_percent_and_no_narrower_one_does(runs):
    rank = int(estimate([float(value) for value in range(1, runs + 1)]).low)

    def covered(rank: int) -> float:
        return 1 - 2 * sum(comb(runs, below) for below in range(rank)) / 2**runs

    assert covered(rank) >= 0.95 > covered(rank + 1)


def test_of_two_to_five_runs_there_is_a_t_interval_and_it_says_so():
    found = estimate([9.0, 10.0, 14.0])
    # The mean is 11, the standard deviation the root of 7, and t is 4.3027 for two degrees of freedom.
    assert found.median == 10
    assert (found.low, found.high) == pytest.approx((11 - 4.3027 * (7 / 3) ** 0.5, 11 + 4.3027 * (7 / 3) ** 0.5))
    assert found.method == STUDENT


def test_an_interval_does_not_go_beyond_what_can_be():
    assert estimate([0.0, 1.0, 2.0]).low == 0
    assert estimate([0.9, 1.0, 1.0], most=1.0).high == 1


def test_of_one_run_there_is_no_interval():
    found = estimate([3.0])
    assert (found.median, found.low, found.high, found.method) == (3, None, None, "")


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_the_interval_holds_the_median(values):
    found = estimate(values)
    assert found.median == median(values)
    assert found.low - 1e-6 <= found.median <= found.high + 1e-6


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [
        # Of the 20 ways to choose three of six, this one and its mirror image.
        ([1, 2, 3], [4, 5, 6], 2 / 20),
        # Rank sums 6 to 15 occur 1, 1, 2, 3, 3, 3, 3, 2, 1, 1 times; 8 and below or 13 and above 8 times.
        ([1, 2, 5], [3, 4, 6], 8 / 20),
        # Ranks 1, 3, 3 against 3, 5.5, 5.5: there are three ways to choose two of the threes, and three for the mirror image.
        ([1, 2, 2], [2, 3, 3], 6 / 20),
        ([7, 7], [7, 7], 1),
        (range(10), range(10, 20), 2 / 184756),
    ],
)
def test_p_values_counted_by_hand(one, other, p):
    assert p_value([float(value) for value in one], [float(value) for value in other]) == pytest.approx(p)


@given(FEW, FEW)
def test_the_p_value_is_the_share_of_splits_that_are_as_uneven(one, other):
    together = [*one, *other]
    ranks = [2 * sum(b < a for b in together) + sum(b == a for b in together) + 1 for a in together]
    expected = len(one) * sum(ranks) / len(ranks)
    seen = abs(sum(ranks[: len(one)]) - expected)
    splits = [abs(sum(split) - expected) for split in combinations(ranks, len(one))]
    assert p_value(one, other) == pytest.approx(sum(uneven >= seen - 1e-9 for uneven in splits) / len(splits))
    assert p_value(one, other) == pytest.approx(p_value(other, one))


def test_the_least_p_value_is_that_of_groups_that_do_not_overlap():
    assert least_p_value(3, 3) == pytest.approx(p_value([1, 2, 3], [4, 5, 6]))
    assert least_p_value(1, 1) == 1


def test_holms_correction_as_in_the_textbook():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("repeats", range(2, 9))
@pytest.mark.parametrize("value", [7.99, 0.1, 3.2, 1 / 3])
def test_the_interval_of_equal_values_is_that_value(repeats, value):
    found = estimate([value] * repeats)
    assert found.low <= found.median == value <= found.high
    assert found.high - found.low < 1e-9


def test_many_runs_are_compared_by_the_normal_distribution_which_is_then_as_good(monkeypatch):
    generator = random.Random(1)
    one, other = ([round(generator.gauss(mean, 1), 1) for _ in range(40)] for mean in (0.0, 0.4))
    exact = p_value(one, other)
    monkeypatch.setattr(statistics, "MOST_EXACT", 2)
    assert p_value(one, other) == pytest.approx(exact, rel=0.1)
    assert p_value([1.0, 1.0], [1.0]) == 1.0


def test_a_thousand_repeats_have_an_interval():
    assert estimate([float(value) for value in range(2000)]).low > 900


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.floats(0, 1))
def test_quantiles_are_interpolated_between_the_two_nearest_values(values, share):
    ordered, place = sorted(values), share * (len(values) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    assert quantiles(values, [share]) == pytest.approx([below + (place - math.floor(place)) * (above - below)])
    assert quantiles(values, [0, 0.5, 1]) == pytest.approx([ordered[0], median(values), ordered[-1]])


def test_the_delays_of_a_run_are_told_by_the_same_quantiles(tmp_path):
    """Four deliveries at 1, 2, 3 and 10 ms: the median is 2.5 ms, which nobody waited, and the 99th percentile 9.79 ms."""
    hosts = {"host": ["h2", "h3"] * 2, "delivered_ns": [1, 10, 2, 3]}
    deliveries = pa.table({"origin": ["h1"] * 4, "sequence": [1, 1, 2, 2], **hosts, "delay_ms": [1.0, 10.0, 2.0, 3.0]})
    run = load(honest().write(tmp_path / "run"))
    books, history = balance(run, (), (), ()), history_of(run)
    summary = summarise(run, history, books, deliveries, reports=(), link_costs=(), expensive_packets={}, crossings={})
    delay = summary.delay_ms
    assert (delay.p50, delay.p99, delay.last_p50) == pytest.approx((2.5, 9.79, 6.5))
    assert (delay.quantiles[100], delay.quantiles[198]) == (delay.p50, delay.p99)
    rows = dict(small_tables(run, history, deliveries, summary))["delays"].to_pylist()
    assert [(row["hosts"], row["p50_ms"], row["last_ms"]) for row in rows] == [(2, 5.5, 10.0), (2, 2.5, 3.0)]
