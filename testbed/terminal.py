"""What a person sees while waiting: one moving line on a terminal, plain lines elsewhere; always on standard error."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text


def plain_console(**options: Any) -> Console:
    """A console that shows every text as it is, since names and files come from users: brackets and colons are no markup.

    What is to have a style is a `rich.text.Text`, also in the cells of tables.
    """
    return Console(highlight=False, markup=False, emoji=False, **options)


errors = plain_console(stderr=True)
output = plain_console()


def on_end(call: Callable[[], NoReturn]) -> dict[int, Any]:
    """Have something called when the system ends us or the terminal is closed; what was called before, by signal."""

    def end(*_: object) -> NoReturn:
        _write_nowhere_if_hung_up()
        call()

    # Whoever started us with nohup wants us to outlive the terminal.
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, end) for number in numbers}


def _write_nowhere_if_hung_up() -> None:
    """To write to a terminal that is gone is an error, and it must not get in the way of cleaning up."""
    for stream in (sys.stdout, sys.stderr):
        try:
            os.write(stream.fileno(), b"")
        except OSError:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


class Progress(Protocol):
    """Called when a stage begins, and again with details while it lasts."""

    def __call__(self, stage: str, detail: str = "") -> None:
        """Show where things are."""


@contextmanager
def progress(prefix: str) -> Iterator[Progress]:
    """Show the stages of something that takes a while."""
    if errors.is_terminal:
        with errors.status(Text(prefix)) as status:
            yield lambda stage, detail="": status.update(Text(f"{prefix}: {stage} {detail}"))
    else:
        yield _plain(prefix)


def _plain(prefix: str) -> Progress:
    last = ""

    def show(stage: str, detail: str = "") -> None:  # noqa: ARG001 - a file wants no line for every detail
        nonlocal last
        if stage != last:
            errors.print(f"{prefix}: {stage}", soft_wrap=True)
        last = stage

    return show


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show how many of `total` are done, how fast, and for how long yet; called with a note for each that is."""
    what_column, note_column = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[note]}"))
    columns = (what_column, BarColumn(), MofNCompleteColumn(), note_column)
    # A speed is that of an hour: some things take longer each than the half minute that would be looked back upon.
    shown = Bar(*columns, TimeRemainingColumn(), console=errors, disable=not errors.is_terminal, speed_estimate_period=3600)
    with shown:
        task, began, done = shown.add_task(what, total=total, note=""), time.monotonic(), 0

        def advance(note: str) -> None:
            nonlocal done
            done += 1
            each_s = max(1e-6, time.monotonic() - began) / done
            pace = f"{1 / each_s:.0f}/s" if each_s < 1 else f"{each_s:.0f} s each"
            note = f"{pace}, {note}" if note else pace
            shown.update(task, advance=1, note=note)
            if not errors.is_terminal and 10 * done // total > 10 * (done - 1) // total:
                left = timedelta(seconds=round((total - done) * each_s))
                errors.print(f"{what}: {done} of {total}, {note}, {left} left", soft_wrap=True)

        yield advance
