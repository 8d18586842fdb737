"""Runs every benchmark: `python -m benchmarks`; the exit status is the worst of theirs."""

import subprocess
import sys

BENCHMARKS = ("simulator", "control", "pcap", "agent", "bring_up")


def main() -> int:
    """Run each in a process of its own, so that none sees the garbage of another."""
    return max(abs(subprocess.call([sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]])) for name in BENCHMARKS)


if __name__ == "__main__":
    sys.exit(main())
