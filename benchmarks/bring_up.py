"""Bring-up of shaped grids by Castbed, compared with stock Mininet that builds the same networks in the same run.

Castbed's time is that of entering `testbed.network.emulation.emulate`: the network is made and shaped, every parameter read back from the
kernel, every switch connected, every flow installed, and the hosts shown to reach each other with the right cost bit. Stock Mininet does
less; `benchmarks.yardsticks.stock` describes what. Both give hosts static ARP entries, and limit the bandwidth of links between switches.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import report
from benchmarks.yardsticks import stock
from testbed.network import doctor, record
from testbed.network.doctor import Machine
from testbed.network.emulation import emulate
from testbed.terminal import errors
from topologies.builders import grid
from topologies.network import Network


@dataclass(frozen=True)
class Size:
    """A network to bring up, and the target for it."""

    network: Network
    target: float
    """At most this share of stock Mininet's time."""
    repeat: int


DOWN = 1 / 4
"""At most this share of stock Mininet's time to take a network down."""
SIZES = {
    "5x5": Size(grid(5, 5), target=1 / 4, repeat=5),
    "10x10": Size(grid(10, 10), target=1 / 5, repeat=3),
    # Only once, since stock Mininet takes minutes.
    "8x8x4": Size(grid(8, 8, hosts_per_switch=4), target=1 / 5, repeat=1),
}


@dataclass
class Stopwatch:
    """Takes the place of the progress display of a bring-up, and notes when each stage begins."""

    began: list[tuple[str, float]] = field(default_factory=list)

    def __call__(self, stage: str, detail: str = "") -> None:  # noqa: ARG002 - stages are enough
        """Note the stage."""
        self.began.append((stage, time.monotonic()))

    def phases(self, ended: float) -> dict[str, float]:
        """How long each stage took, in seconds."""
        ends = [moment for _, moment in self.began[1:]] + [ended]
        return {stage: end - begin for (stage, begin), end in zip(self.began, ends, strict=True)}


@dataclass(frozen=True)
class Measured(stock.Times):
    """Castbed's times, and the time of each stage of the bring-up."""

    phases: dict[str, float]
    idle_s: float
    """How long after the network was gone Open vSwitch was still busy with what it had of it."""


def castbed(network: Network, machine: Machine) -> Measured:
    """Bring a network up with Castbed and take it down."""
    stopwatch = Stopwatch()
    with tempfile.TemporaryDirectory() as directory:
        with record.claim() as private:
            began = time.monotonic()
            with emulate(network, machine, private, Path(directory, "controller.jsonl"), stopwatch):
                up = time.monotonic()
        # The claim ends when the network is taken down.
        down = time.monotonic()
        subprocess.run(["ovs-appctl", "--timeout=60", "version"], check=True, stdout=subprocess.DEVNULL)
    return Measured(up - began, down - up, stopwatch.phases(up), time.monotonic() - down)


def compare(name: str, size: Size, machine: Machine, repeat: int) -> tuple[report.Comparison, ...]:
    """Measure both builders, alternating which is first. Returns the comparisons of bring-up and tear-down."""
    ours: list[Measured] = []
    stocks: list[stock.Times] = []
    for number in range(repeat):
        for builder in report.in_turn(number, "castbed", "stock"):
            errors.print(f"bring-up of {name} by {builder}, {number + 1} of {repeat}")
            if builder == "castbed":
                ours.append(castbed(size.network, machine))
            else:
                stocks.append(stock.measure(size.network, kernel_datapath=machine.kernel_datapath))
    phases = {stage: statistics.median(times.phases[stage] for times in ours) for stage in ours[0].phases}
    up = report.Comparison(
        f"{name} up", "s", [t.up_s for t in ours], [t.up_s for t in stocks], size.target, details={"phases_s": phases}
    )
    stock_down = [t.down_s for t in stocks]
    down = report.Comparison(f"{name} down", "s", [t.down_s for t in ours], stock_down, DOWN)
    return (
        up,
        down,
        report.Comparison(f"{name} down, and Open vSwitch idle", "s", [t.down_s + t.idle_s for t in ours], stock_down),
    )


def measure(arguments: argparse.Namespace) -> report.Result:
    """Bring up every size that was asked for."""
    machine = doctor.require(Path(tempfile.gettempdir()))
    comparisons = []
    notes = []
    for name in arguments.sizes or SIZES:
        up, *down = compare(name, SIZES[name], machine, arguments.repeat or SIZES[name].repeat)
        comparisons += [up, *down]
        phases = "; ".join(f"{stage} {took:.2f} s" for stage, took in up.details["phases_s"].items())
        notes.append(f"{name}: {phases}")
    return report.Result(f"Bring-up of shaped grids ({machine.datapath} datapath)", "stock Mininet", comparisons, notes)


def _size(text: str) -> str:
    if text not in SIZES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(SIZES)}")
    return text


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="benchmarks.bring_up", description="Castbed's bring-up against stock Mininet's.")
    parser.add_argument("sizes", nargs="*", type=_size, metavar="SIZE", help=f"which networks: {', '.join(SIZES)} (default: all)")
    parser.add_argument("--repeat", type=report.positive, metavar="N", help="take the median of N (default: 5, 3 and 1)")
    return report.main(parser, measure)


if __name__ == "__main__":
    sys.exit(main())
