"""One page that holds everything: what was asked, on what network, the comparison, plots, verdicts, claims, and the way to the files.

The page needs nothing but itself: pictures are in it, it loads nothing and runs no script, which it also forbids the browser to do. Links
lead to the runs' files, relative to where the page lies.
"""

import base64
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from analysis.figures.claims import Claim, status_word
from analysis.figures.comparison import (
    COST,
    MEASURES,
    REST,
    Compared,
    Comparison,
    Measure,
    difference_lines,
    interval_lines,
    interval_text,
    method_lines,
    p_text,
)
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import Group, differing, facets
from analysis.judging.fault_windows import windows
from analysis.pages import html
from analysis.pages.html import Content, Html, element
from hostagent.contract.promises import Guarantee
from runfiles.errors import ResultsError
from runfiles.format import write_whole
from topologies.network import Link, Network
from topologies.properties import described

NAME: Final = "report.html"
QUESTION: Final = "Which broadcast protocol is cheapest, fastest and most reliable on this network, under these failures?"
# An SVG that is larger than this and than its PNG would make the page heavy for nothing.
LARGEST_SVG: Final = 300_000
# Of as many runs of a group that break a promise, the first tell enough.
MOST_REASONS: Final = 3
_POLICY: Final = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_SHORT: Final = {
    "expensive_packets_per_message": "Fewest expensive packets per message",
    "delay_ms_last_p50": "Fewest milliseconds to the last host that delivered",
    "delivered_share": "Greatest share delivered",
    "load_max": "Fewest datagrams at the busiest host",
}


@dataclass(frozen=True)
class Picture:
    """A plot that was saved as STEM.png and STEM.svg, and what to see in it."""

    stem: Path
    title: str
    caption: str
    wide: bool = False
    low: bool = False
    """Whether it may be made smaller than it is, so as not to fill a screen."""


@dataclass(frozen=True)
class Page:
    """What a page is made of."""

    groups: Sequence[Group]
    comparison: Comparison
    pictures: Sequence[Picture]
    networks: Sequence[Picture] = ()
    claims: Sequence[Claim] = ()
    about: dict[str, str] = field(default_factory=dict)
    """What each scenario is, in a sentence, where that is known."""

    @property
    def runs(self) -> list[MeasuredRun]:
        """Every run of every group."""
        return [run for group in self.groups for run in group.runs]


def write(page: Page, directory: Path) -> Path:
    """Write the page into a directory."""
    path = directory / NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(path, _document(page, directory).encode())
    except OSError as error:
        raise ResultsError(f"the report cannot be written to {path}: {error.strerror}") from error
    return path


