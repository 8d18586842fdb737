"""Runs as one file to hand on: a zip archive with one folder in it.

The same runs give the same archive, byte by byte: names are sorted, and the archive records neither a time nor a user. An archive may come
from anybody, so it is checked before a byte is written: every name must be a name that a run has, and the sizes must be possible for runs.
"""

import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from os import walk
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Protocol

from runfiles.errors import ResultsError
from runfiles.format import ANALYSED, BESIDE_RUNS, FORMAT, RUN_FILES
from runfiles.reading import runs_in
from runfiles.versions import refuse_newer

SUFFIX = ".zip"
MOST_FILES = 1_000_000
MOST_BYTES = 1 << 40
LARGEST_RATIO = 100
"""The largest ratio of unpacked to packed size. Event logs, which compress best, reached 15."""
LONGEST_NAME = 1000
LIMITS = (
    f"an archive holds at most {MOST_FILES:,} files and {MOST_BYTES >> 30:,} GiB, at most {LARGEST_RATIO} times its own size, "
    f"under names of at most {LONGEST_NAME:,} characters"
)
"""The limits that `pack` obeys and `unpack` checks."""
_BLOCK = 1 << 20
_COMMENT = b"castbed runs, format %d" % FORMAT
# The exceptions of the standard library for archives that are damaged or of an unknown kind.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, ArithmeticError)


class Progress(Protocol):
    """Shows progress."""

    def __call__(self, stage: str, detail: str = "") -> None:
        """Show the stage, and how much of it is done."""


