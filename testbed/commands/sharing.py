"""The command export, and archives in place of directories in other commands."""

from argparse import Namespace
from pathlib import Path

from runfiles import archives
from testbed.ownership import hand_over
from testbed.status import HOLDS
from testbed.terminal import errors, output, progress


def export(arguments: Namespace) -> int:
    """Pack a run, or a directory of runs, into one file that others can analyse without root."""
    place = arguments.run.resolve()
    archive = arguments.out or place.parent / f"{place.name}{archives.SUFFIX}"
    hand_over(archive)
    with progress(f"{archive}") as show:
        left_out = archives.pack(place, archive, show)
    if left_out:
        errors.print(f"left out, because not part of a run: {', '.join(left_out)}", soft_wrap=True)
    output.print(archive, soft_wrap=True)
    return HOLDS


def opened(place: Path) -> Path:
    """The directory that a user named; an archive is unpacked beside it."""
    if not place.is_file():
        return place
    hand_over(place.with_suffix(""))
    with progress(f"{place}") as show:
        return archives.unpack(place, show)
