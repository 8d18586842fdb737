"""The commands runs and open: what has been made, and its pages. Both return the exit status."""

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from pathlib import Path

import msgspec
from rich.padding import Padding
from rich.table import Table

from analysis.pages.terminal_tables import Name
from runfiles.errors import ResultsError
from runfiles.format import BESIDE_RUNS, RUN_FILES, RunRecord
from runfiles.reading import runs_in
from runfiles.versions import decode_file
from testbed.commands.sharing import opened
from testbed.errors import CannotRun
from testbed.status import HOLDS
from testbed.terminal import errors, output, print_table

RESULTS = Path("results")
PAGE = "report.html"
# What a sweep and a command write beside runs; a directory that holds nothing else is removed with its last run.
_BESIDE = BESIDE_RUNS | {"sweep.json", "failures.jsonl", "comparison.json", "comparison.csv"}


class Listed(msgspec.Struct, frozen=True):
    """A run in the list: where it is, what it is, and its verdict; that is `none` for a run that is not analysed."""

    directory: str
    scenario: str
    label: str
    protocol: str
    engine: str
    seed: int
    made: str
    seconds: float
    verdict: str
    settings: dict[str, str]


class _Verdict(msgspec.Struct, frozen=True):
    """What the list reads of a summary."""

    verdict: str


def runs(arguments: Namespace) -> int:
    """List runs, only those that were asked for, and remove them if that was asked for."""
    places = arguments.places or [RESULTS]
    if not arguments.places and not RESULTS.exists():
        raise CannotRun(
            "there are no runs: results does not exist; ./castbed run makes some, and ./castbed runs DIR lists others"
        )
    found = [listed for listed in _listed(places) if _is_asked_for(listed, arguments)]
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    elif found:
        _print(found)
    if arguments.remove:
        _remove([Path(listed.directory) for listed in found], really=arguments.yes)
    elif not arguments.json:
        output.print(_counted(found))
    return HOLDS


def _listed(places: Iterable[Path]) -> Iterator[Listed]:
    for directory in runs_in(places):
        path = directory / "run.json"
        try:
            record = decode_file(path.read_bytes(), RunRecord, path)
        except (OSError, msgspec.MsgspecError, ResultsError) as error:
            errors.print(f"castbed: {directory} is left out, as it cannot be read: {error}", soft_wrap=True)
            continue
        # Virtual time has no date: its runs were made when their record was written.
        made = datetime.fromtimestamp(path.stat().st_mtime)  # noqa: DTZ006 - the user's own clock
        yield Listed(
            directory=str(directory),
            scenario=record.scenario,
            label=record.label or record.protocol,
            protocol=record.protocol,
            engine=record.engine,
            seed=record.seed,
            made=f"{made:%Y-%m-%d %H:%M}",
            seconds=round((record.ended_ns - record.started_ns) / 1e9, 3),
            verdict=_verdict(directory / "summary.json"),
            settings={
                **{key: str(value) for key, value in record.settings.items()},
                **{f"{record.protocol}.{key}": str(value) for key, value in record.parameters.items()},
            },
        )


def _verdict(path: Path) -> str:
    with suppress(OSError, msgspec.MsgspecError, ResultsError):
        return decode_file(path.read_bytes(), _Verdict, path).verdict
    return "none"


def _is_asked_for(listed: Listed, arguments: Namespace) -> bool:
    asked = {name: getattr(arguments, name) for name in ("scenario", "protocol", "verdict")} | {"engine": arguments.on}
    for pair in arguments.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CannotRun(f"--set {pair} has no value: write --set key=value")
        if listed.settings.get(key) != value:
            return False
    return all(value in {"", getattr(listed, name)} for name, value in asked.items())


def _print(found: Sequence[Listed]) -> None:
    """Each directory in a line of its own, so that it can be copied, and beneath it a row for each of its runs."""
    widest = {name: max(len(getattr(run, name)) for run in found) for name in ("protocol", "engine", "verdict")}
    longest = max(len(Path(run.directory).name) for run in found)
    for parent, some in groupby(found, lambda run: str(Path(run.directory).parent)):
        output.print(f"{parent}/", style="bold", soft_wrap=True)
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
        # The same widths in every directory, if there is room.
        table.add_column(min_width=min(longest, 20) + 2)
        table.add_column(min_width=widest["protocol"])
        for name in ("engine", "seed", "made", "verdict"):
            table.add_column(min_width=widest.get(name, 0), no_wrap=True, justify="right" if name == "seed" else "left")
        for run in some:
            cells = run.engine, f"seed {run.seed}", run.made, run.verdict
            table.add_row(Padding(Name(Path(run.directory).name), (0, 0, 0, 2)), Name(run.protocol), *cells)
        print_table(table)


def _counted(runs: Sequence[object]) -> str:
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}"


def _remove(directories: list[Path], *, really: bool) -> None:
    """Remove runs: their own files only, and directories that hold nothing else."""
    if not really:
        output.print(f"{_counted(directories)} would be removed: repeat the command with --yes")
        return
    for directory in directories:
        for name in RUN_FILES | {"claims.json"}:
            _remove_file(directory / name)
        left = sorted(path.name for path in directory.iterdir())
        if left:
            errors.print(f"castbed: {directory} is kept, as it has other files: {', '.join(left)}", soft_wrap=True)
            continue
        directory.rmdir()
        _remove_empty(directory.parent)
    output.print(f"removed {_counted(directories)}")


def _remove_empty(directory: Path) -> None:
    """Remove a directory, and those above it, that hold only what is written beside runs; never one that is a link or the working one."""
    while directory.name and not directory.is_symlink() and directory.resolve() not in {Path.cwd(), *Path.cwd().parents}:
        names = {path.name for path in directory.iterdir()}
        # An empty directory for results stays where it is the user's own: results itself has no files beside runs.
        if not names <= _BESIDE or (directory == RESULTS):
            return
        for name in names:
            _remove_file(directory / name)
        directory.rmdir()
        directory = directory.parent


def _remove_file(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def open_page(arguments: Namespace) -> int:
    """Open a page in the user's browser; its path is printed in any case."""
    page = _page(opened(arguments.run)) if arguments.run else _newest(RESULTS)
    output.print(page.resolve(), soft_wrap=True)
    if opener := _opener():
        subprocess.Popen(
            [opener, page.resolve().as_uri()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
    return HOLDS


def _page(place: Path) -> Path:
    """The page of a run: in its directory, or beside it, where the runs of a scenario are compared."""
    for directory in (place, place.parent, place.parent.parent):
        if (directory / PAGE).is_file():
            return directory / PAGE
    raise CannotRun(f"{place} has no {PAGE}: ./castbed analyse {place} writes it")


def _newest(results: Path) -> Path:
    pages = sorted(results.glob(f"**/{PAGE}"), key=lambda page: page.stat().st_mtime)
    if not pages:
        raise CannotRun(f"there is no page in {results}: ./castbed run and ./castbed compare write one")
    return pages[-1]


def _opener() -> str | None:
    """The program that opens a page; none without a screen, and none for root, who should not run a browser."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return shutil.which("xdg-open") if has_screen and os.geteuid() != 0 else None
