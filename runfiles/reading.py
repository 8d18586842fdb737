"""What the analysis knows of a run before it opens a capture: the run record, the network, the counters and the faults."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from runfiles.errors import ResultsError
from runfiles.format import Counters, FaultRecord, RunRecord
from topologies.files import load as load_network
from topologies.network import Network, NetworkError

T = TypeVar("T")


@dataclass(frozen=True)
class RunInput:
    """One run directory, its small files read and validated."""

    directory: Path
    run: RunRecord
    network: Network
    counters: Counters
    faults: tuple[FaultRecord, ...]


def runs_in(places: Iterable[Path]) -> list[Path]:
    """The runs that a user means: run directories, or directories that hold some. What a command drew beside them is passed over.

    A run that is named twice is one run, and one that a sweep has not finished is none.
    """
    found: dict[Path, Path] = {}
    for place in places:
        inside = [place] if (place / "run.json").exists() else sorted(record.parent for record in place.rglob("[!.]*/run.json"))
        if not inside and place.name != "plots":
            raise ResultsError(f"{place} is not a finished run, and holds none: give the directory of a run, or of several")
        for run in inside:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def load(directory: Path) -> RunInput:
    """Read a run directory, or say in one sentence what is wrong with it."""
    try:
        return RunInput(
            directory=directory,
            run=_decode(directory / "run.json", RunRecord),
            network=load_network(directory / "network.json"),
            counters=_decode(directory / "counters.json", Counters),
            faults=_faults(directory / "faults.jsonl"),
        )
    except NetworkError as error:
        raise ResultsError(f"{directory} is not a readable run: {error}") from error


def _decode(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise ResultsError(f"{path.parent} is not a finished run: {path.name} cannot be read ({error.strerror})") from error
    except msgspec.MsgspecError as error:
        raise ResultsError(f"{path} is not what a run writes: {error}") from error


def _faults(path: Path) -> tuple[FaultRecord, ...]:
    """The injected faults. A run without faults may leave no file."""
    if not path.exists():
        return ()
    try:
        return tuple(msgspec.json.Decoder(FaultRecord).decode_lines(path.read_bytes()))
    except msgspec.MsgspecError as error:
        raise ResultsError(f"{path} is not what a run writes: {error}") from error
