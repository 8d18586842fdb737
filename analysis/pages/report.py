"""The page of a report: settings, network, comparison, plots, verdicts, claims, and links to the files of the runs.

This module makes the data of the page (`view.py`); the template `report.html.j2` and the style sheet `report.css` lay it out. The page
has its pictures inside, loads nothing and runs no script; its content security policy forbids both. Links to files are relative.
"""

import base64
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.books import told_books, told_omissions
from analysis.figures.claims import Claim, status_word
from analysis.figures.comparison import (
    COST,
    MEASURES,
    REST,
    Compared,
    Comparison,
    Difference,
    Leaders,
    Measure,
    difference_lines,
    interval_lines,
    interval_text,
    method_lines,
    p_text,
    told_figures,
)
from analysis.figures.hints import hints
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import Group, differing, facets
from analysis.figures.statistics import Estimate
from analysis.judging.fault_windows import windows
from analysis.judging.healing import healings, told
from analysis.pages.view import (
    Cell,
    ClaimRow,
    Differences,
    FaultRow,
    FileLink,
    Grid,
    HealingRow,
    Highlight,
    Image,
    NamedValue,
    NetworkRow,
    ReportView,
    Row,
    RunRow,
    ScenarioText,
    VerdictMark,
    VerdictRow,
)
from hostagent.contract.advice import ADVICE
from runfiles.errors import ResultsError
from runfiles.format import write_whole
from topologies.network import Link, Network
from topologies.properties import described

NAME: Final = "report.html"
# An SVG that is larger than this, and larger than its PNG, is replaced by the PNG to keep the page small.
LARGEST_SVG: Final = 300_000
# The most reasons shown for a verdict; further reasons are counted only.
MOST_REASONS: Final = 3
# The most groups that the top of the page names with their figures.
MOST_NAMED: Final = 3
# The figures at the top of the page: the title where a best group is shown, and where none is.
_SHORT: Final = {
    "expensive_packets_per_message": ("Fewest expensive packets per message", "Expensive packets per message"),
    "delay_ms_last_p50": ("Shortest delay to the last host, ms", "Delay to the last host, ms"),
    "delay_ms_p99": ("Shortest 99th percentile of the delay, ms", "99th percentile of the delay, ms"),
    "delivered_share": ("Greatest share delivered", "Share delivered"),
    "load_max": ("Fewest datagrams at the busiest host", "Datagrams at the busiest host"),
}
# The keys of a stream of broadcasts, with their units.
_STREAM: Final = {
    "messages": "messages",
    "interval": "interval, ms",
    "payload": "payload, bytes",
    "settle": "settle, ms",
    "pack_ms": "pack, ms",
    "medium": "medium",
}


@dataclass(frozen=True)
class Picture:
    """A plot that was saved as STEM.png and STEM.svg, with its title and caption."""

    stem: Path
    title: str
    caption: str
    wide: bool = False
    low: bool = False
    """Whether the page may scale the plot down to fit on a screen."""


@dataclass(frozen=True)
class Page:
    """The input of a page."""

    groups: Sequence[Group]
    comparison: Comparison
    pictures: Sequence[Picture]
    networks: Sequence[Picture] = ()
    claims: Sequence[Claim] = ()
    about: dict[str, str] = field(default_factory=dict)
    """A sentence about each scenario that is known."""

    @property
    def runs(self) -> list[MeasuredRun]:
        """Every run of every group."""
        return [run for group in self.groups for run in group.runs]

    @property
    def scenarios(self) -> list[str]:
        """The names of the scenarios, each once."""
        return list(dict.fromkeys(run.input.run.scenario for run in self.runs))


def write(page: Page, directory: Path) -> Path:
    """Write the page into a directory."""
    path = directory / NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(path, render(view_of(page, directory)).encode())
    except OSError as error:
        raise ResultsError(f"the report cannot be written to {path}: {error.strerror}") from error
    return path


def render(view: ReportView) -> str:
    """The page as HTML. All text of the view is escaped; a name in the template that the view lacks is an error."""
    return environment().get_template("report.html.j2").render(view=view)


