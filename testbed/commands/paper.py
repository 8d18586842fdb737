"""The command paper: everything that a paper states, beside what our runs show. Returns the exit status."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
from rich.box import SIMPLE_HEAD
from rich.table import Table

from analysis.crew import Crew
from papers import PAPERS
from papers.findings import WORDS, Findings, findings_of
from papers.page import read_summary, view_of, write_index, write_overview, write_page, write_summary
from papers.paper import Paper
from testbed.commands.paper_runs import Shelf, work_out
from testbed.commands.run import kept_runs_told
from testbed.commands.sweep import analyse_unread, make_left
from testbed.errors import CannotRun
from testbed.ownership import hand_over
from testbed.running import engines, sweep, workers
from testbed.status import HOLDS, status_of
from testbed.terminal import bar, errors, output, print_table, progress

DOCS = Path(__file__).parent.parent.parent / "docs" / "papers"
"""The summaries that come with Castbed."""
ALL = "all"


def command(arguments: Namespace) -> int:
    """Make the pages of papers; without a name, list the papers."""
    out: Path = arguments.out or Path("results", "papers")
    if not arguments.papers:
        return _list(out, as_json=arguments.json)
    shelves = [Shelf(paper, out, arguments.quick) for paper in _chosen(arguments.papers)]
    hand_over(out)
    failed = _make(shelves, out, arguments)
    found = {shelf.paper.name: _conclude(shelf, failed, arguments) for shelf in shelves}
    index = write_index([(paper, found.get(paper.name) or _made(paper, out)) for paper in PAPERS], out)
    if arguments.summaries:
        write_overview(PAPERS, arguments.summaries)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode({"papers": found, "page": str(index)}) + b"\n")
    else:
        for findings in found.values():
            _tell(findings)
        output.print(f"  {index}", soft_wrap=True)
    return status_of(finding.verdict for findings in found.values() for finding in findings.findings)


def _chosen(words: Sequence[str]) -> list[Paper]:
    """The papers that a user named, by name or number."""
    known = {**{paper.name: paper for paper in PAPERS}, **{str(place): paper for place, paper in enumerate(PAPERS, start=1)}}
    if ALL in words:
        return list(PAPERS)
    for word in words:
        if word not in known:
            raise CannotRun(
                f"there is no paper {word!r}: choose from {', '.join(paper.name for paper in PAPERS)}, 1 to 5, or {ALL}"
            )
    return list({known[word].name: known[word] for word in words}.values())


def _made(paper: Paper, out: Path) -> Findings | None:
    return read_summary(out / paper.name / f"{paper.name}.json")


def _list(out: Path, *, as_json: bool) -> int:
    """The papers, with what came of them here, or else in the summaries that come with Castbed."""
    found = {paper.name: _made(paper, out) or read_summary(DOCS / f"{paper.name}.json") for paper in PAPERS}
    counts = {name: findings.count() if findings else dict.fromkeys(WORDS, 0) for name, findings in found.items()}
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(counts) + b"\n")
        return HOLDS
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("", "paper", "title", *WORDS.values()):
        table.add_column(heading, justify="right" if heading in WORDS.values() else "left", no_wrap=heading == "paper")
    for place, paper in enumerate(PAPERS, start=1):
        table.add_row(str(place), paper.name, paper.title, *(str(counts[paper.name][word]) for word in WORDS))
    print_table(table)
    output.print(
        "./castbed paper NAME makes the page of one, ./castbed paper all those of all; with --quick in minutes", soft_wrap=True
    )
    return HOLDS


def _make(shelves: Sequence[Shelf], out: Path, arguments: Namespace) -> list[sweep.Failure]:
    """Make and analyse the runs that are missing, and work out the points of studies. Runs that could not be made are returned."""
    engine = engines.find(arguments.on, out)
    tasks = [task for shelf in shelves for task in shelf.begin(arguments.on)]
    left = [task for task in tasks if not sweep.is_made(task)]
    (out / "failures.jsonl").unlink(missing_ok=True)
    errors.print(f"{len(tasks)} runs, {len(tasks) - len(left)} of them made before; results in {out}", soft_wrap=True)
    crew = Crew(arguments.spark_master)
    if engine.captures:
        crew.begin()
    cluster = crew.session if arguments.spark_master else None
    for shelf in shelves:
        for study in shelf.paper.studies:
            points = [item for item in shelf.points(study) if not item[0].exists()]
            with bar(f"{study.name}: points", len(points)) as advance:
                for _ in workers.spread(partial(work_out, study), points, arguments.jobs, cluster, at_a_time=1):
                    advance("")
    with kept_runs_told([task.output for task in left], out, "repeat the command to make the others"):
        failed = make_left(left, engine, crew, arguments, out)
    analyse_unread([task for task in tasks if sweep.is_made(task)], crew, arguments)
    return failed


def _conclude(shelf: Shelf, failed: Sequence[sweep.Failure], arguments: Namespace) -> Findings:
    """The verdicts on a paper, with its page and summaries."""
    paper = shelf.paper
    words = f"./castbed paper {paper.name}{' --quick' if shelf.quick else ''}"
    place = shelf.out / paper.name
    with progress(paper.name) as show:
        show("reading what runs have shown")
        outcomes = shelf.outcomes(failed)
        show("writing the page")
        findings = findings_of(paper, outcomes, quick=shelf.quick, command=words)
        write_page(view_of(paper, findings, outcomes), place)
    write_summary(paper, findings, place)
    if arguments.summaries:
        hand_over(arguments.summaries)
        write_summary(paper, findings, arguments.summaries)
    return findings


def _tell(findings: Findings) -> None:
    table = Table(title=findings.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("", "statement", "verdict"):
        table.add_column(heading, no_wrap=heading == "verdict")
    for finding in findings.findings:
        table.add_row(finding.name, finding.text, WORDS[finding.verdict])
    print_table(table)
    output.print(", ".join(f"{number} {WORDS[word]}" for word, number in findings.count().items()))
