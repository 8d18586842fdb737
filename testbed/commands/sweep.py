"""sweep: a scenario over a grid of settings. Every function returns the exit status."""

import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from analysis.figures.comparison import compared
from analysis.figures.repeats import grouped
from scenarios import catalogue
from testbed.commands.compare import draw, measured, tell
from testbed.commands.run import kept_runs_told
from testbed.errors import CannotRun
from testbed.network import doctor
from testbed.network.emulation import refuse_impossible
from testbed.running import faults, runner, sweep
from testbed.running.background import SparkStart
from testbed.running.tasks import Task
from testbed.status import HOLDS, UNKNOWN, status_of
from testbed.terminal import bar, errors, output


def command(arguments: Namespace) -> int:
    """Make the runs that are missing, analyse those that are not analysed, and compare all."""
    definition = catalogue.find(arguments.scenario)
    plan = sweep.SweepPlan(
        scenario=arguments.scenario,
        engine=arguments.on,
        axes=sweep.read_axes(arguments.over),
        fixed=tuple(arguments.set),
        protocols=tuple(arguments.protocol or ()),
        seed=arguments.seed,
        repeat=arguments.repeat,
        pack_ms=arguments.pack,
    )
    out: Path = arguments.out or Path("results", f"sweep-{definition.name}")
    tasks = sweep.tasks(plan, out)
    machine = doctor.require(out, mininet=arguments.on == "mininet")
    sweep.begin(plan, out)
    left = [task for task in tasks if not sweep.is_made(task)]
    errors.print(f"{len(tasks)} runs, {len(tasks) - len(left)} of them made before; results in {out}", soft_wrap=True)
    spark = SparkStart(arguments.spark_master)
    with kept_runs_told([task.output for task in left], out, "repeat the command to make the others"):
        failed = _simulate(left, spark, out) if arguments.on == "simulator" else _emulate(left, spark, machine, out)
    made = [task for task in tasks if sweep.is_made(task)]
    if not made:
        raise CannotRun(f"no run could be made; the first would have been {failed[0].run}: {failed[0].reason}")
    unread = [task for task in made if not (task.output / "summary.json").exists()]
    with bar("analysing", len(unread)) as advance:
        for some in sweep.analyse(spark.wait(), unread):
            for _ in some:
                advance("")
    runs = measured([task.output for task in made], arguments.spark_master)
    groups = grouped(runs)
    found = compared(groups, "label")
    _, page = draw(groups, found, [out], out)
    if arguments.json:
        told = {"runs": [run.summary for run in runs], "comparison": found, "failures": failed, "report": str(page)}
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    else:
        tell(found, (), page)
        for failure in failed:
            output.print(f"not made: {failure.run}: {failure.reason}", soft_wrap=True, markup=False)
    status = status_of(run.summary.verdict for run in runs)
    return max(status, UNKNOWN) if failed and status == HOLDS else status


def _simulate(left: list[Task], spark: SparkStart, out: Path) -> list[sweep.Failure]:
    failed = []
    with bar("simulating", len(left)) as advance:
        for task, reason in sweep.simulate(spark.wait(), left) if left else ():
            failed += _noted(task, reason, out)
            advance(f"{len(failed)} not made")
    return failed


def _emulate(left: list[Task], spark: SparkStart, machine: doctor.Machine, out: Path) -> list[sweep.Failure]:
    def run(task: Task) -> None:
        refuse_impossible(task.scenario.network, machine)
        faults.refuse_impossible(task.scenario.faults, machine)
        runner.run(task, machine, lambda *_: None, before_traffic=spark.wait)

    failed = []
    with bar("running", len(left)) as advance:
        for task in left:
            failed += _noted(task, sweep.make(task, run), out)
            advance(f"{len(failed)} not made")
    return failed


def _noted(task: Task, reason: str, out: Path) -> list[sweep.Failure]:
    if not reason:
        return []
    sweep.note(task, reason, out)
    return [sweep.Failure(str(task.output.relative_to(out)), reason)]
