"""The page of a paper, the index over all of them, and the summaries in `docs/papers/`: each table, graph and claim beside ours.

The pages have their pictures inside, load nothing and run no script, as the page of a report.
"""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from jinja2 import Environment
from markupsafe import Markup

from analysis.figures.claims import ComparedTable, Sweep, status_word
from analysis.figures.stated import ComparedEntry
from analysis.pages.report import environment
from analysis.pages.view import VerdictMark
from analysis.pictures.plots import sweep_figure
from papers.findings import ENGINES, WORDS, Finding, Findings, Outcome, Word
from papers.paper import Paper
from runfiles.errors import ResultsError
from runfiles.format import encoded, write_whole

NAME = "index.html"
MOST_OPEN = 12
"""The checks of a scenario are folded away if there are more of them than this."""
MOST_ROWS = 32
"""So are the rows of a table."""
_BOUND: Final = re.compile(
    r"(?<=[\w)]) (?=[-=<+/] [\w(])|(?<=[\w)] [-=<+/]) (?=[\w(])|(?<=\b[AENT]) (?=\d)|(?<=\d) (?=(?:%|ms\b|s\b))"
)
"""Spaces at which no line ends: within a short formula, and before a unit."""
_MINUS: Final = "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}"
_STYLES: Mapping[Word, str] = {"yes": "holds", "no": "violated", "unknown": "unknown"}


@dataclass(frozen=True)
class CellView:
    """A cell of a table: what the paper states, what it gives here, ours with the interval, and the difference."""

    stated: str
    expected: str
    measured: str
    interval: str
    difference: str
    differs: bool


@dataclass(frozen=True)
class TableView:
    """A table of the paper beside ours; with an engine where both have made it."""

    engine: str
    title: str
    columns: tuple[str, ...]
    bare: frozenset[str]
    """The columns of which the paper states nothing."""
    rows: tuple[tuple[str, tuple[CellView | None, ...]], ...]


