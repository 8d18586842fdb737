"""Tables of a paper beside the same tables from our runs: what a cell states, what its formula gives, and what the runs show."""

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from analysis.figures.statistics import Estimate, estimate


class Entry(msgspec.Struct, frozen=True):
    """A cell: what the paper states, as text, and what a run shows; a number, or a word such as an order that holds."""

    stated: str
    measured: float | str
    expected: float | None = None
    """What the statement gives for the parameters of the runs, if it is a formula or a number."""
    agrees: bool | None = None
    """Whether they agree, for words; numbers are compared by their difference."""


class Table(msgspec.Struct, frozen=True):
    """A table of a paper, by row and column."""

    name: str
    """As the paper calls it, such as `Table 4.1`."""
    title: str
    rows: dict[str, dict[str, Entry]]


class ComparedEntry(msgspec.Struct, frozen=True):
    """A cell over repeats. The interval of `measured` is empty with a single run; a word has no interval."""

    stated: str
    expected: float | None
    measured: Estimate | None
    word: str = ""
    agrees: bool | None = None


class ComparedTable(msgspec.Struct, frozen=True):
    """A table over repeats."""

    name: str
    title: str
    rows: dict[str, dict[str, ComparedEntry]]


def compare_tables(by_seed: Sequence[Iterable[Table]]) -> list[ComparedTable]:
    """The tables of runs that differ in the seed only, as one. Cells that not every seed has are left out."""
    seeds = [{table.name: table for table in tables} for tables in by_seed]
    return [
        ComparedTable(
            name,
            first.title,
            {
                row: {
                    column: _together([table[name].rows[row][column] for table in seeds])
                    for column in columns
                    if all(column in table[name].rows.get(row, {}) for table in seeds)
                }
                for row, columns in first.rows.items()
            },
        )
        for name, first in (seeds[0] if seeds else {}).items()
        if all(name in table for table in seeds)
    ]


def _together(entries: Sequence[Entry]) -> ComparedEntry:
    numbers = [entry.measured for entry in entries if not isinstance(entry.measured, str)]
    words = [entry.measured for entry in entries if isinstance(entry.measured, str)]
    expected = [entry.expected for entry in entries if entry.expected is not None]
    agree = [entry.agrees for entry in entries if entry.agrees is not None]
    return ComparedEntry(
        entries[0].stated,
        median(expected) if expected else None,
        estimate(numbers) if numbers and not words else None,
        " / ".join(dict.fromkeys(words)),
        all(agree) if agree else None,
    )