def environment(*folders: Path) -> Environment:
    """What renders templates of these folders and of this one."""
    return Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def view_of(page: Page, directory: Path) -> ReportView:
    """What a page in this directory shows."""
    found = page.comparison
    keys = [key for key in differing(facets(run) for run in page.runs) if "." not in key]
    return ReportView(
        title=_title(page),
        groups=len(page.groups),
        real_runs=sum(run.input.run.engine != "simulator" for run in page.runs),
        simulated_runs=sum(run.input.run.engine == "simulator" for run in page.runs),
        verdict=_marks(Counter(str(run.summary.verdict) for run in page.runs)),
        highlights=tuple(_highlights(page)),
        scenarios=tuple(ScenarioText(name, page.about.get(name, "")) for name in page.scenarios),
        network_images=tuple(map(_image, page.networks)),
        networks=tuple(_networks(page)),
        settings=tuple(_settings(page)),
        has_intervals=bool(found.methods),
        figure_tables=tuple(_figures(found, told_figures(found, figures)) for figures in (COST, REST)),
        figure_methods=tuple(interval_lines(found)),
        figure_notes=(*found.notes, *hints((run.input, run.summary.checks) for run in page.runs)),
        differences=_differences(found),
        images=tuple(map(_image, page.pictures)),
        verdicts=tuple(_verdicts(page)),
        claims=tuple(map(_claim, page.claims)),
        has_repeats=any(len(group.runs) > 1 for group in page.groups),
        faults=tuple(_faults(page)),
        healings=tuple(_healings(page)),
        parameters=tuple(_parameters(page)),
        machine=tuple(_machine(page)),
        differing_keys=", ".join(keys),
        runs=tuple(_runs(page, directory)),
    )


def _title(page: Page) -> str:
    scenarios = ", ".join(page.scenarios)
    if len(page.groups) == 1:
        return f"{scenarios}: {page.groups[0].name}"
    protocols = {group.runs[0].input.run.protocol for group in page.groups}
    return f"{scenarios}: {len(page.groups)} {'protocols' if len(protocols) == len(page.groups) else 'groups of runs'} compared"


def _highlights(page: Page) -> Iterator[Highlight]:
    """The figures that matter most; none where networks differ, as a larger or worse network costs more with any protocol."""
    if len({group.runs[0].network for group in page.groups}) > 1:
        return
    for figure, titles in _SHORT.items():
        if leaders := page.comparison.leaders(figure):
            yield _highlight(figure, titles, leaders)


def _highlight(figure: str, titles: tuple[str, str], leaders: Leaders) -> Highlight:
    """The best group if tests show that there is one; else the range of the medians of all groups that may be the best."""
    measure, best = MEASURES[figure], leaders.groups[0].estimates[figure]
    if len(leaders.groups) == 1:
        return Highlight(titles[0], measure.text(best.median), leaders.groups[0].name, _interval(measure, best))
    medians = sorted(group.estimates[figure].median for group in leaders.groups)
    values = " to ".join(dict.fromkeys(map(measure.text, (medians[0], medians[-1]))))
    each = [f"{group.name} {measure.text(group.estimates[figure].median)}" for group in leaders.groups]
    if medians[0] == medians[-1] or len(each) > MOST_NAMED:
        each = ["all groups"] if len(leaders.groups) == leaders.of else [group.name for group in leaders.groups]
    names = ", ".join(each)
    untested = "the same median" if medians[0] == medians[-1] else "too few runs to tell them apart"
    return Highlight(titles[1], values, names, "no difference shown" if leaders.enough_runs else untested)


def _interval(measure: Measure, estimate: Estimate) -> str:
    return interval_text(measure, estimate).replace(" - ", " to ")


def _networks(page: Page) -> Iterator[NetworkRow]:
    """One row for all networks of one name, which may differ in the limits of their links."""
    by_name: dict[str, list[Network]] = {}
    for run in page.runs:
        by_name.setdefault(run.network.name, []).append(run.network)
    for name, same in by_name.items():
        network = same[0]
        links = {link for each in same for link in each.links if link.expensive}
        limits = sorted({described(link, Link(link.a, link.b)) for link in links} - {""})
        yield NetworkRow(
            name=name,
            hosts=len(network.hosts),
            clusters=len(network.clusters),
            lower_bound=network.lower_bound,
            switches=len(network.switches),
            links=len(network.links),
            expensive_links=sum(link.expensive for link in network.links),
            limits="; or ".join(limits) or "no limits",
        )


