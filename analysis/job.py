"""The whole analysis, as the command line calls it: reads run directories, writes tables, summaries and plots.

All runs are analysed together, so the number of Spark jobs does not grow with the number of runs.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analysis.books import GUEST, CaptureReport, Fates, Forks, LinkCost, balance, merged
from analysis.crew import Crew
from analysis.figures.claims import Sweep
from analysis.figures.summary import Summary, summarise, write_summary
from analysis.judging.history import History
from analysis.judging.history import make as make_history
from analysis.pictures import plots
from analysis.pictures.of_run import run_figures
from analysis.tables import deliveries as tables
from analysis.tables import place
from analysis.tables.guests import guest_packets
from analysis.tables.journeys import count_journeys
from analysis.tables.scan import packets_table, scan_events, scan_packets
from analysis.tables.small import small_tables
from analysis.tables.transits import transits
from runfiles.errors import ResultsError
from runfiles.reading import RunInput, load

Progress = Callable[[str], None]


def analyse(
    directories: Sequence[Path], crew: Crew, progress: Progress = lambda _: None, *, drawing: bool = True
) -> list[Summary]:
    """Analyse runs: write `tables/`, `summary.json` and, if `drawing`, `plots/` into each directory. Returns the summaries in order."""
    runs = [load(directory) for directory in directories]
    if not runs:
        return []
    try:
        histories, summaries = _summaries(crew, runs, progress)
        if drawing:
            progress("drawing")
            for run, history, summary in zip(runs, histories, summaries, strict=True):
                plots.save(((name, make()) for name, make in run_figures(run, history, summary)), run.directory / "plots")
        # A run counts as analysed if it has a summary, so the summary is written last.
        for run, summary in zip(runs, summaries, strict=True):
            place.publish(run.directory)
            write_summary(summary, run.directory)
    except OSError as error:
        raise ResultsError(f"the results of the analysis cannot be written: {error}") from error
    finally:
        for run in runs:
            place.discard(run.directory)
    return summaries


def compare(groups: plots.Groups, directory: Path) -> list[Path]:
    """Draw the plots that compare groups of repeats; returns the files written."""
    try:
        figures = (("cost", plots.cost_figure(groups)), ("delays", plots.delay_figure(groups)))
        return plots.save(figures, directory)
    except OSError as error:
        raise ResultsError(f"plots cannot be written to {directory}: {error.strerror}") from error


def draw(sweeps: Sequence[Sweep], directory: Path) -> list[Path]:
    """Draw the plots of sweeps; returns the files written."""
    names = ["sweep", *(f"sweep-{number}" for number in range(2, len(sweeps) + 1))]
    try:
        return plots.save([(name, plots.sweep_figure(sweep)) for name, sweep in zip(names, sweeps, strict=False)], directory)
    except OSError as error:
        raise ResultsError(f"plots cannot be written to {directory}: {error.strerror}") from error


def _summaries(crew: Crew, runs: Sequence[RunInput], progress: Progress) -> tuple[list[History], list[Summary]]:
    # Meanwhile the event logs are read.
    crew.begin_for(runs)
    progress("reading event logs")
    events = scan_events(crew, runs)
    deliveries = _of_runs(tables.deliveries(events.filter(events["report"].is_null())), runs)
    logs = _of_runs(events, runs)
    progress("reading packets")
    reports, link_costs = (_of_runs(table, runs) for table in scan_packets(crew, runs))
    progress("counting packets")
    journeys, message_costs, forks = (_of_runs(table, runs) for table in count_journeys(crew, runs))
    progress("measuring delays")
    histories = [_history(run, logged) for run, logged in zip(runs, logs, strict=True)]
    progress("writing tables")
    summaries = []
    parts = zip(reports, link_costs, message_costs, journeys, forks, histories, deliveries, strict=True)
    for run, of_run in zip(runs, itertools.starmap(Measured, parts), strict=True):
        summary = _summary(run, of_run)
        summaries.append(summary)
        large = {"deliveries": of_run.deliveries, "link_costs": of_run.link_costs, "message_costs": of_run.message_costs}
        for name, table in (large | dict(small_tables(run, of_run.history, of_run.deliveries, summary))).items():
            tables.write(table, run.directory, name)
    return histories, summaries


class Measured(NamedTuple):
    """What was read of one run: small tables and a history."""

    reports: pa.Table
    link_costs: pa.Table
    message_costs: pa.Table
    journeys: pa.Table
    forks: pa.Table
    history: History
    deliveries: pa.Table


def _of_runs(collected: pa.Table, runs: Sequence[RunInput]) -> list[pa.Table]:
    """A small table split by run."""
    return [collected.filter(pc.equal(collected["run"], number)).drop_columns("run") for number in range(len(runs))]


_LOGGED = ("host", "position", "at_ns", "event", "origin", "sequence")


def _history(run: RunInput, events: pa.Table) -> History:
    """The history of a run from the table of its events, which has a report for each damaged log."""
    rows = events.sort_by([("host", "ascending"), ("position", "ascending")]).to_pylist()
    reports = (row["report"] for row in rows if row["report"] is not None)
    happened = (
        (*(row[name] for name in _LOGGED), msgspec.json.decode(row["details"] or "{}")) for row in rows if row["report"] is None
    )
    history = make_history(run.network.hosts, happened, run.run.ended_ns, (*run.run.problems, *reports))
    if not run.run.promise.needs_transits:
        return history
    return history._replace(transits=transits(run, packets_table(run.directory), history.requests))


def _summary(run: RunInput, measured: Measured) -> Summary:
    """The summary of a run. Tables become types here; everything after that is pure functions."""
    reports = merged(msgspec.json.decode(report, type=CaptureReport) for report in measured.reports["report"].to_pylist())
    costs = msgspec.convert(measured.link_costs.to_pylist(), list[LinkCost])
    fates = msgspec.convert(measured.journeys.to_pylist(), list[Fates])
    forks = msgspec.convert(measured.forks.to_pylist(), list[Forks])
    by_purpose, crossings, wrong_bits = Counter[str](), Counter[str](), 0
    if run.run.guest:
        by_purpose[GUEST], crossings[GUEST], wrong_bits = guest_packets(run)
    books = balance(run, costs, fates, reports, forks, wrong_bits)
    for row in measured.message_costs.to_pylist():
        by_purpose[row["purpose"]] += row["packets"]
        crossings[row["purpose"]] += row["crossings"]
    return summarise(
        run,
        measured.history,
        books,
        measured.deliveries,
        reports=reports,
        link_costs=costs,
        expensive_packets=by_purpose,
        crossings=crossings,
    )
