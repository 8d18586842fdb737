"""Verdicts, figures, comparisons, claims and trees as tables on the terminal.

Names, reasons and claims are texts of users, so the tables are for a console without markup; what has a style is a `Text`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from analysis.books import told_omissions
from analysis.figures.claims import Claim, status_word
from analysis.figures.comparison import (
    COST,
    MEASURES,
    REST,
    Compared,
    Comparison,
    Measure,
    crossings_differ,
    interval_text,
    percent,
    told_figures,
)
from analysis.figures.detection import described_detection
from analysis.figures.statistics import Estimate
from analysis.figures.summary import Summary, described
from analysis.figures.trees.tree_report import TreeReport, TreeThen, start_ns
from analysis.judging.healing import Healing, told
from analysis.judging.history import History
from analysis.judging.judge import Judgement, Verdict

_STYLES = {
    Verdict.HOLDS: "green",
    Verdict.VIOLATED: "red",
    Verdict.UNKNOWN: "yellow",
    Verdict.NOT_TESTED: "yellow",
}
_CLAIM_STYLES = {"yes": "green", "no": "red", "unknown": "yellow"}
# While a tree forms it can have many problems; the first few are enough.
_MOST_PROBLEMS = 3


class Name:
    """A name in a cell of a table. In a narrow column it is broken after a hyphen, comma, underscore or space, never in a word."""

    def __init__(self, name: str, also_after: str = "") -> None:
        breaks = f"-_, {also_after}"
        self._pieces = re.findall(f"[^{breaks}]+[{breaks}]*|[{breaks}]+", name) or [""]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        lengths = [len(piece.rstrip()) for piece in self._pieces]
        return Measurement(max(lengths), len("".join(self._pieces))).clamp(max_width=options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [""]
        for piece in self._pieces:
            if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield Text("\n".join(line.rstrip() for line in lines))


def judgement_table(judgement: Judgement, books: str = "") -> Table:
    """A row for each promise: the verdict, the number of cases judged, and the reason; the state of the books beneath it, if given."""
    reliability = judgement.relative_reliability
    allowed = "" if reliability is None else f"{percent(reliability)} of the deliveries that the network allowed"
    caption = "\n".join(filter(None, (allowed, books)))
    table = Table(caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("promise", "verdict"):
        table.add_column(heading, no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("because")
    for promise, finding in judgement.findings.items():
        # Findings of older versions have no number of cases.
        cases = "-" if finding.cases is None else str(finding.cases)
        table.add_row(str(promise), _styled(finding.verdict), cases, finding.reason)
    told = {finding.reason for finding in judgement.findings.values()}
    for reason in judgement.reasons:
        if reason not in told:
            table.add_row(
                "(the run)",
                _styled(judgement.verdict if judgement.verdict is Verdict.NOT_TESTED else Verdict.UNKNOWN),
                "",
                reason,
            )
    return table


def summary_table(summaries: Sequence[Summary]) -> Table:
    """A row for each run of a scenario. To fit 80 columns, runs with different seeds show the seed in place of the load."""
    several_seeds = len({summary.seed for summary in summaries}) > 1
    bounds, least = (
        {getattr(summary.cost, bound) for summary in summaries} for bound in ("lower_bound", "lower_bound_crossings")
    )
    table = Table(
        title=f"{described(summaries)}, {summaries[0].messages} messages",
        caption=f"expensive packets per message{_least(bounds)}; delays in ms, interpolated",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("run" if any(summary.label != summary.protocol for summary in summaries) else "protocol")
    for heading in ("packets", "data", "p50", "p99", "last", "share", "seed" if several_seeds else "load"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("books", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if packed := [summary for summary in summaries if (summary.messages_per_datagram or 1.0) > 1.0]:
        each = _each(packed, lambda summary: summary.messages_per_datagram)
        table.caption = f"{table.caption}\nseveral messages share a packet, on average: {each}"
    if any(map(crossings_differ, summaries)):
        each = _each(summaries, lambda summary: summary.cost.expensive_crossings_per_message)
        at_least = f", at least {least.pop():.4g}" if len(least) == 1 else ""
        table.caption = f"{table.caption}\ncrossings of expensive links per message: {each}{at_least}"
    if any(summary.medium == "multicast" for summary in summaries):
        media = dict.fromkeys(summary.medium for summary in summaries)
        told = dict.fromkeys(f"{summary.label} {summary.medium}" for summary in summaries)
        each = ", ".join(told) if len(media) > 1 else "multicast"
        table.caption = f"{table.caption}\nmedium: {each}"
    table.caption = "\n".join([str(table.caption), *_checked(summaries), *told_of(summaries, _remarks)])
    for summary in summaries:
        table.add_row(Name(summary.label), *_cells(summary, summary.seed if several_seeds else summary.load_max))
    return table


def _remarks(summary: Summary) -> Iterator[str]:
    if omitted := told_omissions(summary.books):
        yield f"the cost leaves out {omitted}"
    if summary.detector is not None:
        yield described_detection(summary.detector)
    if summary.not_tested:
        yield f"not tested: {', '.join(summary.not_tested)}"


def told_of(summaries: Sequence[Summary], sentences: Callable[[Summary], Iterable[str]]) -> list[str]:
    """Sentences about runs, each after the label of its run, and after the seeds where only some repeats have it."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for summary in summaries:
        for sentence in sentences(summary):
            seeds.setdefault((summary.label, sentence), []).append(summary.seed)
    repeats = Counter(summary.label for summary in summaries)
    return [f"{label}{_some(some, repeats[label])}: {sentence}" for (label, sentence), some in seeds.items()]


