"""Gives results to their owner: the user who called sudo, or else the owner of the directory that the results are in.

Commands name the places that they are going to write to. When the command ends, for whatever reason, everything that is new there gets its
owner. What was there before stays as it was, and symbolic links are not followed.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class _Place:
    """A directory or file for results: the highest directory that must be made for them, or the place itself if it exists."""

    root: Path
    owner: tuple[int, int]
    """The user and the group that new files are given to."""
    before: frozenset[tuple[str, int]] | None
    """The files that existed before, by path and inode; None if the place itself is new."""


_places: list[_Place] = []


def hand_over(*places: Path) -> None:
    """Give the caller what is written to these places from now on, when the command ends. Only root can give files away."""
    for place in places if os.geteuid() == 0 else ():
        root = first_missing(place.resolve())
        if root.exists():
            before = frozenset((path, status.st_ino) for path, _, status in _below(root))
            _places.append(_Place(root, _owner(root), before))
        else:
            _places.append(_Place(root, _owner(root.parent), None))


def settle() -> None:
    """Give the caller what has been written since `hand_over`."""
    for place in _places:
        if place.before is None:
            with suppress(OSError):
                os.chown(place.root, *place.owner, follow_symlinks=False)
        for path, folder, status in _below(place.root):
            is_new = place.before is None or (path, status.st_ino) not in place.before
            # A file with a second hard link could belong to another user.
            is_ours = status.st_uid == os.geteuid() and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1)
            if is_new and is_ours:
                # A file system may have no owners.
                with suppress(OSError):
                    os.chown(Path(path).name, *place.owner, dir_fd=folder, follow_symlinks=False)
    _places.clear()


def first_missing(path: Path) -> Path:
    """The highest directory that would have to be made for a path; the path itself if all directories above it exist."""
    return next((above for above in reversed(path.parents) if not above.exists()), path)


def _owner(directory: Path) -> tuple[int, int]:
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if user.isdecimal() and group.isdecimal():
        return int(user), int(group)
    about = directory.stat()
    return about.st_uid, about.st_gid


def _below(root: Path) -> Iterator[tuple[str, int, os.stat_result]]:
    """Everything below a directory: its path, a descriptor of its parent directory, and its status."""
    if not root.is_dir():
        return
    for path, folders, files, descriptor in os.fwalk(root, follow_symlinks=False):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                yield f"{path}/{name}", descriptor, os.stat(name, dir_fd=descriptor, follow_symlinks=False)
