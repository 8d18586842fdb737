"""What benchmarks have in common: the comparison of a figure with its yardstick, the table, and the exit status."""

import argparse
import json
import os
import signal
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from testbed.errors import CannotRun
from testbed.terminal import errors, output

MET, MISSED, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True)
class Comparison:
    """One figure of Castbed and of the yardstick, measured alternately, and the target ratio."""

    what: str
    unit: str
    ours: Sequence[float]
    yardstick: Sequence[float]
    target: float | None = None
    """The target for the ratio Castbed / yardstick; None for a figure that is only shown."""
    more_is_better: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Median over median."""
        return statistics.median(self.ours) / statistics.median(self.yardstick)

    @property
    def met(self) -> bool | None:
        """Whether the target is met, if there is one."""
        if self.target is None:
            return None
        return self.ratio >= self.target if self.more_is_better else self.ratio <= self.target

    def as_json(self) -> dict[str, Any]:
        """Everything, for machines."""
        return {
            "what": self.what,
            "unit": self.unit,
            "castbed": list(self.ours),
            "yardstick": list(self.yardstick),
            "ratio": self.ratio,
            "target": self.target,
            "met": self.met,
            **self.details,
        }


@dataclass(frozen=True)
class Result:
    """The outcome of one benchmark."""

    title: str
    yardstick: str
    comparisons: Sequence[Comparison]
    notes: Sequence[str] = ()

    @property
    def status(self) -> int:
        """The exit status."""
        return MISSED if any(comparison.met is False for comparison in self.comparisons) else MET

    def show(self, *, as_json: bool) -> None:
        """Print the result, for people or for machines."""
        if as_json:
            rows = [comparison.as_json() for comparison in self.comparisons]
            head = {"benchmark": self.title, "yardstick": self.yardstick, "cores": os.cpu_count()}
            print(json.dumps({**head, "rows": rows, "notes": list(self.notes)}))
            return
        table = Table(title=self.title)
        table.add_column("")
        for heading in ("Castbed", self.yardstick, "ratio", "target", "met"):
            table.add_column(heading, justify="right")
        for comparison in self.comparisons:
            table.add_row(*_cells(comparison))
        output.print(table)
        for note in self.notes:
            output.print(note, soft_wrap=True)


def _cells(comparison: Comparison) -> tuple[str, ...]:
    sign = "at least" if comparison.more_is_better else "at most"
    return (
        comparison.what,
        _median(comparison.ours, comparison.unit),
        _median(comparison.yardstick, comparison.unit),
        f"{comparison.ratio:.3f}",
        "" if comparison.target is None else f"{sign} {comparison.target:.2f}",
        {True: "yes", False: "NO", None: ""}[comparison.met],
    )


def _median(figures: Sequence[float], unit: str) -> str:
    median = statistics.median(figures)
    return f"{median:,.2f} {unit}" if median < 1000 else f"{median:,.0f} {unit}"


def in_turn(number: int, *sides: str) -> tuple[str, ...]:
    """The order of measurement in repetition `number`: each side is first in turn, so that a drift of the load favours none."""
    return sides[::-1] if number % 2 else sides


def cpu_s(pid: int) -> float:
    """The processor time of a process so far."""
    # The name, in parentheses, may contain spaces; user and system time are the 12th and 13th field after it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def positive(text: str) -> int:
    """An argument that is a whole number above zero."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def main(parser: argparse.ArgumentParser, measure: Callable[[argparse.Namespace], Result]) -> int:
    """Read the arguments, measure and report. Returns the exit status."""
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.epilog = "Exit status: 0 every target is met, 1 one is missed, 2 could not run."
    arguments = parser.parse_args()
    # So that a benchmark that is told to end cleans up first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        result = measure(arguments)
    except CannotRun as error:
        errors.print(f"{parser.prog}: {error}", soft_wrap=True, markup=False)
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        errors.print(f"{parser.prog}: interrupted; nothing is left running", soft_wrap=True, markup=False)
        return INTERRUPTED
    result.show(as_json=arguments.json)
    return result.status
