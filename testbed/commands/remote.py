"""The commands fault, status and watch, for a network that is up in another terminal. Every function returns the exit status."""

import contextlib
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
from testbed.terminal import output, progress

# The happenings that are told once more at the end.
LAST = 10
# The longest wait for the analysis of a network that has ended.
ANALYSIS_S = 300.0


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
    """Show a network until it ends: as a live view on a terminal, as lines elsewhere. Then say what came of it."""
    watched = _Watched(remote.find(arguments.name), arguments.every / 1000)
    if arguments.json:
        for _, now in watched.pairs():
            sys.stdout.buffer.write(msgspec.json.encode(now) + b"\n")
            sys.stdout.flush()
        return HOLDS
    if output.is_terminal:
        with Screen(console=output, screen=True, auto_refresh=False) as screen:
            for before, now in watched.pairs():
                screen.update(views.watched(before, now, output.width, output.height), refresh=True)
    else:
        for before, now in watched.pairs():
            output.print("\n".join([views.line(before, now), *views.news(before, now)]), soft_wrap=True)
    if watched.has_ended and watched.last:
        output.print(
            "\n".join([views.ended(watched.last), *map(views.happening, watched.last.happenings[-LAST:])]), soft_wrap=True
        )
        with contextlib.suppress(KeyboardInterrupt):
            output.print(_what_came_of(watched), soft_wrap=True)
    return HOLDS


class _Watched:
    """A network that is looked at again and again."""

    def __init__(self, directory: Path, every_s: float) -> None:
        self._directory = directory
        self._every_s = every_s
        self.last: Snapshot | None = None
        self.has_ended = False

    def pairs(self) -> Iterator[tuple[Snapshot, Snapshot]]:
        """Each snapshot with the one before, until the network ends or the user presses Ctrl-C."""
        try:
            before = remote.snapshot(self._directory)
            while True:
                self.last = remote.snapshot(self._directory)
                yield before, self.last
                before = self.last
                time.sleep(self._every_s)
        except remote.Ended:
            self.has_ended = True
        except KeyboardInterrupt:
            return


def _what_came_of(watched: _Watched) -> str:
    """Wait for the analysis of a network that has ended, and tell its verdict and cost."""
    from analysis.figures.comparison import percent  # noqa: PLC0415 - as below
    from analysis.figures.summary import read_summary  # noqa: PLC0415 - takes long to import, and a view starts at once

    assert watched.last is not None, "a network that ended was seen before"
    results = Path(watched.last.results)
    deadline = time.monotonic() + ANALYSIS_S
    with progress(watched.last.name) as show:
        show("waiting for the analysis", "(Ctrl-C stops waiting)")
        while not (results / "summary.json").exists():
            if not results.exists():
                # A run that fails takes its own results with it.
                return f"it failed, and left no results in {results}"
            if time.monotonic() > deadline:
                return f"it is not analysed yet; later: ./castbed check {results}"
            time.sleep(remote.POLL_S)
    summary = read_summary(results)
    cost, delay, share = summary.cost.expensive_packets_per_message, summary.delay_ms, summary.delivered_share
    figures = [
        f"verdict: {summary.verdict}",
        f"{summary.messages} messages{'' if share is None else f', {percent(share)} delivered'}",
        *([f"{cost:.2f} expensive packets a message"] if cost is not None else []),
        *([f"delay p50 {delay.p50:.1f} ms, p99 {delay.p99:.1f} ms"] if delay.p50 is not None and delay.p99 is not None else []),
    ]
    return "\n".join(["; ".join(figures), *summary.verdict_reasons, f"results: {results.parent}"])
