"""Runs to hand on: packing them into an archive, and using one where a directory is expected."""

from argparse import Namespace
from pathlib import Path

from runfiles import archives
from testbed.ownership import hand_over
from testbed.status import HOLDS
from testbed.terminal import errors, output, progress


def export(arguments: Namespace) -> int:
    """Pack a run, or a directory of runs, into one file that can be analysed elsewhere, without root."""
    place = arguments.run.resolve()
    archive = arguments.out or place.parent / f"{place.name}{archives.SUFFIX}"
    hand_over(archive)
    with progress(f"{archive}") as show:
        left_out = archives.pack(place, archive, show)
    if left_out:
        errors.print(f"left out, as no part of a run: {', '.join(left_out)}", soft_wrap=True)
    output.print(archive, soft_wrap=True)
    return HOLDS


def opened(place: Path) -> Path:
    """The directory that a user means: the one named, or what an archive holds, unpacked beside it."""
    if not place.is_file():
        return place
    hand_over(place.with_suffix(""))
    with progress(f"{place}") as show:
        return archives.unpack(place, show)
