"""Runs every benchmark: `python -m benchmarks`. The exit status is the worst of all benchmarks."""

import subprocess
import sys

BENCHMARKS = ("commands", "checkers", "graphs", "simulator", "control", "pcap", "journeys", "agent", "bring_up", "saturation")


def main() -> int:
    """Run each benchmark in a process of its own, so that none is slowed by the memory of another."""
    return max(abs(subprocess.call([sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]])) for name in BENCHMARKS)


if __name__ == "__main__":
    sys.exit(main())
