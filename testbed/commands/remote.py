"""The commands fault, status and watch, for a network that is up in another terminal. Every function returns the exit status."""

import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.live import Live as Screen

from testbed.live import remote, views
from testbed.live.snapshot import Snapshot
from testbed.status import HOLDS
from testbed.terminal import output


def fault(arguments: Namespace) -> int:
    """Send a verb to a network that is up."""
    told = remote.ask(remote.find(arguments.name), " ".join(arguments.words))
    output.print(told.text, soft_wrap=True)
    return HOLDS


def status(arguments: Namespace) -> int:
    """Show the state of the networks that are up: one network in full, several in a line each."""
    known = remote.running()
    chosen = list(known.values()) if len(known) > 1 and not arguments.name else [remote.find(arguments.name)]
    snapshots = [remote.snapshot(directory) for directory in chosen]
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(snapshots) + b"\n")
    elif len(snapshots) == 1:
        output.print(views.status(snapshots[0]), soft_wrap=True)
    else:
        output.print("\n".join(map(views.headline, snapshots)), soft_wrap=True)
    return HOLDS


def watch(arguments: Namespace) -> int:
    """Show a network until it ends: as a live view on a terminal, as lines elsewhere."""
    pairs = _pairs(remote.find(arguments.name), arguments.every / 1000)
    if arguments.json:
        for _, now in pairs:
            sys.stdout.buffer.write(msgspec.json.encode(now) + b"\n")
            sys.stdout.flush()
    elif output.is_terminal:
        with Screen(console=output, screen=True, auto_refresh=False) as screen:
            for before, now in pairs:
                screen.update(views.watched(before, now, output.width, output.height), refresh=True)
    else:
        for before, now in pairs:
            output.print(views.line(before, now), soft_wrap=True)
    return HOLDS


def _pairs(directory: Path, every_s: float) -> Iterator[tuple[Snapshot, Snapshot]]:
    """Each snapshot with the one before, until the network ends or the user presses Ctrl-C."""
    try:
        before = remote.snapshot(directory)
        while True:
            now = remote.snapshot(directory)
            yield before, now
            before = now
            time.sleep(every_s)
    except (remote.Ended, KeyboardInterrupt):
        return
