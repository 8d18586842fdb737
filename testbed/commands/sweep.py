"""The command sweep: a scenario over a grid of settings. Returns the exit status."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from analysis.crew import Crew
from analysis.figures.comparison import compared
from analysis.figures.repeats import grouped
from scenarios import catalogue
from testbed.commands.compare import draw, measured, tell
from testbed.commands.run import kept_runs_told
from testbed.errors import CannotRun
from testbed.ownership import hand_over
from testbed.running import engines, sweep, workers
from testbed.running.tasks import Task
from testbed.status import HOLDS, UNKNOWN, status_of
from testbed.terminal import bar, errors, output


def command(arguments: Namespace) -> int:
    """Make the runs that are missing, analyse the runs that are not analysed yet, and compare all runs."""
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
        medium=arguments.medium,
    )
    out: Path = arguments.out or Path("results", f"sweep-{definition.name}")
    tasks = sweep.tasks(plan, out)
    engine = engines.find(plan.engine, out)
    hand_over(out)
    sweep.begin(plan, out)
    left = [task for task in tasks if not sweep.is_made(task)]
    errors.print(f"{len(tasks)} runs, {len(tasks) - len(left)} of them made before; results in {out}", soft_wrap=True)
    crew = Crew(arguments.spark_master)
    if engine.captures:
        crew.begin()
    with kept_runs_told([task.output for task in left], out, "repeat the command to make the others"):
        failed = make_left(left, engine, crew, arguments, out)
    made = [task for task in tasks if sweep.is_made(task)]
    if not made:
        raise CannotRun(f"no run could be made; the first failure is {failed[0].run}: {failed[0].reason}")
    analyse_unread(made, crew, arguments)
    runs = measured([task.output for task in made], arguments.spark_master)
    groups = grouped(runs)
    found = compared(groups, "label")
    _, page = draw(groups, found, [out], out)
    if arguments.json:
        told = {"runs": [run.summary for run in runs], "comparison": found, "failures": failed, "report": str(page)}
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    else:
        tell(found, runs, (), page)
        for failure in failed:
            output.print(f"not made: {failure.run}: {failure.reason}", soft_wrap=True)
    status = status_of(run.summary.verdict for run in runs)
    return max(status, UNKNOWN) if failed and status == HOLDS else status


def analyse_unread(made: Sequence[Task], crew: Crew, arguments: Namespace) -> None:
    """Analyse the runs that are not analysed yet: in virtual time, those of a command that was stopped."""
    unread = [task for task in made if not (task.output / "summary.json").exists()]
    if not unread:
        return
    cluster = crew.session if arguments.spark_master else None
    with bar("analysing", len(unread)) as advance:
        analysed: Iterator[object] = (
            chain.from_iterable(sweep.analyse(crew, unread))
            if arguments.on == "mininet"
            else workers.spread(sweep.analyse_alone, unread, arguments.jobs, cluster, at_a_time=1)
        )
        for _ in analysed:
            advance("")


def make_left(left: Sequence[Task], engine: engines.Engine, crew: Crew, arguments: Namespace, out: Path) -> list[sweep.Failure]:
    """Make the runs that are left. Runs that could not be made are recorded and returned."""
    failed = []
    simulates = arguments.on == "simulator"
    if simulates:
        # The long ones first: one of them alone at the end would leave all other cores idle.
        left = sorted(left, key=engine.effort, reverse=True)
    with bar("simulating" if simulates else "running", len(left), [engine.effort(task) for task in left]) as advance:
        for task, reason in zip(left, _reasons(left, engine, crew, arguments), strict=True):
            if reason:
                sweep.note(task, reason, out)
                failed.append(sweep.Failure(str(task.output.relative_to(out)), reason))
            advance(f"{len(failed)} not made")
    return failed


def _reasons(left: Sequence[Task], engine: engines.Engine, crew: Crew, arguments: Namespace) -> Iterator[str]:
    """Make runs, several at a time in virtual time. For each run, the reason why it could not be made, or nothing."""

    def run(task: Task) -> None:
        engine.refuse_impossible(task)
        engine.run(task, lambda *_: None, crew.session)

    if arguments.on == "mininet":
        return (sweep.make(task, run) for task in left)
    return workers.spread(sweep.simulate, left, arguments.jobs, crew.session if arguments.spark_master else None, at_a_time=1)
