"""How soon commands answer: the analysis of a small run up to its table, the start of a campaign, and commands that only look.

A small run is made on Mininet first. Its analysis, which needs no Spark, is compared with the same analysis by Spark (`--spark-master
local[*]`), from the command to the first line of the table. The other commands are compared with one second; a campaign is one of a single
case, so that its time is the time until the first case has run. The start of the interpreter is part of all figures.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import report
from testbed.errors import CannotRun
from testbed.terminal import errors

CASTBED = Path(__file__).parent.parent / "castbed"
RUN = ("run", "clusters", "--protocol", "cluster-tree", "--set", "messages=100")
SMALL_TARGET = 0.5
A_SECOND = [1.0]


def first_line_s(*words: str) -> float:
    """Seconds from a command to the first line that it prints; the command is then let run to its end."""
    began_s = time.perf_counter()
    with subprocess.Popen([CASTBED, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None, "a pipe was asked for"
        found, took_s = process.stdout.readline(), time.perf_counter() - began_s
        process.stdout.read()
    if not found:
        raise CannotRun(f"./castbed {' '.join(words)} printed nothing")
    return took_s


def measure(arguments: argparse.Namespace) -> report.Result:
    """Make a small run, and time the commands in turn."""
    with tempfile.TemporaryDirectory(prefix="castbed-commands-") as private:
        run = str(Path(private) / "run")
        errors.print("making a small run")
        if subprocess.run([CASTBED, *RUN, "--out", run], capture_output=True, check=False).returncode:
            raise CannotRun(f"the small run could not be made: try ./castbed {' '.join(RUN)}")
        campaign = ("campaign", "--protocol", "basic", "--schedules", "1", "--out", f"{private}/campaign")
        commands = {
            "analyse": ("analyse", run),
            "analyse by Spark": ("analyse", run, "--spark-master", "local[*]"),
            "campaign": campaign,
            "check": ("check", run),
            "runs": ("runs", run),
            "show": ("show", "grid"),
            "list": ("list",),
        }
        took: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(arguments.repeat):
            errors.print(f"{number + 1} of {arguments.repeat}")
            for name in report.in_turn(number, *commands):
                took[name].append(first_line_s(*commands[name]))
    analysed, by_spark, campaigned, *looks = took.items()
    comparisons = [
        report.Comparison("analyse, a small run to its table; by Spark", "s", analysed[1], by_spark[1], SMALL_TARGET),
        report.Comparison("campaign, until its first case has run; a second", "s", campaigned[1], A_SECOND, 1.0),
        *(report.Comparison(f"{name}; a second", "s", figures, A_SECOND) for name, figures in looks),
    ]
    return report.Result("Commands", "yardstick", comparisons)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="benchmarks.commands", description="How soon commands answer.")
    parser.add_argument("--repeat", type=report.positive, default=5, metavar="N", help="take the median of N (default 5)")
    return report.main(parser, measure)


if __name__ == "__main__":
    raise SystemExit(main())