def _some(seeds: Sequence[int], repeats: int) -> str:
    if len(seeds) == repeats:
        return ""
    return f", seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _each(summaries: Sequence[Summary], figure: Callable[[Summary], float | None]) -> str:
    """A figure of each run by its label; of repeats, the least and the greatest."""
    found: dict[str, list[float]] = {}
    for summary in summaries:
        if (value := figure(summary)) is not None:
            found.setdefault(summary.label, []).append(value)
    return ", ".join(
        f"{label} {' to '.join(dict.fromkeys(map(_number, (min(some), max(some)))))}" for label, some in found.items()
    )


def _least(bounds: set[int | float]) -> str:
    """The fewest packets that a message can cost, if it is the same for all runs; where messages share packets, they cost less."""
    return f", at least {bounds.pop():.4g} with one packet a message" if len(bounds) == 1 else ""


def _cells(summary: Summary, seed_or_load: int) -> tuple[str | Text, ...]:
    cost, delay = summary.cost, summary.delay_ms
    return (
        _number(cost.expensive_packets_per_message),
        _number(cost.expensive_data_packets_per_message),
        _number(delay.p50, 1),
        _number(delay.p99, 1),
        _number(delay.last_p50, 1),
        "-" if summary.delivered_share is None else percent(summary.delivered_share),
        str(seed_or_load),
        Text("ok", "green") if summary.balanced else Text(f"{len(summary.differences)} open", "red"),
        _styled(summary.verdict),
    )


def _checked(summaries: Sequence[Summary]) -> Iterator[str]:
    """How far the packets of runs were checked."""
    if shares := [summary.books.checked_share for summary in summaries if summary.books.checked_share is not None]:
        yield f"books: {'all' if min(shares) == 1 else f'at least {100 * min(shares):.1f} % of'} packets checked"
    if guests := dict.fromkeys(summary.label for summary in summaries if summary.books.guest):
        yield f"{', '.join(guests)}: all packets of a guest, checked at links only"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def comparison_tables(found: Comparison) -> Iterator[Table]:
    """Two tables, cost and the other figures: a row for each group, with medians and below them the intervals."""
    for figures, last in ((told_figures(found, COST), "runs"), (list(REST), "verdict")):
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, leading=1)
        table.add_column("")
        for figure in figures:
            table.add_column(MEASURES[figure].word, justify="right", no_wrap=True)
        table.add_column(last, justify="right" if last == "runs" else "left", no_wrap=True)
        for group in found.groups:
            cells = [_cell(MEASURES[figure], group.estimates.get(figure)) for figure in figures]
            ending = Text(str(len(group.runs))) if last == "runs" else verdict_text(group)
            table.add_row(Name(group.name), *cells, ending)
        yield table


def _cell(measure: Measure, found: Estimate | None) -> Text:
    interval = interval_text(measure, found).replace(" - ", "\n")
    return Text.assemble(measure.text(found.median if found else None), (f"\n{interval}" if interval else "", "dim"))


