"""What a person sees while waiting: one moving line on a terminal, plain lines elsewhere; always on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

errors = Console(stderr=True, highlight=False)
output = Console(highlight=False)


class Progress(Protocol):
    """Called when a stage begins, and again with details while it lasts."""

    def __call__(self, stage: str, detail: str = "") -> None:
        """Show where things are."""


@contextmanager
def progress(prefix: str) -> Iterator[Progress]:
    """Show the stages of something that takes a while."""
    if errors.is_terminal:
        with errors.status(prefix) as status:
            yield lambda stage, detail="": status.update(f"{prefix}: {stage} {detail}")
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
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn(show_speed=True))
    rate = TextColumn("{task.fields[rate]} {task.fields[note]}")
    with Bar(*columns, TimeRemainingColumn(), rate, console=errors, disable=not errors.is_terminal) as shown:
        task = shown.add_task(what, total=total, rate="", note="")

        def advance(note: str) -> None:
            speed = shown.tasks[0].speed
            shown.update(task, advance=1, note=note, rate=f"{speed:.0f}/s" if speed else "")

        yield advance
        done = shown.tasks[0]
        if done.elapsed:
            errors.print(f"{what}: {done.completed:.0f} in {done.elapsed:.1f} s, {done.completed / done.elapsed:.0f} a second")
