"""The command pcapng: all captures of a run in one file, for each of several runs. Returns the exit status."""

from argparse import Namespace

from runfiles.pcapng import write_pcapng
from runfiles.reading import load, runs_in
from testbed.commands.sharing import opened
from testbed.errors import CannotRun
from testbed.ownership import hand_over
from testbed.status import HOLDS
from testbed.terminal import output, progress


def pcapng(arguments: Namespace) -> int:
    """Write the captures of each run as one file for Wireshark."""
    directories = runs_in([opened(arguments.run)])
    if arguments.out and len(directories) > 1:
        raise CannotRun(f"{arguments.run} has {len(directories)} runs, and --out is one file: name one of them")
    for directory in directories:
        path = arguments.out or directory.with_name(f"{directory.name}.pcapng")
        hand_over(path)
        with progress(str(path)) as show:
            show("writing packets")
            write_pcapng(load(directory), path)
        output.print(path, soft_wrap=True)
    return HOLDS