def _settings(page: Page) -> Iterator[NamedValue]:
    """The keys of the scenario and of its stream of broadcasts."""
    facts = [facets(group.runs[0]) for group in page.groups]
    keys = dict.fromkeys(key for group in page.groups for key in group.runs[0].input.run.settings)
    keys |= dict.fromkeys(key for key in _STREAM if any(key in each for each in facts))
    for key in keys:
        yield NamedValue(_STREAM.get(key, key), ", ".join(dict.fromkeys(each.get(key, "not set") for each in facts)))


def _figures(found: Comparison, figures: Sequence[str]) -> Grid:
    rows = (
        Row(group.name, (Cell(str(len(group.runs))), *(_figure(group, figure, bool(found.methods)) for figure in figures)))
        for group in found.groups
    )
    return Grid(("", "runs", *(MEASURES[figure].title for figure in figures)), tuple(rows))


def _figure(group: Compared, figure: str, has_intervals: bool) -> Cell:
    if figure not in group.estimates:
        return Cell("-")
    measure, estimate = MEASURES[figure], group.estimates[figure]
    return Cell(measure.text(estimate.median), _interval(measure, estimate) or ("no interval" if has_intervals else ""))


def _differences(found: Comparison) -> Differences | None:
    others = [group.name for group in found.groups if group.name != found.against]
    if not others:
        return None
    if all(difference.shown is None for difference in found.differences):
        return Differences(None, tuple(difference_lines(found)))
    tested = {(difference.figure, difference.group): difference for difference in found.differences}
    rows = (
        Row(measure.title, tuple(_difference(tested.get((figure, other))) for other in others))
        for figure, measure in MEASURES.items()
    )
    return Differences(Grid((f"compared with {found.against}", *others), tuple(rows)), tuple(method_lines(found)))


def _difference(found: Difference | None) -> Cell:
    if found is None:
        return Cell("-")
    words = {True: "differs", False: "no difference shown", None: "too few runs to tell"}
    return Cell(words[found.shown], f"p {p_text(found.p_holm)}", strong=bool(found.shown))


def _image(picture: Picture) -> Image:
    png, svg = (picture.stem.with_name(f"{picture.stem.name}.{kind}") for kind in ("png", "svg"))
    small = svg.exists() and svg.stat().st_size <= max(LARGEST_SVG, png.stat().st_size if png.exists() else 0)
    kind, path = ("svg+xml", svg) if small else ("png", png)
    source = f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    return Image(source, picture.title, picture.caption, picture.wide, picture.low)


def _marks(counts: Mapping[str, int]) -> tuple[VerdictMark, ...]:
    """Verdicts, each with its number of runs unless there is one run only."""
    several = sum(counts.values()) > 1
    return tuple(VerdictMark(word.replace(" ", "-"), f"{word} ({times})" if several else word) for word, times in counts.items())


def _verdicts(page: Page) -> Iterator[VerdictRow]:
    """For each group, the verdict on the runs, and beneath it a row for each promise."""
    for group, found in zip(page.groups, page.comparison.groups, strict=True):
        yield VerdictRow(group.name, "whole run", _marks(found.verdicts), "", _reasons(group, None))
        for promise in dict.fromkeys(promise for summary in group.summaries for promise in summary.checks):
            checks = [summary.checks[promise] for summary in group.summaries if promise in summary.checks]
            marks = _marks(Counter(str(check.verdict) for check in checks))
            cases = [check.cases for check in checks if check.cases is not None]
            yield VerdictRow("", str(promise), marks, f"{sum(cases):,}" if cases else "-", _reasons(group, promise))


