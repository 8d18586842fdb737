"""The command compare: compares groups of runs on the terminal, in plots and on a page. Returns the exit status."""

import csv
import io
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from analysis.crew import Crew
from analysis.figures.claims import Claim, MeasuredRun, read_claims, status_word
from analysis.figures.comparison import Comparison, compared, comparison_rows, difference_lines, interval_lines, method_lines
from analysis.figures.hints import hints
from analysis.figures.repeats import Group, grouped
from analysis.figures.summary import read_summary
from analysis.pages.terminal_tables import claims_table, comparison_tables
from runfiles.format import write, write_whole
from runfiles.reading import load, runs_in
from scenarios import catalogue
from testbed.commands.sharing import opened
from testbed.ownership import hand_over
from testbed.status import status_of
from testbed.terminal import errors, output, print_sentence, print_table, progress


def compare(arguments: Namespace) -> int:
    """Compare runs that exist; runs that are not analysed yet are analysed first. Needs no root."""
    places = [opened(place) for place in arguments.runs]
    directories = runs_in(places)
    out = arguments.out or Path("results", f"compare-{datetime.now():%Y%m%d-%H%M%S}")  # noqa: DTZ005 - the user's own clock
    hand_over(*directories, out)
    runs = measured(directories, arguments.spark_master)
    groups = grouped(runs, arguments.by)
    found = compared(groups, arguments.by, arguments.against)
    claims, path = draw(groups, found, places, out, arguments.message)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode({"comparison": found, "claims": claims, "report": str(path)}) + b"\n")
    else:
        tell(found, runs, claims, path)
    return status_of((*(run.summary.verdict for run in runs), *map(status_word, claims)))


def draw(
    groups: Sequence[Group], found: Comparison, places: Sequence[Path], out: Path, message: str | None = None
) -> tuple[list[Claim], Path]:
    """Draw the plots and write the page. Returns the claims that were recorded with the runs, and the path of the page."""
    runs = [run for group in groups for run in group.runs]
    with progress("compare") as show:
        # Only now: matplotlib takes long to import.
        from analysis.pages import gallery, report  # noqa: PLC0415 - imports matplotlib
        from analysis.pictures.space_time import parse_message  # noqa: PLC0415 - imports matplotlib

        chosen = parse_message(message) if message else None
        pictures = gallery.compare(groups, found, out / "plots", chosen, show)
        claims = read_claims([*places, *(run.directory for run in runs)])
        networks = gallery.networks(runs, out / "plots")
        page = report.Page(groups, found, pictures, networks, claims, about(runs))
        path = report.write(page, out)
        _save_numbers(found, out)
        return claims, path


def _save_numbers(found: Comparison, out: Path) -> None:
    """Write a comparison as `comparison.json` and `comparison.csv`."""
    write(out / "comparison.json", found)
    rows = list(comparison_rows(found))
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]) if rows else ["group"])
    table.writeheader()
    table.writerows(rows)
    write_whole(out / "comparison.csv", text.getvalue().encode())


def tell(found: Comparison, runs: Sequence[MeasuredRun], claims: Sequence[Claim], path: Path) -> None:
    """Print a comparison of runs on the terminal."""
    for table in comparison_tables(found):
        print_table(table)
    for line in (*interval_lines(found), *difference_lines(found), *method_lines(found), *found.notes, *_hints(runs)):
        print_sentence(line)
    if claims:
        print_table(claims_table(claims))
    for written in (*(path.with_name(f"comparison.{kind}") for kind in ("json", "csv")), path):
        output.print(f"  {written}", soft_wrap=True)


def _hints(runs: Sequence[MeasuredRun]) -> list[str]:
    return hints((run.input, run.summary.checks) for run in runs)


def about(runs: Sequence[MeasuredRun]) -> dict[str, str]:
    """The summaries of the scenarios of runs, for scenarios that come with Castbed."""
    known = catalogue.names()
    return {name: catalogue.find(name).summary for name in {run.input.run.scenario for run in runs} if name in known}


def measured(directories: Sequence[Path], master: str | None) -> list[MeasuredRun]:
    """Runs with their figures. Those that are not analysed yet are analysed first."""
    inputs = {directory: load(directory) for directory in directories}
    if missing := [directory for directory in directories if not _is_analysed(directory)]:
        errors.print(f"{len(missing)} of {len(directories)} runs are not analysed yet", soft_wrap=True)
        with progress("analysis") as show:
            from analysis import job  # noqa: PLC0415 - slow to import

            job.analyse(missing, Crew(master), show)
    return [MeasuredRun(run, read_summary(directory)) for directory, run in inputs.items()]


def _is_analysed(directory: Path) -> bool:
    """Whether a run has the summary and the tables that a comparison reads, in the current format."""
    try:
        read_summary(directory)
    except (OSError, msgspec.MsgspecError):
        return False
    return all((directory / "tables" / f"{name}.parquet").exists() for name in ("packets", "deliveries"))