def _document(page: Page, directory: Path) -> str:
    title = _title(page)
    sections = [(name, heading, body) for name, heading, body in _sections(page, directory) if body]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Html(Path(__file__).with_name("report.css").read_text(encoding="utf-8"))),
    )
    contents = element("ol", *(element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in sections))
    body = element(
        "body",
        element("header", element("h1", title), element("p", QUESTION, class_="lead"), _in_short(page)),
        element("nav", contents, aria_label="Contents"),
        element("main", *(element("section", element("h2", heading), body, id=name) for name, heading, body in sections)),
        element("footer", "Made by Castbed from captures and event logs."),
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _title(page: Page) -> str:
    scenarios = ", ".join(dict.fromkeys(run.input.run.scenario for run in page.runs))
    if len(page.groups) == 1:
        return f"{scenarios}: {page.groups[0].name}"
    protocols = {group.runs[0].input.run.protocol for group in page.groups}
    return f"{scenarios}: {len(page.groups)} {'protocols' if len(protocols) == len(page.groups) else 'groups of runs'} compared"


def _sections(page: Page, directory: Path) -> Iterator[tuple[str, str, Html | None]]:
    yield "scenario", "Scenario and network", _scenario(page)
    yield "comparison", "Comparison", _comparison(page.comparison)
    yield "differences", "Differences", _differences(page.comparison)
    yield "plots", "Plots", html.join(*map(_figure, page.pictures))
    yield "verdicts", "Verdicts", _verdicts(page)
    yield "claims", "Claims", _claims(page.claims)
    yield "faults", "Faults", _faults(page)
    yield "parameters", "Parameters", _parameters(page)
    yield "machine", "Machine and versions", _machine(page)
    yield "runs", "Runs", _runs(page, directory)


def _in_short(page: Page) -> Html:
    """The best of the groups in what matters most; nothing where there is one group only, or where networks differ in size."""
    if len(page.groups) == 1 or len({group.size for group in page.groups}) > 1:
        return Html()
    return element("dl", *(_best(page, figure, words) for figure, words in _SHORT.items()), class_="short")


def _best(page: Page, figure: str, words: str) -> Html:
    best, measure = page.comparison.best(figure), MEASURES[figure]
    if not best:
        return Html()
    estimate = best[0].estimates[figure]
    interval = interval_text(measure, estimate).replace(" - ", " to ") if len(best) == 1 else ""
    who = ", ".join(group.name for group in best) if len(best) < len(page.groups) else "all alike"
    return element(
        "div",
        element("dt", words),
        element("dd", element("span", measure.text(estimate.median), class_="value")),
        element("dd", who, element("small", interval) if interval else None),
    )


def _scenario(page: Page) -> Html:
    told = [
        element("p", element("strong", name), ": " + page.about[name] if name in page.about else "")
        for name in dict.fromkeys(run.input.run.scenario for run in page.runs)
    ]
    networks: dict[str, list[Network]] = {}
    for run in page.runs:
        networks.setdefault(run.network.name, []).append(run.network)
    facts = [_network_row(same) for same in networks.values()]
    headings: list[Content] = [
        "network",
        "hosts",
        "clusters k",
        "least possible, k - 1",
        "switches",
        "links",
        "expensive",
        "expensive links have",
    ]
    return html.join(*told, *map(_figure, page.networks), html.table(headings, facts), _workload(page))


def _network_row(same: Sequence[Network]) -> list[Content]:
    """What is to be said of networks of one name, which may differ in what their links are like."""
    network = same[0]
    expensive = [link for link in network.links if link.expensive]
    links = {link for each in same for link in each.links if link.expensive}
    told = "; or ".join(sorted({described(link, Link(link.a, link.b)) for link in links} - {""}))
    numbers = (
        len(network.hosts),
        len(network.clusters),
        network.lower_bound,
        len(network.switches),
        len(network.links),
        len(expensive),
    )
    return [network.name, *map(str, numbers), told or "no limits"]


def _workload(page: Page) -> Html:
    """What else was asked: the keys of the scenario and of its stream of broadcasts."""
    told = [facets(group.runs[0]) for group in page.groups]
    keys = dict.fromkeys(key for group in page.groups for key in group.runs[0].input.run.settings)
    keys |= dict.fromkeys(
        key for key in ("messages", "interval", "payload", "settle", "pack_ms") if any(key in facts for facts in told)
    )
    units = {"interval": "interval, ms", "settle": "settle, ms", "payload": "payload, bytes"}
    rows: list[list[Content]] = [
        [units.get(key, key), ", ".join(dict.fromkeys(facts.get(key, "not set") for facts in told))] for key in keys
    ]
    return html.join(element("h3", "What was asked"), html.table(["key", "value"], rows))


def _comparison(found: Comparison) -> Html:
    told = "The median of each group's runs" + (", and beneath it the 95 % confidence interval." if found.methods else ".")
    notes = [element("li", note) for note in found.notes]
    return html.join(
        element("p", told),
        *(html.table(*_rows(found, figures), numbers=True) for figures in (COST, REST)),
        *(element("p", line) for line in interval_lines(found)),
        element("ul", *notes, class_="notes") if notes else None,
    )


def _rows(found: Comparison, figures: Sequence[str]) -> tuple[list[Content], list[list[Content]]]:
    rows: list[list[Content]] = [
        [group.name, str(len(group.runs)), *(_cell(MEASURES[figure], group, found, figure) for figure in figures)]
        for group in found.groups
    ]
    return ["", "runs", *(MEASURES[figure].title for figure in figures)], rows


def _cell(measure: Measure, group: Compared, found: Comparison, figure: str) -> Html:
    if figure not in group.estimates:
        return html.text("-")
    interval = interval_text(measure, group.estimates[figure]).replace(" - ", " to ")
    none = "no interval" if found.methods else ""
    return html.join(
        measure.text(group.estimates[figure].median), element("small", interval or none) if interval or none else None
    )


def _differences(found: Comparison) -> Html | None:
    others = [group for group in found.groups if group.name != found.against]
    if not others:
        return None
    if all(difference.shown is None for difference in found.differences):
        return html.join(*(element("p", line) for line in difference_lines(found)))
    told = {(difference.figure, difference.group): difference for difference in found.differences}
    rows: list[list[Content]] = [
        [measure.title, *(_difference(told.get((figure, group.name))) for group in others)]
        for figure, measure in MEASURES.items()
    ]
    methods = (element("p", line) for line in method_lines(found))
    return html.join(html.table([f"against {found.against}", *(group.name for group in others)], rows), *methods)


def _difference(found: Any) -> Html:
    if found is None:
        return html.text("-")
    word = {True: "differs", False: "no difference shown", None: "too few runs to tell"}[found.shown]
    return html.join(element("strong", word) if found.shown else word, element("small", f"p {p_text(found.p_holm)}"))


def _figure(picture: Picture) -> Html:
    png, svg = (picture.stem.with_name(f"{picture.stem.name}.{kind}") for kind in ("png", "svg"))
    small = svg.exists() and svg.stat().st_size <= max(LARGEST_SVG, png.stat().st_size if png.exists() else 0)
    kind, path = ("svg+xml", svg) if small else ("png", png)
    source = f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    image = element("img", src=source, alt=f"{picture.title}. {picture.caption}")
    looks = " ".join(["scroll", *(name for name in ("wide", "low") if getattr(picture, name))])
    frame = element("div", image, class_=looks, tabindex=0 if picture.wide else None)
    return html.join(element("h3", picture.title), element("figure", frame, element("figcaption", picture.caption)))


def verdict(word: str, times: int = 0) -> Html:
    """A verdict, told by colour, sign and word."""
    return element("span", word + (f" ({times})" if times else ""), class_=f"verdict {word}")


def _verdicts(page: Page) -> Html:
    rows: list[list[Content]] = []
    for group, found in zip(page.groups, page.comparison.groups, strict=True):
        rows.append([group.name, "the run", _words(found.verdicts), _reasons(group, None)])
        rows += [["", ", ".join(names), _words(dict(counts)), reasons] for (counts, reasons), names in _promises(group).items()]
    text = (
        "A promise is violated, with a counterexample, or it holds, or is unknown where the run cannot tell. Numbers count runs."
    )
    return html.join(element("p", text), html.table(["", "promise", "verdict", "because"], rows))


def _promises(group: Group) -> dict[tuple[tuple[tuple[str, int], ...], Html], list[str]]:
    """The promises of a group, those together of which the same is to be said."""
    found: dict[tuple[tuple[tuple[str, int], ...], Html], list[str]] = {}
    for guarantee in dict.fromkeys(guarantee for summary in group.summaries for guarantee in summary.checks):
        counts = Counter(str(summary.checks[guarantee].verdict) for summary in group.summaries if guarantee in summary.checks)
        found.setdefault((tuple(counts.items()), _reasons(group, guarantee)), []).append(guarantee.value)
    return found


def _words(counts: dict[str, int]) -> Html:
    return html.join(
        *(verdict(word, times if len(counts) > 1 or times > 1 else 0) for word, times in counts.items()), between=" "
    )


def _reasons(group: Group, guarantee: Guarantee | None) -> Html:
    """Why, and in which runs: of a promise, or of a run, what is not told with one of its promises."""
    told: dict[str, list[str]] = {}
    for run in group.runs:
        checks = run.summary.checks
        of_promises = {check.reason for check in checks.values()}
        of_run = [reason for reason in run.summary.verdict_reasons if reason not in of_promises]
        for reason in of_run if guarantee is None else [checks[guarantee].reason] if guarantee in checks else []:
            told.setdefault(reason, []).append(str(run.summary.seed))
    lines = [
        f"{reason} (seed {', '.join(seeds)})" if len(seeds) < len(group.runs) else reason
        for reason, seeds in told.items()
        if reason
    ]
    more = len(lines) - MOST_REASONS
    return html.join(
        *(element("div", line) for line in lines[:MOST_REASONS]), element("div", f"and {more} more") if more > 0 else None
    )


def _claims(claims: Sequence[Claim]) -> Html | None:
    if not claims:
        return None
    words = {"yes": "holds", "no": "violated", "unknown": "unknown"}
    rows: list[list[Content]] = [
        [
            claim.number,
            claim.text,
            element("span", status_word(claim), class_=f"verdict {words[status_word(claim)]}"),
            claim.figure,
        ]
        for claim in claims
    ]
    return html.table(["", "claim", "holds", "figure"], rows)


def _faults(page: Page) -> Html:
    rows: list[list[Content]] = []
    for group in page.groups:
        run = group.runs[0]
        start_ns = run.history.broadcasts[0].at_ns if run.input.faults and run.history.broadcasts else run.input.run.started_ns
        for number, window in enumerate(windows(run.input.faults, run.input.run.ended_ns)):
            start, end = (window.start_ns - start_ns) / 1e9, (window.end_ns - start_ns) / 1e9
            rows.append(
                ["" if number else group.name, window.label, f"{start:.3f} s", f"{end:.3f} s" if end > start else "at once"]
            )
    if not rows:
        return element("p", "No fault was injected.")
    seeds = any(len(group.runs) > 1 for group in page.groups)
    text = "Seconds since the first broadcast" + ("; of repeats, those of the first." if seeds else ".")
    return html.join(element("p", text), html.table(["", "fault", "from", "until"], rows))


def _parameters(page: Page) -> Html | None:
    rows: list[list[Content]] = []
    seen: dict[tuple[str, str], None] = {}
    for group in page.groups:
        record = group.runs[0].input.run
        told = ", ".join(f"{key} = {value if value != '' else 'none'}" for key, value in record.parameters.items()) or "none"
        if (record.protocol, told) not in seen:
            rows.append([record.protocol, told])
        seen[record.protocol, told] = None
    return html.table(["protocol", "parameters"], rows)


def _machine(page: Page) -> Html:
    records = [run.input.run for run in page.runs]
    facts = {
        "engine": [record.engine for record in records],
        "datapath": [record.datapath for record in records],
        "shaping": [record.shaping for record in records],
        **{
            name: [record.versions.get(name, "-") for record in records]
            for name in dict.fromkeys(n for r in records for n in r.versions)
        },
    }
    return html.table(["", "used"], [[name, ", ".join(dict.fromkeys(values))] for name, values in facts.items()])


def _runs(page: Page, directory: Path) -> Html:
    rows: list[list[Content]] = []
    for group in page.groups:
        for number, run in enumerate(group.runs):
            summary = run.summary
            books = "balanced" if summary.balanced else f"{len(summary.differences)} open"
            links = html.join(*_links(run.directory, directory), between=" · ")
            rows.append(["" if number else group.name, str(summary.seed), verdict(str(summary.verdict)), books, links])
    keys = [key for key in differing(facets(run) for run in page.runs) if "." not in key]
    told = f"The runs differ in {', '.join(keys)}." if keys else "There is nothing in which runs differ."
    return html.join(
        element("p", told) if len(page.runs) > 1 else None, html.table(["", "seed", "verdict", "books", "files"], rows)
    )


def _links(run: Path, directory: Path) -> Iterator[Html]:
    """The way from the page to what a run left behind, as far as it is there."""
    base = os.path.relpath(run.resolve(), directory.resolve())
    for name in ("run.json", "summary.json", "captures", "tables", "events", "plots"):
        if (run / name).exists():
            yield element("a", name, href=quote(f"{base}/{name}" + ("/" if (run / name).is_dir() else "")))