def _reasons(group: Group, promise: str | None) -> tuple[str, ...]:
    """The reasons for the verdict on a promise and the seeds of their runs; without a promise, the other reasons of the runs."""
    seeds: dict[str, list[str]] = {}
    for run in group.runs:
        checks = run.summary.checks
        of_promises = {check.reason for check in checks.values()}
        of_run = [reason for reason in run.summary.verdict_reasons if reason not in of_promises]
        for reason in of_run if promise is None else [checks[promise].reason] if promise in checks else []:
            seeds.setdefault(reason, []).append(str(run.summary.seed))
    lines = [
        f"{reason} (seed {', '.join(some)})" if len(some) < len(group.runs) else reason
        for reason, some in seeds.items()
        if reason
    ]
    more = len(lines) - MOST_REASONS
    return (*lines[:MOST_REASONS], *([f"and {more} more"] if more > 0 else []))


def _claim(claim: Claim) -> ClaimRow:
    word = status_word(claim)
    style = {"yes": "holds", "no": "violated"}.get(word, word)
    return ClaimRow(claim.number, claim.text, VerdictMark(style, word), claim.figure)


def _faults(page: Page) -> Iterator[FaultRow]:
    """The faults of the first run of each group, in seconds since the first broadcast."""
    for group in page.groups:
        run = group.runs[0]
        start_ns = run.history.broadcasts[0].at_ns if run.input.faults and run.history.broadcasts else run.input.run.started_ns
        for number, window in enumerate(windows(run.input.faults, run.input.run.ended_ns)):
            start, end = (window.start_ns - start_ns) / 1e9, (window.end_ns - start_ns) / 1e9
            until = f"{end:.3f} s" if end > start else "momentary"
            yield FaultRow("" if number else group.name, window.label, f"{start:.3f} s", until)


def _healings(page: Page) -> Iterator[HealingRow]:
    """How long each fault was felt, in the first run of each group."""
    for group in page.groups:
        run = group.runs[0]
        found = healings(run.input, run.history) if run.input.faults else ()
        for number, one in enumerate(found):
            name = "" if number else group.name
            stands = f"{one.what}: {told(one.stands_ns, 'stood')}" if one.what else "-"
            yield HealingRow(name, f"{run.at_s(one.at_ns):.3f} s", one.cause, told(one.caught_up_ns), stands)


def _parameters(page: Page) -> Iterator[NamedValue]:
    """The parameters of each protocol, once where groups have the same."""
    rows: dict[NamedValue, None] = {}
    for group in page.groups:
        record = group.runs[0].input.run
        told = {key: "from the network" if key == ADVICE and value else value for key, value in record.parameters.items()}
        values = (f"{key} = {value if value != '' else 'none'}" for key, value in told.items())
        rows[NamedValue(record.protocol, ", ".join(values) or "none")] = None
    yield from rows


def _machine(page: Page) -> Iterator[NamedValue]:
    records = [run.input.run for run in page.runs]
    versions = dict.fromkeys(name for record in records for name in record.versions)
    facts = {
        "engine": [record.engine for record in records],
        "datapath": [record.datapath for record in records],
        "shaping": [record.shaping for record in records],
        **{name: [record.versions.get(name, "-") for record in records] for name in versions},
    }
    for name, values in facts.items():
        yield NamedValue(name, ", ".join(dict.fromkeys(values)))


def _runs(page: Page, directory: Path) -> Iterator[RunRow]:
    for group in page.groups:
        for number, run in enumerate(group.runs):
            summary = run.summary
            omitted = told_omissions(summary.books)
            books = told_books(summary.books).removeprefix("books ") + (f"; the cost leaves out {omitted}" if omitted else "")
            files = tuple(_files(run.directory, directory))
            yield RunRow("" if number else group.name, summary.seed, _marks({str(summary.verdict): 1})[0], books, files)


def _files(run: Path, directory: Path) -> Iterator[FileLink]:
    """Links from a page in `directory` to the files of a run that exist."""
    base = os.path.relpath(run.resolve(), directory.resolve())
    for name in ("run.json", "summary.json", "captures", "tables", "events", "plots"):
        if (run / name).exists():
            yield FileLink(name, quote(f"{base}/{name}" + ("/" if (run / name).is_dir() else "")))
