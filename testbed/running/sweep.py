"""Sweeps: a scenario at every point of a grid of settings, each several times. A sweep that was stopped can be continued.

A sweep has a directory. `sweep.json` has the plan, so that another sweep in the same directory is refused. Each run is made in a temporary
directory beside its place and moved when it is complete, so a directory with a `run.json` is a complete run, even if the sweep was killed.
A run that cannot be made leaves a line in `failures.jsonl`, and the sweep goes on; if the sweep is started again, it tries that run again.
"""

import dataclasses
import itertools
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

import msgspec

from hostagent.runtime.failures import CoreFailed
from runfiles.format import OWN_PROTOCOL, Medium, encoded, write
from runfiles.versions import decode_file
from scenarios import ScenarioError, catalogue
from scenarios.faults import FaultError
from scenarios.scenario import load as load_scenario
from testbed.errors import CannotRun
from testbed.running import simulated
from testbed.running.settings import choose, split_settings
from testbed.running.tasks import Task, is_finished
from topologies import NetworkError, files

if TYPE_CHECKING:
    from analysis.crew import Crew
    from analysis.figures.summary import Summary

T = TypeVar("T")
# The number of runs that are analysed together. A larger number would save little, and lose more work if the sweep is killed.
ANALYSED_TOGETHER = 16


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`sweep.json`: the plan of a sweep."""

    scenario: str
    engine: str
    axes: dict[str, tuple[str, ...]]
    """The values of each key; `protocol` and `medium` may be keys too."""
    fixed: tuple[str, ...]
    """The settings that are the same in all runs, in the form of `--set`."""
    protocols: tuple[str, ...]
    seed: int
    repeat: int
    pack_ms: float | None
    medium: Medium = "unicast"


class Failure(msgspec.Struct, frozen=True):
    """A line of `failures.jsonl`: a run that could not be made, and why."""

    run: str
    reason: str


def read_axes(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read the axes from the values of `--over`, each written `KEY=V1,V2,...`."""
    axes: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, equals, values = word.partition("=")
        if not equals or not values or "" in values.split(","):
            raise CannotRun(f"--over {word}: write --over KEY=VALUE,VALUE,...")
        if key in axes:
            raise CannotRun(f"--over {key} is given twice: write all its values in one")
        axes[key] = tuple(values.split(","))
    return axes


def tasks(plan: SweepPlan, out: Path) -> list[Task]:
    """Every run of a sweep, in the order in which they are made on Mininet: all points once, then all points with the next seed."""
    definition = catalogue.find(plan.scenario)
    points = [dict(zip(plan.axes, values, strict=True)) for values in itertools.product(*plan.axes.values())]
    found: dict[Path, Task] = {}
    for repeat in range(plan.repeat):
        for point in points:
            for task in _point(plan, definition, point, plan.seed + repeat, out):
                if found.setdefault(task.output, task) is not task:
                    raise CannotRun(f"two points of the sweep would have the same directory, {task.output}")
    return list(found.values())


def _point(plan: SweepPlan, definition: catalogue.Definition, point: Mapping[str, str], seed: int, out: Path) -> Iterator[Task]:
    protocols = (point["protocol"],) if "protocol" in point else plan.protocols
    swept = [f"{key}={value}" for key, value in point.items() if key != "protocol"]
    settings, parameters = split_settings([*plan.fixed, *(word for word in swept if not word.startswith("medium="))])
    for variant in choose(definition.build(settings), protocols, parameters):
        if variant.medium and "medium" in point:
            raise CannotRun(f"the medium of {variant.label} belongs to the scenario {definition.name}: leave it out of --over")
        label = "-".join([variant.label, *(re.sub(r"[^A-Za-z0-9._]+", "-", text.replace("%", "pct")) for text in swept)])
        yield Task(
            scenario_name=definition.name,
            scenario=variant.scenario,
            settings=settings,
            protocol=variant.protocol,
            parameters=dict(variant.parameters),
            seed=seed,
            output=out / label / str(seed),
            label=label,
            pack_ms=plan.pack_ms,
            medium=variant.medium or _medium(plan, point),
        )


