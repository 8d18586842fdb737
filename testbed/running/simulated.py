"""Runs a task in virtual time, with the same kind of result directory as a run on Mininet."""

import msgspec

from hostagent.contract.wire import PORT
from hostagent.protocols import PROTOCOLS
from runfiles.format import RunRecord
from simulator.engine import simulate
from simulator.results import write
from testbed.errors import CannotRun
from testbed.running.tasks import Task, described, never_fired, result_directory, versions, write_record
from testbed.terminal import Progress


def refuse_programs(task: Task) -> None:
    """Refuse a protocol that is a program: it has its own clock and its own randomness, so nothing could be repeated."""
    if task.own is not None and task.own.words is not None:
        raise CannotRun(f"protocol {task.protocol} is a program, which does not run in virtual time: run it --on mininet")


def run(task: Task, progress: Progress) -> None:
    """Simulate a task and write its result directory."""
    refuse_programs(task)
    with result_directory(task):
        core = PROTOCOLS[task.protocol]
        progress("simulating")
        parameters = msgspec.convert(task.parameters, core.Parameters)
        multicasts = task.medium == "multicast"
        outcome = simulate(
            *(task.scenario, core, parameters, task.seed), crossings=True, pack_ms=task.pack_ms, multicasts=multicasts
        )
        progress("writing results")
        drops = write(outcome, task.output)
        record = RunRecord(
            **described(task),
            engine="simulator",
            run=0,
            udp_port=PORT,
            started_ns=0,
            ended_ns=outcome.ended_ns,
            versions=versions(),
            datapath="virtual time",
            shaping="virtual time",
            captures=(),
            link_drops=drops,
            problems=(*never_fired(outcome.unfired), *outcome.problems),
        )
        write_record(record, task.output)
