"""The two engines of a run. Only a run on Mininet imports its engine: nothing else needs Mininet, Open vSwitch, Ryu or root."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scenarios.faults import refuse_unknown
from simulator.faults import KNOWN
from testbed.errors import CannotRun
from testbed.network import doctor
from testbed.running import simulated
from testbed.running.tasks import Task
from testbed.terminal import Progress

NAMES = ("mininet", "simulator")
MADE_IN_MS = 6000.0
"""A network is up, its captures are read and it is down again in about this time."""
STARTED_COPIES = 4000
"""Simulating and reading a run takes as long as so many copies of messages, before the first one: a third of a second."""


@dataclass(frozen=True)
class Engine:
    """An engine on this machine. The machine has everything that the engine needs."""

    about: str
    """How packets travel, for the first line that a user sees."""
    captures: bool
    """Whether its runs leave captures, which Spark reads."""
    refuse_impossible: Callable[[Task], None]
    """Raise an error, before anything is made, if the engine cannot run a task."""
    effort: Callable[[Task], float]
    """About how long a run takes, beside other runs on this engine."""
    run: Callable[[Task, Progress, Callable[[], object]], None]
    """Run a task and leave its result directory; the last argument is called before the first packet of an emulated network."""


def find(name: str, output: Path) -> Engine:
    """An engine by its name, or an error that names everything that this machine lacks for it."""
    return _mininet(output) if name == "mininet" else _simulator(output)


def _mininet(output: Path) -> Engine:
    machine = doctor.require(output)
    from testbed.running import runner  # noqa: PLC0415 - imports Mininet, which only this engine needs

    return Engine(
        about=f"{machine.datapath} datapath; links by {machine.shaping}",
        captures=True,
        refuse_impossible=lambda task: runner.refuse_impossible(task, machine),
        effort=lambda task: MADE_IN_MS + task.scenario.ends_ms(task.seed),
        run=lambda task, show, before_traffic: runner.run(task, machine, show, before_traffic),
    )


def _refuse_in_virtual_time(task: Task) -> None:
    simulated.refuse_programs(task)
    refuse_unknown(task.scenario.faults, KNOWN, "the simulator")
    if task.full_packets:
        raise CannotRun("a simulated run has no captures: leave --full-packets out, or run it --on mininet")


def _simulator(output: Path) -> Engine:
    doctor.require_disk(output)
    return Engine(
        about="virtual time",
        captures=False,
        refuse_impossible=_refuse_in_virtual_time,
        effort=lambda task: STARTED_COPIES + len(task.scenario.network.hosts) * task.scenario.messages,
        run=lambda task, show, _: simulated.run(task, show),
    )
