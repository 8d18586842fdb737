"""Groups of runs compared: each figure with its confidence interval, and the differences that tests show."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from analysis.books import FOREIGN
from analysis.figures.repeats import Group
from analysis.figures.statistics import METHODS, MOST_EXACT, SIGNIFICANCE, Estimate, estimate, holm, least_p_value, p_value
from analysis.figures.summary import Summary
from runfiles.errors import ResultsError


def percent(share: float) -> str:
    """Never rounded up to 100 %: that is for runs that lost nothing."""
    return "100%" if share == 1 else f"{min(100 * share, 99.9):.1f}%"


class Measure(NamedTuple):
    """A figure of a run: its short name, its title, how it follows from a summary, and how it is written."""

    word: str
    title: str
    of: Callable[[Summary], float | None]
    digits: int = 2
    most: float = float("inf")

    def text(self, value: float | None) -> str:
        """A value as text."""
        if value is None:
            return "-"
        digits = self.digits + 1 if self.digits == 1 and value < 10 else self.digits
        return percent(value) if self.most == 1 else f"{value:,.{digits}f}"


def _bytes(summary: Summary) -> float | None:
    crossed = sum(cost.bytes for cost in summary.link_costs if cost.expensive and cost.purpose != FOREIGN)
    return crossed / summary.messages if summary.messages else None


MEASURES: Final = {
    "expensive_packets_per_message": Measure(
        "packets", "expensive packets per message", lambda run: run.cost.expensive_packets_per_message
    ),
    "expensive_crossings_per_message": Measure(
        "crossings", "crossings of expensive links per message", lambda run: run.cost.expensive_crossings_per_message
    ),
    "expensive_data_packets_per_message": Measure(
        "data", "expensive data packets per message", lambda run: run.cost.expensive_data_packets_per_message
    ),
    "expensive_repair_packets_per_message": Measure(
        "repair", "expensive repair packets per message", lambda run: run.cost.expensive_repair_packets_per_message
    ),
    "expensive_control_packets_per_message": Measure(
        "control", "expensive control packets per message", lambda run: run.cost.expensive_control_packets_per_message
    ),
    "expensive_bytes_per_message": Measure("bytes", "bytes on expensive links per message", _bytes, 0),
    "delay_ms_p50": Measure("p50", "median delay, ms", lambda run: run.delay_ms.p50, 1),
    "delay_ms_p99": Measure("p99", "99th percentile of the delay (interpolated), ms", lambda run: run.delay_ms.p99, 1),
    "delay_ms_last_p50": Measure("last", "median delay to the last host, ms", lambda run: run.delay_ms.last_p50, 1),
    "delivered_share": Measure("delivered", "share delivered", lambda run: run.delivered_share, 3, 1.0),
    "load_max": Measure("load", "datagrams at the busiest host", lambda run: float(run.load_max), 0),
}
"""The figures that are compared, by the names that they have in files."""
# Two tables, as one with all columns fits neither a terminal nor a page.
COST, REST = tuple(MEASURES)[:6], tuple(MEASURES)[6:]
PACKETS, CROSSINGS = COST[:2]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One group: its runs and, for each figure, the values of the runs, their median and an interval."""

    name: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    verdicts: dict[str, int]
    not_tested: dict[str, int]
    """Promises that were not tested, and in how many of the runs."""
    balanced: bool
    """Whether the books of every run balance."""
    estimates: dict[str, Estimate]
    values: dict[str, tuple[float, ...]]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a group differs from the group `against`. `shown` is None if there are too few runs to show any difference."""

    figure: str
    group: str
    against: str
    p: float
    p_holm: float
    shown: bool | None


class Leaders(NamedTuple):
    """The groups of which any may be the best in a figure: the one with the best median, then all that are not shown to differ."""

    groups: tuple[Compared, ...]
    of: int
    """How many groups were compared; groups with open books were not."""
    enough_runs: bool
    """Whether the groups have enough runs for a test to tell some of them apart."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of all groups, the tested differences, and notes for the reader."""

    by: str
    against: str
    groups: tuple[Compared, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    @property
    def methods(self) -> list[str]:
        """The methods of the intervals, in the order of first use."""
        used = (found.method for group in self.groups for found in group.estimates.values())
        return [method for method in dict.fromkeys(used) if method]

    def leaders(self, figure: str) -> Leaders | None:
        """The groups of which any may be the best in a figure; nothing where fewer than two groups can be compared.

        The group with the best median is tested against every other one. It was chosen after the fact, so each p-value is multiplied by
        the number of pairs of groups.
        """
        sound = [group for group in self.groups if group.balanced and figure in group.estimates]
        if len(sound) < 2:
            return None
        best = (max if figure == "delivered_share" else min)(sound, key=lambda group: group.estimates[figure].median)
        others, pairs = [group for group in sound if group is not best], math.comb(len(sound), 2)
        level = SIGNIFICANCE / pairs
        equal = [group for group in others if p_value(best.values[figure], group.values[figure]) >= level]
        sizes = [(len(best.values[figure]), len(group.values[figure])) for group in others]
        return Leaders((best, *equal), len(sound), any(least_p_value(*size) < level for size in sizes))


def compared(groups: Sequence[Group], by: str, against: str = "") -> Comparison:
    """Compare each group with the group called `against`, by default the first one."""
    names = [group.name for group in groups]
    if against and against not in names:
        raise ResultsError(f"there is no group {against!r}: choose from {', '.join(names)}")
    # Where packets cross one expensive link each, there is nothing to tell of crossings.
    summaries = [summary for group in groups for summary in group.summaries]
    told = [figure for figure in MEASURES if figure != CROSSINGS or any(map(crossings_differ, summaries))]
    found = tuple(_compared(group, told) for group in groups)
    chosen = next(group for group in found if group.name == (against or names[0]))
    others = [group for group in found if group is not chosen]
    differences = tuple(difference for figure in told for difference in _differences(figure, chosen, others))
    return Comparison(by=by, against=chosen.name, groups=found, differences=differences, notes=tuple(_notes(groups)))


def crossings_differ(summary: Summary) -> bool:
    """Whether a run has more or fewer crossings of expensive links than packets that crossed one."""
    found = summary.cost.expensive_crossings_per_message
    return found is not None and found != summary.cost.expensive_packets_per_message


def told_figures(found: Comparison, figures: Sequence[str]) -> list[str]:
    """Those of some figures that a comparison tells: crossings only where they differ from packets."""
    return [figure for figure in figures if figure != CROSSINGS or any(figure in group.estimates for group in found.groups)]


def _compared(group: Group, figures: Sequence[str]) -> Compared:
    values = {
        figure: tuple(value for summary in group.summaries if (value := MEASURES[figure].of(summary)) is not None)
        for figure in figures
    }
    values = {figure: known for figure, known in values.items() if known}
    return Compared(
        name=group.name,
        runs=tuple(str(run.directory) for run in group.runs),
        seeds=tuple(summary.seed for summary in group.summaries),
        verdicts=dict(Counter(str(summary.verdict) for summary in group.summaries)),
        not_tested=dict(Counter(str(promise) for summary in group.summaries for promise in summary.not_tested)),
        balanced=all(summary.balanced for summary in group.summaries),
        estimates={figure: estimate(known, MEASURES[figure].most) for figure, known in values.items()},
        values=values,
    )


def _differences(figure: str, chosen: Compared, others: Sequence[Compared]) -> Iterator[Difference]:
    """The tests of the chosen group against each other group in one figure, with Holm's correction over these tests."""
    pairs = [
        (group, chosen.values[figure], group.values[figure]) for group in others if figure in group.values.keys() & chosen.values
    ]
    p_values = [p_value(one, other) for _, one, other in pairs]
    possible = holm([least_p_value(len(one), len(other)) for _, one, other in pairs])
    for (group, _, _), p, raised, least in zip(pairs, p_values, holm(p_values), possible, strict=True):
        shown = raised < SIGNIFICANCE or (None if least >= SIGNIFICANCE else False)
        yield Difference(figure=figure, group=group.name, against=chosen.name, p=p, p_holm=raised, shown=shown)


def _notes(groups: Sequence[Group]) -> Iterator[str]:
    """Reasons to read the comparison with care."""
    runs = [run for group in groups for run in group.runs]
    for what, several in (
        ("scenarios", {run.input.run.scenario for run in runs}),
        ("networks", {run.network.name for run in runs}),
        ("engines", {run.input.run.engine for run in runs}),
        ("numbers of messages", {str(run.summary.messages) for run in runs}),
    ):
        if len(several) > 1:
            yield f"the runs are of several {what} ({', '.join(sorted(several))}): groups may differ for that reason alone"
    for group in groups:
        if open_books := sum(not summary.balanced for summary in group.summaries):
            yield f"{group.name}: the books of {open_books} of {len(group.runs)} runs do not balance, so its figures are in doubt"
        machines = {(run.input.run.datapath, run.input.run.shaping) for run in group.runs}
        if len(machines) > 1:
            yield f"{group.name}: its runs used different datapaths or ways of shaping links, so they are not strict repeats"
    single = [group.name for group in groups if len(group.runs) == 1]
    if single:
        yield f"one run only, so no interval: {', '.join(single)}"


def interval_text(measure: Measure, found: Estimate | None) -> str:
    """An interval as text; empty if there is none."""
    if found is None or found.low is None:
        return ""
    low, high = measure.text(found.low), measure.text(found.high)
    return low if low == high else f"{low} - {high}"


def interval_lines(found: Comparison) -> Iterator[str]:
    """How the intervals were computed."""
    for method in found.methods:
        yield f"95 % confidence intervals by {method}: {METHODS[method]}."


def method_lines(found: Comparison) -> Iterator[str]:
    """How differences were tested; nothing if there were too few runs for any test."""
    if any(difference.shown is not None for difference in found.differences):
        yield (
            f"Each group is compared with {found.against} by the exact two-sided Mann-Whitney test (its normal approximation from "
            f"{MOST_EXACT} runs on), with Holm's correction over the groups for each figure. "
            f"A difference is shown if p is below {SIGNIFICANCE:g}."
        )


def difference_lines(found: Comparison) -> Iterator[str]:
    """A line for each figure: which groups differ, and for which groups no difference is shown."""
    if found.differences and all(difference.shown is None for difference in found.differences):
        yield "There are too few runs to show a difference: repeat each run six times or more, with --repeat 6."
        return
    for figure, measure in MEASURES.items():
        told = [difference for difference in found.differences if difference.figure == figure]
        if told:
            yield f"{measure.title}: {difference_text(told)}"


def difference_text(told: Sequence[Difference]) -> str:
    """The groups that differ, those that are not shown to, and those with too few runs, each with its p-value."""
    parts = {
        "differs": [difference for difference in told if difference.shown],
        "no difference shown": [difference for difference in told if difference.shown is False],
        "too few runs to show a difference": [difference for difference in told if difference.shown is None],
    }
    return "; ".join(
        f"{word}: {', '.join(f'{one.group} (p {p_text(one.p_holm)})' for one in some)}" for word, some in parts.items() if some
    )


def p_text(p: float) -> str:
    """A p-value as text, with its relation sign."""
    return "< 0.0001" if p < 0.0001 else f"= {p:.2g}"


def comparison_rows(found: Comparison) -> Iterator[dict[str, Any]]:
    """A comparison as rows: for each group and figure the median, its interval, and the test against the chosen group."""
    tested = {(one.figure, one.group): one for one in found.differences}
    for group in found.groups:
        for figure, estimated in group.estimates.items():
            difference = tested.get((figure, group.name))
            yield {
                "group": group.name,
                "figure": figure,
                "title": MEASURES[figure].title,
                "runs": len(group.runs),
                "median": estimated.median,
                "low": estimated.low,
                "high": estimated.high,
                "interval": estimated.method,
                "against": difference.against if difference else "",
                "p": difference.p if difference else None,
                "p_holm": difference.p_holm if difference else None,
                "differs": difference.shown if difference else None,
                "verdicts": ", ".join(f"{word} {times}" for word, times in group.verdicts.items()),
                "books_balanced": group.balanced,
            }
