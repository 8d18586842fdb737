"""What the page of a report shows, as plain data: `report.py` makes it, and `report.html.j2` lays it out.

Every string is plain text; the template escapes it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Highlight:
    """A figure at the top of the page: its value, the groups that have it, and a remark, such as the confidence interval."""

    title: str
    value: str
    groups: str
    remark: str


@dataclass(frozen=True)
class Image:
    """A picture, as a `data:` address, with its title and caption."""

    source: str
    title: str
    caption: str
    wide: bool
    """Whether a narrow screen shows the picture at its full width and scrolls it."""
    low: bool
    """Whether the picture is scaled down to fit on one screen."""


@dataclass(frozen=True)
class ScenarioText:
    """A scenario and the sentence that describes it; the sentence may be empty."""

    name: str
    about: str


@dataclass(frozen=True)
class NetworkRow:
    """A network in numbers."""

    name: str
    hosts: int
    clusters: int
    lower_bound: int
    switches: int
    links: int
    expensive_links: int
    limits: str


@dataclass(frozen=True)
class NamedValue:
    """A row of two columns, such as a setting and its value."""

    name: str
    value: str


@dataclass(frozen=True)
class Cell:
    """A cell of a grid: its text, and a smaller line beneath the text, which may be empty."""

    text: str
    small: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a grid: its name, and one cell for each further column."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Grid:
    """A table whose columns depend on the runs. The first column holds the names of the rows."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Differences:
    """Whether groups differ from the group they are compared with, figure by figure; and how that was tested, or why it was not."""

    table: Grid | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class VerdictMark:
    """A verdict: its CSS class, and its words."""

    style: str
    text: str


@dataclass(frozen=True)
class VerdictRow:
    """What the runs of a group say of a promise, from how many cases, or of the run as a whole.

    The group is empty where it is that of the row above.
    """

    group: str
    promise: str
    verdicts: tuple[VerdictMark, ...]
    cases: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class ClaimRow:
    """A claim of the scenario and the figure that shows whether it holds."""

    number: str
    text: str
    verdict: VerdictMark
    figure: str


@dataclass(frozen=True)
class FaultRow:
    """A fault and its times. The group is empty where it is that of the row above."""

    group: str
    fault: str
    start: str
    end: str


@dataclass(frozen=True)
class HealingRow:
    """A fault or repair, and how long it was felt. The group is empty where it is that of the row above."""

    group: str
    at: str
    what: str
    caught_up: str
    stands: str


@dataclass(frozen=True)
class FileLink:
    """A file of a run, and its address relative to the page."""

    name: str
    address: str


@dataclass(frozen=True)
class RunRow:
    """One run and its files. The group is empty where it is that of the row above."""

    group: str
    seed: int
    verdict: VerdictMark
    books: str
    files: tuple[FileLink, ...]


@dataclass(frozen=True)
class ReportView:
    """Everything on the page, from top to bottom. Parts that are empty are left out."""

    title: str
    groups: int
    real_runs: int
    simulated_runs: int
    verdict: tuple[VerdictMark, ...]
    """What all promises of all runs come to."""
    highlights: tuple[Highlight, ...]
    scenarios: tuple[ScenarioText, ...]
    network_images: tuple[Image, ...]
    networks: tuple[NetworkRow, ...]
    settings: tuple[NamedValue, ...]
    has_intervals: bool
    figure_tables: tuple[Grid, ...]
    figure_methods: tuple[str, ...]
    figure_notes: tuple[str, ...]
    differences: Differences | None
    images: tuple[Image, ...]
    verdicts: tuple[VerdictRow, ...]
    claims: tuple[ClaimRow, ...]
    has_repeats: bool
    faults: tuple[FaultRow, ...]
    healings: tuple[HealingRow, ...]
    parameters: tuple[NamedValue, ...]
    machine: tuple[NamedValue, ...]
    differing_keys: str
    runs: tuple[RunRow, ...]
