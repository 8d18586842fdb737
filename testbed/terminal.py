"""What a person sees while waiting: one moving line on a terminal, plain lines elsewhere; always on standard error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console

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