@dataclass(frozen=True)
class FindingView:
    """A statement with its verdict, and what is shown with it: pictures of a graph, the cells of a table."""

    found: Finding
    mark: VerdictMark
    pictures: tuple[tuple[str, str], ...] = ()
    """Engine and `data:` address."""
    tables: tuple[TableView, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class PaperView:
    """Everything on the page of a paper."""

    paper: Paper
    findings: Findings
    count: Mapping[str, int]
    claims: tuple[FindingView, ...]
    tables: tuple[FindingView, ...]
    graphs: tuple[FindingView, ...]
    outcomes: tuple[Outcome, ...]
    engines: tuple[str, ...]


def mark(word: Word) -> VerdictMark:
    """A verdict on a statement of a paper."""
    return VerdictMark(_STYLES[word], WORDS[word])


def view_of(paper: Paper, findings: Findings, outcomes: Sequence[Outcome]) -> PaperView:
    """What the page shows."""
    views = [_view(paper, finding, outcomes) for finding in findings.findings]
    of_kind = {kind: tuple(view for view in views if view.found.kind == kind) for kind in ("claim", "table", "graph")}
    return PaperView(
        paper,
        findings,
        counted(findings),
        claims=of_kind["claim"],
        tables=of_kind["table"],
        graphs=of_kind["graph"],
        outcomes=tuple(outcomes),
        engines=tuple(dict.fromkeys(outcome.engine for outcome in outcomes)),
    )


def counted(findings: Findings) -> dict[str, int]:
    """How many statements are confirmed, refuted and unknown, by these words."""
    return {WORDS[word]: times for word, times in findings.count().items()}


def _view(paper: Paper, found: Finding, outcomes: Sequence[Outcome]) -> FindingView:
    pictures: list[tuple[str, str]] = []
    tables: list[TableView] = []
    note = next(said.note for said in paper.statements if said.name == found.name)
    if found.kind == "graph":
        graph = next(graph for graph in paper.graphs if graph.says.name == found.name)
        drawn = [(outcome.engine, sweep) for outcome in outcomes if outcome.source == graph.source for sweep in outcome.sweeps]
        shown = [(engine, sweep) for engine, sweep in drawn if graph.is_of(sweep)]
        pictures = [(engine, _picture(sweep, [other for _, other in shown if other is not sweep])) for engine, sweep in shown]
        note = graph.note or note
    if found.kind == "table":
        made = [(outcome.engine, table) for outcome in outcomes for table in outcome.tables]
        tables = [table_view(engine, table) for engine, table in made if table.name == found.name]
    return FindingView(found, mark(found.verdict), tuple(pictures), tuple(tables), note)


def _picture(sweep: Sweep, others: Sequence[Sweep]) -> str:
    """The plot of a sweep as a `data:` address, beside others of the same graph. Without a date in it, the same runs make the same page."""
    file = io.BytesIO()
    # Narrow, so that its words can be read on a phone.
    sweep_figure(sweep, others, width=5.0).savefig(file, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"


def table_view(engine: str, table: ComparedTable) -> TableView:
    """A table as text."""
    columns = tuple(dict.fromkeys(column for cells in table.rows.values() for column in cells))
    rows = tuple(
        (row, tuple(_cell(cells[column]) if column in cells else None for column in columns)) for row, cells in table.rows.items()
    )
    every = [(column, entry) for cells in table.rows.values() for column, entry in cells.items()]
    bare = frozenset(columns).difference(column for column, entry in every if entry.stated or entry.expected is not None)
    return TableView(engine, table.title, columns, bare, rows)


def _cell(entry: ComparedEntry) -> CellView:
    expected = "" if entry.expected is None else number(entry.expected)
    if entry.measured is None:
        told = {True: "as stated", False: "not as stated", None: ""}[entry.agrees]
        return CellView(entry.stated, expected, entry.word, "", told, entry.agrees is False)
    found = entry.measured
    interval = "" if found.low is None or found.high is None else f"{number(found.low)} to {number(found.high)}"
    difference = "" if entry.expected is None else _difference(found.median, entry.expected)
    return CellView(entry.stated, expected, number(found.median), interval, difference, differs=False)


def _difference(measured: float, expected: float) -> str:
    """The difference with two digits that matter; 0 if it is less than a thousandth."""
    value = measured - expected
    return "0" if abs(value) <= 0.001 * max(abs(measured), abs(expected)) else f"{value:+.2g}"


def number(value: float) -> str:
    """A number with at most four digits that matter."""
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def write_page(view: PaperView, directory: Path) -> Path:
    """Write the page of a paper."""
    text = (
        _environment()
        .get_template("paper.html.j2")
        .render(
            view=view,
            agreement=agreement(view.findings),
            status_word=status_word,
            styles=_STYLES,
            words=WORDS,
            engines=ENGINES,
            most_open=MOST_OPEN,
            most_rows=MOST_ROWS,
        )
    )
    return _write(directory / NAME, text)


def agreement(findings: Findings) -> str:
    """A sentence on how many statements both engines can tell of, and whether they agree."""
    every = findings.findings
    both = [found for found in every if len(found.engines) > 1 and "unknown" not in found.engines.values()]
    if not both:
        return f"None of the {len(every)} statements was put to the test on both."
    differ = sum(bool(found.differs) for found in both)
    agree = f"on {len(both) - differ} of them they agree, on {differ} they do not" if differ else "and they agree on all of them"
    return f"Both can tell of {len(both)} of the {len(every)} statements, {agree}."


def write_index(papers: Sequence[tuple[Paper, Findings | None]], directory: Path) -> Path:
    """Write the page over all papers; those without findings are listed too."""
    rows = [(paper, found, counted(found) if found else {}) for paper, found in papers]
    every = [found for _, found in papers if found]
    total = {word: sum(counted(found)[word] for found in every) for word in WORDS.values()}
    engines = sorted({piece.engine for found in every for finding in found.findings for piece in finding.evidence})
    text = _environment().get_template("papers.html.j2").render(rows=rows, total=total, engines=engines, mark=mark)
    return _write(directory / NAME, text)


def _environment() -> Environment:
    found = environment(Path(__file__).parent)
    found.filters.update(code=_code, tidy=tidy)
    return found


def tidy(text: str) -> str:
    """Text whose formulas and figures stay in one line."""
    return _BOUND.sub("\N{NO-BREAK SPACE}", text).replace("\N{NO-BREAK SPACE}-\N{NO-BREAK SPACE}", _MINUS)


def _code(text: str) -> Markup:
    """Text with what is in backticks set as code."""
    code, plain = Markup("<code>{}</code>"), Markup("{}")
    return Markup().join(
        code.format(part) if place % 2 else plain.format(tidy(part)) for place, part in enumerate(text.split("`"))
    )


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror}") from error
    return path


def write_summary(paper: Paper, findings: Findings, directory: Path) -> list[Path]:
    """Write NAME.json, and NAME.md for readers of the repository."""
    text = (
        _environment()
        .get_template("paper.md.j2")
        .render(
            paper=paper,
            findings=findings,
            count=counted(findings),
            words=WORDS,
            cell=_plain,
            tables=[table_view("", table) for table in findings.tables],
        )
    )
    data = msgspec.json.format(encoded(findings), indent=1) + b"\n"
    return [_write(directory / f"{paper.name}.json", data.decode()), _write(directory / f"{paper.name}.md", text)]


def overview(papers: Sequence[Paper], directory: Path) -> str:
    """The text over all summaries in a directory; nothing if it lacks one."""
    rows = [(paper, found, counted(found)) for paper in papers if (found := read_summary(directory / f"{paper.name}.json"))]
    return _environment().get_template("papers.md.j2").render(rows=rows, cell=_plain) if len(rows) == len(papers) else ""


def write_overview(papers: Sequence[Paper], directory: Path) -> None:
    """Write README.md beside the summaries of all papers."""
    if text := overview(papers, directory):
        _write(directory / "README.md", text)


def _plain(text: str) -> str:
    """Text in a cell of a table of Markdown."""
    return text.replace("|", "\\|").replace("\n", " ")


def read_summary(path: Path) -> Findings | None:
    """The findings in a file; nothing if there is no such file."""
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Findings)
    except msgspec.MsgspecError as error:
        raise ResultsError(f"{path} has no findings of a paper: {error}") from None
