"""The command plot: draws a figure of runs again, for a paper. Returns the exit status."""

import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from analysis.notebook import figures
from runfiles.reading import runs_in
from testbed.commands.compare import measured
from testbed.commands.sharing import opened
from testbed.errors import CannotRun
from testbed.ownership import hand_over
from testbed.status import HOLDS
from testbed.terminal import output


def plot(arguments: Namespace) -> int:
    """Save a figure, or show the names of all figures. A last word that is no file is the name of a figure."""
    *words, last = arguments.words
    name = "" if Path(last).exists() or not words else last
    places = [opened(Path(word)) for word in (words if name else arguments.words)]
    runs = measured(runs_in(places), arguments.spark_master)
    if not name:
        names = list(figures.figures(runs, arguments.by))
        if arguments.json:
            sys.stdout.buffer.write(msgspec.json.encode(names) + b"\n")
        else:
            output.print("\n".join(names), soft_wrap=True)
        return HOLDS
    if not arguments.save:
        raise CannotRun(f"where should {name} be saved? Write --save {name.replace('/', '-')}.pdf, or .svg or .png")
    hand_over(*arguments.save)
    for path in arguments.save:
        # Saving changes the figure, so each file has its own.
        made = figures.figure(runs, name, arguments.by)
        figures.save(made, name, path, arguments.size, "" if arguments.no_title else arguments.title)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode([str(path) for path in arguments.save]) + b"\n")
    else:
        output.print("\n".join(map(str, arguments.save)), soft_wrap=True)
    return HOLDS
