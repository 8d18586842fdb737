"""Output to the user: consoles, and progress on standard error, as a moving line on a terminal and as plain lines elsewhere."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, Protocol

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column, Table
from rich.text import Text

_WIDEST = 100_000


def plain_console(**options: Any) -> Console:
    """A console without markup: names and files come from users, so brackets and colons are shown as they are.

    Text with a style must be a `rich.text.Text`, also in the cells of tables.
    """
    return Console(highlight=False, markup=False, emoji=False, **options)


errors = plain_console(stderr=True)
output = plain_console()


def print_sentence(text: str) -> None:
    """Print a sentence: wrapped between words on a terminal, in one line elsewhere, so that other programs find it whole."""
    output.print(text, soft_wrap=not output.is_terminal)


def print_table(table: Table) -> None:
    """Print a table. Where it does not fit, lines are longer than the terminal is wide, so that no word and no digit is cut."""
    widths = [_widths(column) for column in table.columns]
    columns = len(widths)
    # A box has a line between columns and, with edges, one on either side.
    frame = columns * (table.padding[1] + table.padding[3]) + (columns - 1 + 2 * table.show_edge if table.box else 0)
    if frame + sum(width.maximum for width in widths) > output.width:
        # Each column has room for its longest word, and what is left is shared. A table by itself gives wide columns less than that.
        least = sum(width.minimum for width in widths)
        spare = max(0, output.width - frame - least)
        table.width = frame + least + spare
        by_span = sorted(zip(widths, table.columns, strict=True), key=lambda pair: pair[0].span)
        for left, (width, column) in zip(range(columns, 0, -1), by_span, strict=True):
            share = min(width.span, spare // left)
            column.width, spare = width.minimum + share, spare - share
    output.print(table, crop=False)


def _widths(column: Column) -> Measurement:
    """The width of the longest word of a column, or of all if it is not wrapped, and that of all."""
    unlimited = output.options.update(width=_WIDEST)
    measures = [output.measure(cell, options=unlimited) for cell in (column.header, *column.cells)]
    most = max(column.min_width or 0, *(measure.maximum for measure in measures))
    return Measurement(most if column.no_wrap else max(column.min_width or 0, *(measure.minimum for measure in measures)), most)


def on_end(call: Callable[[], NoReturn]) -> dict[int, Any]:
    """Call `call` on SIGTERM and SIGHUP, unless they are ignored. Returns the former handlers, by signal."""

    def end(*_: object) -> NoReturn:
        _write_nowhere_if_hung_up()
        call()

    # A command that was started with nohup must outlive the terminal.
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, end) for number in numbers}


def _write_nowhere_if_hung_up() -> None:
    """Redirect output to a terminal that is closed to nowhere: writing to it would fail, and keep the command from cleaning up."""
    for stream in (sys.stdout, sys.stderr):
        try:
            os.write(stream.fileno(), b"")
        except OSError:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


class Progress(Protocol):
    """Shows progress: called when a stage begins, and again with details while it lasts."""

    def __call__(self, stage: str, detail: str = "") -> None:
        """Show the stage, and how much of it is done."""


@contextmanager
def progress(prefix: str) -> Iterator[Progress]:
    """Show the stages of a long operation."""
    if errors.is_terminal:
        with errors.status(Text(prefix)) as status:
            yield lambda stage, detail="": status.update(Text(f"{prefix}: {stage} {detail}"))
    else:
        yield _plain(prefix)


def _plain(prefix: str) -> Progress:
    last = ""

    def show(stage: str, detail: str = "") -> None:  # noqa: ARG001 - a line for every detail would fill a file
        nonlocal last
        if stage != last:
            errors.print(f"{prefix}: {stage}", soft_wrap=True)
        last = stage

    return show


@contextmanager
def bar(what: str, total: int, efforts: Sequence[float] = ()) -> Iterator[Callable[[str], None]]:
    """Show how many of `total` are done, the speed and the time left. Call the result, with a note, for each one that is done.

    If some take much longer than others, `efforts` says about how much longer, in the order in which they are done.
    """
    efforts = efforts or (1.0,) * total
    whole = sum(efforts)
    what_column, count_column, note_column = (
        TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[count]}", "{task.fields[note]}")
    )
    columns = (what_column, BarColumn(), count_column, note_column)
    # The speed is averaged over an hour: single runs may take longer than the default of half a minute.
    shown = Bar(*columns, TimeRemainingColumn(), console=errors, disable=not errors.is_terminal, speed_estimate_period=3600)
    with shown:
        task = shown.add_task(what, total=whole, note="", count=f"0/{total}")
        began, number, done = time.monotonic(), 0, 0.0

        def advance(note: str) -> None:
            nonlocal number, done
            before, number, done = done, number + 1, done + efforts[number]
            spent_s = max(1e-6, time.monotonic() - began)
            pace = f"{number / spent_s:.0f}/s" if spent_s < number else f"{spent_s / number:.0f} s each"
            note = f"{pace}, {note}" if note else pace
            shown.update(task, completed=done, note=note, count=f"{number}/{total}")
            if not errors.is_terminal and (10 * done // whole > 10 * before // whole or number == total):
                left = timedelta(seconds=round(max(0.0, whole - done) * spent_s / done))
                errors.print(f"{what}: {number} of {total}, {note}, {left} left", soft_wrap=True)

        yield advance