def _medium(plan: SweepPlan, point: Mapping[str, str]) -> Medium:
    """The medium of a point: its own in a sweep over media."""
    try:
        medium: Medium = msgspec.convert(point.get("medium", plan.medium), Medium)
    except msgspec.ValidationError:
        raise CannotRun(f"there is no medium {point['medium']!r}: choose from {', '.join(get_args(Medium))}") from None
    return medium


def begin(plan: SweepPlan, out: Path) -> None:
    """Write the plan of a new sweep; a sweep that is continued must have the same plan."""
    path = out / "sweep.json"
    if not path.exists():
        if out.exists() and any(out.iterdir()):
            raise CannotRun(f"{out} exists already and holds no sweep: choose another directory with --out")
        out.mkdir(parents=True, exist_ok=True)
        write(path, plan)
    elif _planned(path) != plan:
        raise CannotRun(f"{out} holds another sweep, see {path}: repeat its command to go on with it, or choose another --out")
    (out / "failures.jsonl").unlink(missing_ok=True)


def _planned(path: Path) -> SweepPlan:
    try:
        return decode_file(path.read_bytes(), SweepPlan, path)
    except (OSError, msgspec.MsgspecError) as error:
        raise CannotRun(f"{path} is not the plan of a sweep: {error}; choose another directory with --out") from None


def is_made(task: Task) -> bool:
    """Whether a run is complete. A run whose scenario or network differs, because a script has changed since, is refused."""
    if not is_finished(task.output):
        return False
    made = load_scenario(task.output / "scenario.json", files.load(task.output / "network.json"))
    # The protocol of a run is in its run.json; the other protocols of the scenario do not matter to the run.
    if dataclasses.replace(made, protocols=task.scenario.protocols) != task.scenario:
        raise CannotRun(
            f"{task.output} is a run of an earlier version of {task.scenario_name}: choose another directory with --out"
        )
    if task.own is not None and (task.output / OWN_PROTOCOL / task.own.file_name).read_bytes() != task.own.source:
        raise CannotRun(f"{task.output} is a run of an earlier version of {task.own.path}: choose another directory with --out")
    return True


def make(task: Task, run: Callable[[Task], None]) -> str:
    """Make a run in a temporary directory and move it to its place. Returns the reason if the run could not be made, else nothing."""
    unfinished = task.output.with_name(f".{task.output.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    try:
        run(dataclasses.replace(task, output=unfinished))
    except (CannotRun, ScenarioError, FaultError, NetworkError, CoreFailed) as failure:
        shutil.rmtree(unfinished, ignore_errors=True)
        return str(failure)
    unfinished.rename(task.output)
    return ""


def note(task: Task, reason: str, out: Path) -> None:
    """Append a failure to `failures.jsonl`."""
    with (out / "failures.jsonl").open("ab") as log:
        log.write(encoded(Failure(str(task.output.relative_to(out)), reason)) + b"\n")


def simulate(task: Task) -> str:
    """Make a run in virtual time and analyse it. Returns the reason if the run could not be made, else nothing."""
    if reason := make(task, lambda inside: simulated.run(inside, lambda *_: None)):
        return reason
    analyse_alone(task)
    return ""


def analyse_alone(task: Task) -> None:
    """Analyse a run in this process, without Spark: for workers, each of which has a run to itself."""
    from analysis import crew, job  # noqa: PLC0415 - slow to import

    job.analyse([task.output], crew.Crew(alone=True), drawing=False)


def analyse(crew: "Crew", made: Sequence[Task]) -> Iterator[list["Summary"]]:
    """Analyse runs with captures, some at a time, without the plots of single runs, which take long; the command `analyse` makes them."""
    from analysis import job  # noqa: PLC0415 - slow to import

    for start in range(0, len(made), ANALYSED_TOGETHER):
        yield job.analyse([task.output for task in made[start : start + ANALYSED_TOGETHER]], crew, drawing=False)
