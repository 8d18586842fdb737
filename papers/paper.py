"""A paper as data: its scenarios, what it states in claims, tables and graphs, where each statement is put to the test, and its slips.

Nothing here is a result. A statement names the claims of scenarios, or of a study, that decide it; `findings.py` looks them up in the runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.figures.claims import Claim, Sweep


@dataclass(frozen=True)
class Experiment:
    """A scenario that belongs to a paper, and how its runs are made for the page."""

    scenario: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """Keys of the scenario, on both engines."""
    simulated: Mapping[str, str] = field(default_factory=dict)
    """Further keys in virtual time, such as delays, which not every kernel can do."""
    emulated: Mapping[str, str] = field(default_factory=dict)
    """Further keys with real packets, such as fewer hosts."""
    quick: Mapping[str, str] = field(default_factory=dict)
    """Further keys for a first look: smaller runs in which the claims are still put to the test."""
    pack_ms: float | None = 0.0
    """None where packets are counted one for one."""
    repeat: int = 1
    """Seeds in full; a first look has one."""
    on_mininet: bool = True
    """Whether real packets can show it: not where there are too many hosts, or times that only a quiet network has."""

    def keys(self, engine: str, *, quick: bool) -> dict[str, str]:
        """The keys that are set in a run."""
        of_engine = self.simulated if engine == "simulator" else self.emulated
        return {**self.settings, **(self.quick if quick else {}), **of_engine}


@dataclass(frozen=True)
class By:
    """The claims that decide a statement: those of a scenario or study with this number, and with this in their text."""

    source: str
    number: str = ""
    text: str = ""
    but_not: str = ""
    """What their text must not have."""
    refutes: bool = False
    """Whether these claims say the opposite of the paper, so that a yes refutes it."""

    def picks(self, claim: Claim) -> bool:
        """Whether a claim of the source is one of them."""
        numbered = not self.number or claim.number == self.number
        return numbered and self.text in claim.text and not (self.but_not and self.but_not in claim.text)


@dataclass(frozen=True)
class Statement:
    """What a paper says."""

    name: str
    """Its number or a word for it."""
    text: str
    by: tuple[By, ...]
    where: str = ""
    """The section."""
    why: str = ""
    """If it is refuted: why, so that a reader of the paper can check it."""
    note: str = ""
    """What to know beside the verdict, such as in what ours differs from the paper's."""


@dataclass(frozen=True)
class StatedTable:
    """A table of the paper, which a scenario makes again under the same name."""

    source: str
    says: Statement


@dataclass(frozen=True)
class StatedGraph:
    """A graph of the paper, which a scenario or study draws again."""

    source: str
    drawn: str
    """The name of the sweep, or of several such as `Figure 3, N = 10`; empty if the scenario draws only this."""
    says: Statement
    note: str = ""
    """In what the axes or parameters differ from the paper's, and why."""

    def is_of(self, sweep: Sweep) -> bool:
        """Whether a sweep of the source is of this graph."""
        return not self.drawn or sweep.name == self.drawn or sweep.name.startswith(f"{self.drawn},")


@dataclass(frozen=True)
class Slip:
    """A slip of the text, or a place where it is silent, and what was decided."""

    where: str
    text: str
    decision: str


@dataclass(frozen=True)
class Study:
    """An experiment without a network: many points, each worked out by itself, in worker processes or on a cluster."""

    name: str
    about: str
    points: Callable[[bool], Sequence[Any]]
    """The points, fewer or coarser ones for a first look."""
    work: Callable[[Any], Any]
    """The result of a point."""
    result: type
    """Its type, which can be written as JSON and read again."""
    conclude: Callable[[Sequence[Any]], tuple[list[Claim], list[Sweep]]]


@dataclass(frozen=True)
class Paper:
    """A paper."""

    name: str
    """What a user types."""
    title: str
    authors: str
    about: str
    """What it is about, in a sentence or two."""
    experiments: tuple[Experiment, ...]
    claims: tuple[Statement, ...]
    tables: tuple[StatedTable, ...] = ()
    graphs: tuple[StatedGraph, ...] = ()
    slips: tuple[Slip, ...] = ()
    studies: tuple[Study, ...] = ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Everything that gets a verdict: claims, tables and graphs."""
        return (*self.claims, *(table.says for table in self.tables), *(graph.says for graph in self.graphs))
