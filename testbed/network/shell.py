"""Runs commands of the system, many lines at a time."""

import subprocess
from collections.abc import Iterable, Sequence

from testbed.errors import CannotRun

# The kernel kills a process that was started this way when the thread that started it ends, so also when the testbed dies.
WITH_US = ("setpriv", "--pdeathsig", "KILL")


def run(command: Sequence[str], lines: Iterable[str] = ()) -> str:
    """Run a command with lines on its standard input and return its output; the error message has what a failed command printed."""
    try:
        done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CannotRun(f"the command {command[0]!r} is not installed: run ./setup.sh") from None
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
        shown = " ".join(command)
        raise CannotRun(f"`{shown if len(shown) < 100 else shown[:100] + '...'}` failed: {said}")
    return done.stdout


def ip(lines: Sequence[str], namespace: str = "") -> None:
    """Run `ip` once for many commands, in a network namespace if one is given."""
    if lines:
        run(["ip", *(["-n", namespace] if namespace else []), "-batch", "-"], lines)


def tc(lines: Sequence[str], namespace: str = "") -> None:
    """Run `tc` once for many commands, in a network namespace if one is given."""
    if lines:
        run(["tc", *(["-n", namespace] if namespace else []), "-batch", "-"], lines)