def verdict_text(group: Compared) -> Text:
    """The verdicts of the runs of a group, with their numbers of runs if they differ."""
    one = len(group.verdicts) == 1
    words = [Text.assemble(_styled(Verdict(word)), "" if one else f" {times}") for word, times in group.verdicts.items()]
    return Text("\n").join([*words, *(Text(f"not tested: {promise}", "dim") for promise in group.not_tested)])


def _styled(verdict: Verdict) -> Text:
    return Text(verdict.value, _STYLES[verdict])


def claims_table(claims: Sequence[Claim]) -> Table:
    """A row for each claim: its sentence, whether it holds, and the figure."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("claim")
    table.add_column("holds", no_wrap=True)
    table.add_column("figure")
    for claim in claims:
        holds = status_word(claim)
        table.add_row(claim.number, claim.text, Text(holds, _CLAIM_STYLES[holds]), claim.figure)
    return table


def tree_table(source: str, tree: TreeThen, *, of_clusters: bool = True) -> Table:
    """A row for each cluster. A member is shown with its parent unless that is the only leader of the cluster."""
    more = len(tree.problems) - _MOST_PROBLEMS
    told = (*tree.problems[:_MOST_PROBLEMS], *([f"{more} more"] if more > 0 else []))
    caption = f"no tree of clusters: {'; '.join(told)}" if told else f"a tree of {'clusters' if of_clusters else 'hosts'}"
    table = _table(f"the tree of {source} at {tree.at_s:.3f} s", caption, ("leader", "its parent", "members", ""))
    for cluster in tree.clusters:
        parents = [parent or ("(the source)" if leader == source else "-") for leader, parent in cluster.leaders.items()]
        only = next(iter(cluster.leaders)) if len(cluster.leaders) == 1 else ""
        members = (host if parent == only else f"{host} (child of {parent})" for host, parent in cluster.members.items())
        table.add_row(
            ", ".join(cluster.leaders) or "-",
            ", ".join(parents) or "-",
            ", ".join(members) or "-",
            "" if cluster.connected else "cut off",
        )
    return table


def forest_table(root: str, tree: TreeThen) -> Table:
    """A row for each host of a propagation graph, below its parent."""
    graphs = {(host.graph, host.closed) for host in tree.forest}
    told = " and ".join(f"graph {number}, {'closed' if closed else 'open'}" for number, closed in sorted(graphs))
    table = _table(f"the propagation graph of {root} at {tree.at_s:.3f} s", told, ("host", "primary destination of", "graph", ""))
    for host in tree.forest:
        state = "down" if not host.running else f"waits for {host.waits_for}, which is down" if host.waits_for else ""
        graph = f"{host.graph}{' closed' if host.closed else ''}"
        table.add_row(f"{'  ' * host.level}{host.host}", ", ".join(host.primary_of), graph, Text(state, "red"))
    return table


def reformation_table(found: TreeReport, history: History) -> Table:
    """A row for the first broadcast and a row for each fault."""
    table = _table(
        f"how the tree of {found.source} formed",
        "until the next fault, or the end",
        ("at", "what", "formed after", "leaders changed", "parents changed"),
    )
    for column in (0, 2, 3, 4):
        table.columns[column].justify = "right"
    began_ns = start_ns(history)
    for row in found.reformations:
        took = "did not" if row.took_ns is None else f"{row.took_ns / 1e6:.0f} ms" if row.took_ns else "stood"
        counts = str(row.leader_changes), str(row.parent_changes)
        table.add_row(f"{(row.at_ns - began_ns) / 1e9:.3f} s", row.cause, took, *counts)
    return table


def healing_table(found: Sequence[Healing], history: History) -> Table:
    """A row for each fault and each repair: how long it was felt."""
    what = next((one.what for one in found if one.what), "")
    headings = ("at", "what", "nobody lacks a message after", *([f"{what} stands after"] if what else []))
    table = _table("how long faults were felt", "until the next fault, or the end", headings)
    for column in (0, 2, *([3] if what else [])):
        table.columns[column].justify = "right"
    for one in found:
        stands = [told(one.stands_ns, "stood")] if what else []
        table.add_row(f"{(one.at_ns - start_ns(history)) / 1e9:.3f} s", one.cause, told(one.caught_up_ns), *stands)
    return table


def _table(title: str, caption: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    return table
