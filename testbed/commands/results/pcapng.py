"""The command pcapng: all captures of a run in one file. Returns the exit status."""

from argparse import Namespace

from runfiles.pcapng import write_pcapng
from runfiles.reading import load
from testbed.commands.sharing import opened
from testbed.ownership import hand_over
from testbed.status import HOLDS
from testbed.terminal import output, progress


def pcapng(arguments: Namespace) -> int:
    """Write the captures of a run as one file for Wireshark."""
    run = load(opened(arguments.run))
    path = arguments.out or run.directory.with_name(f"{run.directory.name}.pcapng")
    hand_over(path)
    with progress(str(path)) as show:
        show("writing packets")
        write_pcapng(run, path)
    output.print(path, soft_wrap=True)
    return HOLDS
