"""Reads the small files of a run: the run record, the network, the counters, the faults and the groups."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec

from runfiles.errors import ResultsError
from runfiles.format import TREE, Counters, CountersFile, FaultRecord, GroupRecord, GroupsFile, RunRecord
from runfiles.versions import decode_file, format_of, refuse_newer
from topologies.files import load as load_network
from topologies.network import MOST_GROUPS, Network, NetworkError

T = TypeVar("T")


@dataclass(frozen=True)
class RunInput:
    """One run directory, with its small files read and validated."""

    directory: Path
    run: RunRecord
    network: Network
    counters: Counters
    faults: tuple[FaultRecord, ...]
    groups: tuple[GroupRecord, ...] = ()

    @property
    def has_captures(self) -> bool:
        """Whether packets were captured; in virtual time every crossing of a link is written down instead."""
        return self.run.engine != "simulator"

    @property
    def members(self) -> Mapping[int, tuple[str, ...]]:
        """The members of each group at the start of the run by its number, in the order of the network's hosts. Group 0 is everybody."""
        hosts = self.network.hosts
        named = {
            number: tuple(host for host in hosts if host in group.members) for number, group in enumerate(self.groups, start=1)
        }
        return {0: hosts, **named}


def runs_in(places: Iterable[Path]) -> list[Path]:
    """The runs in these places: run directories, or directories that contain some. A folder `plots` beside runs is ignored.

    A run that is named twice appears once; a run that a sweep has not finished does not appear.
    """
    found: dict[Path, Path] = {}
    for place in places:
        inside = [place] if (place / "run.json").exists() else sorted(record.parent for record in place.rglob("[!.]*/run.json"))
        if not inside and place.name != "plots":
            raise ResultsError(f"{place} is not a finished run and contains none: give the directory of a run, or of several")
        for run in inside:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def load(directory: Path) -> RunInput:
    """Read a run directory, or say in one sentence what is wrong with it."""
    _refuse_links_that_lead_out(directory)
    try:
        found = RunInput(
            directory=directory,
            run=_decode(directory / "run.json", RunRecord),
            network=_network(directory / "network.json"),
            counters=_counters(directory / "counters.json"),
            faults=_faults(directory / "faults.jsonl"),
            groups=_groups(directory / "scenario.json"),
        )
    except NetworkError as error:
        raise ResultsError(f"{directory} is not a readable run: {error}") from error
    _refuse_captures_elsewhere(found)
    _refuse_strange_members(found)
    return found


def _refuse_links_that_lead_out(directory: Path) -> None:
    """Refuse a run with a symbolic link that leads out of it: the author of the run could make Castbed read any file."""
    home = directory.resolve()
    for folder, folders, files in os.walk(home):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_symlink() and not path.resolve().is_relative_to(home):
                link = path.relative_to(home)
                raise ResultsError(f"{directory}: {link} is a link to a file outside the run: put the file itself there")


def _refuse_captures_elsewhere(run: RunInput) -> None:
    """Refuse a run record that names files outside captures/ as captures."""
    for capture in run.run.captures:
        name = PurePosixPath(capture.file)
        if name.is_absolute() or ".." in name.parts or name.parts[:1] != ("captures",):
            raise ResultsError(
                f"{run.directory / 'run.json'} names {capture.file!r} as a capture, which is not in captures/ of the run"
            )


def _refuse_strange_members(run: RunInput) -> None:
    """Refuse groups of hosts that the network does not have."""
    for group in run.groups:
        for member in group.members:
            if not run.network.is_host(member):
                raise ResultsError(
                    f"{run.directory / 'scenario.json'}: group {group.name!r} names {member!r}, which is not a host of the network"
                )
    for fault in run.faults:
        if fault.fault == TREE and not _is_tree(fault.details, run.network):
            raise ResultsError(
                f"{run.directory / 'faults.jsonl'}: {fault.target} has a tree to members that are not hosts of the network"
            )


def _is_tree(details: Mapping[str, Any], network: Network) -> bool:
    group, members = details.get("group"), details.get("members")
    is_group = isinstance(group, int) and 0 <= group <= MOST_GROUPS
    return is_group and isinstance(members, list) and all(isinstance(host, str) and network.is_host(host) for host in members)


def _network(path: Path) -> Network:
    """The network of a run. Its format version is checked first, as a newer format may have fields that the loader does not know."""
    # The loader has the better message for a file that cannot be read.
    with suppress(OSError, msgspec.MsgspecError):
        refuse_newer(format_of(path.read_bytes()), path)
    return load_network(path)


def _decode(path: Path, kind: type[T]) -> T:
    try:
        return decode_file(path.read_bytes(), kind, path)
    except OSError as error:
        raise ResultsError(f"{path.parent} is not a finished run: {path.name} cannot be read ({error.strerror})") from error
    except msgspec.MsgspecError as error:
        raise ResultsError(f"{path} is not what a run writes: {error}") from error


def _counters(path: Path) -> Counters:
    """The counters of all hosts. In format 1 the whole file is that object."""
    found = _decode(path, dict[str, Any])
    try:
        return (
            msgspec.convert(found, CountersFile).hosts
            if isinstance(found.get("format"), int)
            else msgspec.convert(found, Counters)
        )
    except msgspec.MsgspecError as error:
        raise ResultsError(f"{path} is not what a run writes: {error}") from error


def _faults(path: Path) -> tuple[FaultRecord, ...]:
    """The injected faults. A run without faults may have no such file."""
    if not path.exists():
        return ()
    try:
        return tuple(decode_file(line, FaultRecord, path) for line in path.read_bytes().splitlines())
    except msgspec.MsgspecError as error:
        raise ResultsError(f"{path} is not what a run writes: {error}") from error


def _groups(path: Path) -> tuple[GroupRecord, ...]:
    """The groups that messages were sent to. A run from before there were groups has none."""
    return _decode(path, GroupsFile).groups if path.exists() else ()