def pack(place: Path, archive: Path, show: Progress) -> list[str]:
    """Pack a run, or a directory of runs. Returns the files that were left out because they belong to no run, except hidden files."""
    if archive.suffix != SUFFIX:
        raise ResultsError(f"cannot write {archive}: the name of an archive must end in {SUFFIX}")
    if not _is_safe(PurePosixPath(place.name)):
        raise ResultsError(f"cannot pack {place}: rename it first, so that its name neither starts with a dot nor has a \\")
    if archive.exists():
        raise ResultsError(f"{archive} exists already: choose another name with --out, or remove it")
    found = _files(place)
    runs = {PurePosixPath(run.relative_to(place)) for run in runs_in([place])}
    names = [name for name, path in found.items() if _belongs(name, runs) and path.is_file() and not path.is_symlink()]
    if len(names) > MOST_FILES or sum(found[name].stat().st_size for name in names) > MOST_BYTES:
        raise ResultsError(f"{place} is too large for an archive: {LIMITS}; pack its runs one by one")
    with TemporaryDirectory(dir=archive.parent) as private:
        half_done = Path(private, archive.name)
        with zipfile.ZipFile(half_done, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.comment = _COMMENT
            for number, name in enumerate(names, start=1):
                show("packing", f"{number} of {len(names)} files")
                _add(packed, found[name], str(place.name / name))
        half_done.rename(archive)
    return [str(name) for name in found if name not in set(names) and not name.name.startswith(".")]


def _files(place: Path) -> dict[PurePosixPath, Path]:
    """Every file below a directory by its relative name, sorted."""
    paths = (Path(folder, file) for folder, _, files in walk(place) for file in files)
    return dict(sorted((PurePosixPath(path.relative_to(place)), path) for path in paths))


def _belongs(name: PurePosixPath, runs: Collection[PurePosixPath]) -> bool:
    """Whether a file of this name belongs to a run, or to the comparison of several runs."""
    if not name.parts or not _is_safe(name):
        return False
    run = next((folder for folder in name.parents if folder in runs), None)
    return name.parts[0] in BESIDE_RUNS if run is None else name.relative_to(run).parts[0] in RUN_FILES


def _is_safe(name: PurePosixPath) -> bool:
    """Whether a name stays inside its directory, on any system, and is not hidden."""
    return not (name.is_absolute() or "\\" in str(name) or any(part.startswith(".") for part in name.parts))


def _add(packed: zipfile.ZipFile, path: Path, name: str) -> None:
    # Without a time given, the entry has the earliest time of the format.
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, whose permissions follow
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    entry.file_size = path.stat().st_size
    with path.open("rb") as source, packed.open(entry, "w") as target:
        shutil.copyfileobj(source, target, _BLOCK)


def unpack(archive: Path, show: Progress) -> Path:
    """Unpack an archive into a directory of its name beside it. A directory that has the same runs already is not changed."""
    place = archive.with_suffix("")
    try:
        with zipfile.ZipFile(archive) as packed:
            refuse_newer(_format_of(packed), archive)
            entries = dict(_entries(packed, archive))
            if place.exists():
                _must_hold(place, entries, archive)
                return place
            with TemporaryDirectory(dir=archive.parent) as private:
                half_done = Path(private, place.name)
                for number, (name, entry) in enumerate(entries.items(), start=1):
                    show("unpacking", f"{number} of {len(entries)} files")
                    path = half_done / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with packed.open(entry) as source, path.open("xb") as target:
                        shutil.copyfileobj(source, target, _BLOCK)
                half_done.rename(place)
    except _UNREADABLE as error:
        raise ResultsError(f"{archive} is not an archive of runs, or is damaged: {error}") from error
    return place


def _format_of(packed: zipfile.ZipFile) -> int:
    found = re.fullmatch(rb"castbed runs, format (\d{1,9})", packed.comment)
    return int(found[1]) if found else 1


def _entries(packed: zipfile.ZipFile, archive: Path) -> Iterator[tuple[PurePosixPath, zipfile.ZipInfo]]:
    """The entries of an archive by their names inside its folder. An archive that `pack` cannot have made is refused."""
    entries = [(PurePosixPath(entry.filename), entry) for entry in packed.infolist() if not entry.is_dir()]
    if len(entries) > MOST_FILES or any(len(entry.filename) > LONGEST_NAME for _, entry in entries):
        raise ResultsError(f"{archive} was not made by ./castbed export: {LIMITS}; nothing was unpacked")
    inside = {PurePosixPath(*name.parts[1:]): entry for name, entry in entries}
    runs = {name.parent for name in inside if name.name == "run.json"}
    if not runs:
        raise ResultsError(f"{archive} holds no run: give an archive that ./castbed export made")
    for name, entry in entries:
        if not _is_safe(name) or not _belongs(PurePosixPath(*name.parts[1:]), runs):
            raise ResultsError(f"{archive} holds {entry.filename!r}, which is not a file of a run: nothing was unpacked")
        if stat.S_IFMT(entry.external_attr >> 16) not in {0, stat.S_IFREG}:
            raise ResultsError(f"{archive} holds {entry.filename!r} as a link or a device: nothing was unpacked")
        if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise ResultsError(f"{archive} uses a compression that ./castbed export does not use: nothing was unpacked")
    folders = {folder for name in inside for folder in name.parents}
    if len(inside) < len(entries) or len({name.parts[0] for name, _ in entries}) > 1 or not folders.isdisjoint(inside):
        raise ResultsError(f"{archive} does not hold each file once, in one folder: nothing was unpacked")
    _check_size(sum(entry.file_size for entry in inside.values()), archive)
    return iter(inside.items())


def _check_size(size: int, archive: Path) -> None:
    """Refuse a size that runs cannot have or the disk cannot hold. Of each entry, no more is unpacked than the size that it states."""
    if size > min(MOST_BYTES, LARGEST_RATIO * archive.stat().st_size):
        raise ResultsError(
            f"{archive} states that it holds {_megabytes(size)}, which is too much: {LIMITS}; nothing was unpacked"
        )
    if size > (free := shutil.disk_usage(archive.parent).free):
        raise ResultsError(f"{archive} holds {_megabytes(size)}, and the disk has room for {_megabytes(free)}: free some space")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _must_hold(place: Path, entries: dict[PurePosixPath, zipfile.ZipInfo], archive: Path) -> None:
    """Refuse a directory that does not have the archive's runs. Files that the analysis writes may differ."""
    here = _files(place) if place.is_dir() else {}
    runs = {name.parent for name in here if name.name == "run.json"}
    recorded = {name for name in here if _belongs(name, runs) and ANALYSED.isdisjoint(name.parts)}
    if recorded != {name for name in entries if ANALYSED.isdisjoint(name.parts)} or any(
        here[name].stat().st_size != entries[name].file_size or _checksum(here[name]) != entries[name].CRC for name in recorded
    ):
        raise ResultsError(f"{place} exists already and differs from {archive}: move one of the two elsewhere")


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum = zlib.crc32(block, checksum)
    return checksum
