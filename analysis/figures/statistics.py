"""Exact statistics over repeats of a run: a confidence interval of the median, and a test whether two groups of runs differ.

No distribution of the values is assumed, with one exception: two to five repeats are too few for an interval between two of the values
that covers the median with 95 %, so they get a t-interval, which assumes a normal distribution.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike

# A confidence of 95 %: one interval in 20 may miss the median.
_ONE_IN: Final = 20
SIGNIFICANCE: Final = 0.05
MOST_EXACT: Final = 120
# Student's t at 97.5 %, for one to four degrees of freedom: two to five repeats.
_T: Final = (12.7062, 4.3027, 3.1824, 2.7764)
EXACT: Final = "order statistics"
STUDENT: Final = "t-interval"
METHODS: Final = {
    EXACT: "the interval lies between two of the ordered values, chosen by the binomial distribution, and covers the median with a "
    "probability of at least 95 % for any distribution of the values; it needs six repeats",
    STUDENT: "the interval is the mean plus or minus t times the standard error, which assumes a normal distribution; two to five "
    "repeats are too few for an interval that does not",
}
"""How each kind of interval is computed."""


def quantiles(values: ArrayLike, shares: Sequence[float]) -> tuple[float, ...]:
    """The quantiles of some values at these shares; every quantile is made here, and a median is the one at 0.5.

    They are interpolated linearly between the two nearest of the ordered values: type 7 of Hyndman and Fan, the default of numpy and R.
    """
    return tuple(map(float, np.quantile(np.asarray(values, np.float64), shares, method="linear")))


class Estimate(msgspec.Struct, frozen=True):
    """The median of a figure over repeats, and a 95 % confidence interval made by `method`; a single run has no interval."""

    median: float
    low: float | None = None
    high: float | None = None
    method: str = ""


def estimate(values: Sequence[float], most: float = math.inf, least: float = 0.0) -> Estimate:
    """The median and interval of a figure that lies between `least` and `most`."""
    if len(values) < 2:
        return Estimate(median(values))
    if rank := _rank(len(values)):
        ordered = sorted(values)
        return Estimate(median(values), ordered[rank - 1], ordered[-rank], EXACT)
    middle, reach = median(values), _T[len(values) - 2] * stdev(values) / math.sqrt(len(values))
    # Rounding can put the mean of equal values slightly above or below them.
    low, high = min(middle, fmean(values) - reach), max(middle, fmean(values) + reach)
    return Estimate(middle, max(least, low), min(most, high), STUDENT)


def _rank(count: int) -> int:
    """The greatest r for which the r-th lowest and the r-th highest value enclose the median with 95 % or more; 0 if there is none.

    The median lies outside if fewer than r of the values fall on one side of it, each with probability a half.
    """
    outside, rank = 0, 0
    while 2 * (outside := outside + math.comb(count, rank)) * _ONE_IN <= 2**count:
        rank += 1
    return rank


def p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """The exact two-sided Mann-Whitney test: the share of all splits of the values whose ranks are at least as uneven as these.

    Equal values share their mean rank, and the distribution is that of these ranks, so the test is exact with ties too. The work grows
    with the fourth power of the number of runs, so for `MOST_EXACT` runs or more the normal approximation is used.
    """
    ranks = _doubled_ranks([*one, *other])
    if len(ranks) >= MOST_EXACT:
        return _normal_p_value(ranks, len(one))
    # ways[m, s] counts the choices of m values whose doubled ranks add up to s.
    ways = np.zeros((len(one) + 1, sum(ranks) + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    expected = len(one) * (len(ranks) + 1)
    uneven = abs(sum(ranks[: len(one)]) - expected)
    sums = np.arange(ways.shape[1])
    return float(ways[-1, np.abs(sums - expected) >= uneven].sum() / ways[-1].sum())


def _normal_p_value(ranks: Sequence[int], one: int) -> float:
    """The p-value by the normal distribution that has the mean and variance of a sum of `one` ranks drawn at random."""
    count, spread = len(ranks), np.asarray(ranks).var()
    deviation = math.sqrt(one * (count - one) * spread / (count - 1))
    uneven = abs(sum(ranks[:one]) - one * (count + 1))
    return math.erfc(uneven / deviation / math.sqrt(2)) if deviation else 1.0


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, so that the mean rank of equal values is a whole number too."""
    ordered = np.sort(np.asarray(values))
    below, up_to = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return [int(rank) for rank in below + up_to + 1]


def least_p_value(one: int, other: int) -> float:
    """The least p-value possible for groups of these sizes: every value of one group is above every value of the other."""
    return min(1.0, 2 / math.comb(one + other, one))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests with Holm's correction, which bounds the probability of any false positive among them."""
    raised, highest = [0.0] * len(p_values), 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[place]))
        raised[place] = highest
    return raised
