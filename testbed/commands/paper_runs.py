"""The runs of papers: which there are, where they are, and what the scenarios conclude from them.

The runs of a scenario are a sweep without axes (`sweep.py`), in a directory for each engine, so they resume where they were stopped. A
first look has directories of its own. The points of a study are files beside them.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from analysis.figures.claims import MeasuredRun
from analysis.figures.summary import read_summary
from papers.findings import Outcome
from papers.paper import Experiment, Paper, Study
from runfiles.format import write_whole
from runfiles.reading import load
from scenarios import catalogue
from testbed.running import sweep
from testbed.running.tasks import Task

ENGINES = ("simulator", "mininet")


@dataclass(frozen=True)
class Shelf:
    """Where the runs of a paper are: its directory, and whether they are a first look."""

    paper: Paper
    out: Path
    quick: bool

    def place(self, engine: str, name: str) -> Path:
        """The directory of a scenario or study."""
        return self.out / self.paper.name / f"{engine}{'-quick' if self.quick else ''}" / name

    def plan(self, experiment: Experiment, engine: str) -> sweep.SweepPlan:
        """The runs of an experiment."""
        return sweep.SweepPlan(
            scenario=experiment.scenario,
            engine=engine,
            axes={},
            fixed=tuple(f"{key}={value}" for key, value in experiment.keys(engine, quick=self.quick).items()),
            protocols=(),
            seed=1,
            repeat=1 if self.quick else experiment.repeat,
            pack_ms=experiment.pack_ms,
        )

    def tasks(self, experiment: Experiment, engine: str) -> list[Task]:
        """The same as tasks."""
        return sweep.tasks(self.plan(experiment, engine), self.place(engine, experiment.scenario))

    def begin(self, engine: str) -> list[Task]:
        """Write the plans of all experiments that the engine can show, and return their runs."""
        found = []
        for experiment in self.paper.experiments:
            if engine == "simulator" or experiment.on_mininet:
                tasks = self.tasks(experiment, engine)
                sweep.begin(self.plan(experiment, engine), self.place(engine, experiment.scenario))
                found += tasks
        return found

    def points(self, study: Study) -> list[tuple[Path, Any]]:
        """The points of a study, each with its file."""
        return [(self.place("simulator", study.name) / f"{_key(point)}.json", point) for point in study.points(self.quick)]

    def outcomes(self, failures: Sequence[sweep.Failure]) -> list[Outcome]:
        """What the runs of either engine have shown, as far as there are any."""
        found = [
            self.outcome(experiment, engine, failures)
            for engine in ENGINES
            for experiment in self.paper.experiments
            if (self.place(engine, experiment.scenario) / "sweep.json").exists()
        ]
        return [*found, *(self.study_outcome(study) for study in self.paper.studies)]

    def outcome(self, experiment: Experiment, engine: str, failures: Sequence[sweep.Failure] = ()) -> Outcome:
        """What the runs of a scenario have shown, as far as they are made and analysed."""
        definition = catalogue.find(experiment.scenario)
        tasks = self.tasks(experiment, engine)
        made = [task for task in tasks if (task.output / "summary.json").exists()]
        runs = [MeasuredRun(load(task.output), read_summary(task.output)) for task in made]
        place = self.place(engine, experiment.scenario)
        missing = {str(task.output.relative_to(self.out)) for task in tasks} if len(made) < len(tasks) else set()
        return Outcome(
            experiment.scenario,
            engine,
            definition.summary,
            self._command(experiment, engine),
            len(runs),
            len({run.summary.seed for run in runs}),
            str(place.relative_to(self.out / self.paper.name)),
            definition.conclude(runs) if runs else [],
            definition.pictures(runs),
            definition.compare_tables(runs),
            [failure.reason for failure in failures if failure.run in missing],
        )

    def study_outcome(self, study: Study) -> Outcome:
        """What a study has shown, if all its points are worked out."""
        files = [path for path, _ in self.points(study) if path.exists()]
        results: list[Any] = [msgspec.json.decode(path.read_bytes(), type=study.result) for path in files]
        claims, sweeps = study.conclude(results) if len(files) == len(self.points(study)) else ([], [])
        place = str(self.place("simulator", study.name).relative_to(self.out / self.paper.name))
        command = f"./castbed paper {self.paper.name}{' --quick' if self.quick else ''}"
        return Outcome(study.name, "simulator", study.about, command, len(files), 1, place, claims, sweeps)

    def _command(self, experiment: Experiment, engine: str) -> str:
        words = ["sudo ./castbed" if engine == "mininet" else "./castbed", "run", experiment.scenario]
        words += ["--on simulator"] * (engine == "simulator")
        words += [f"--set {key}={value}" for key, value in experiment.keys(engine, quick=self.quick).items()]
        words += ["--pack off"] * (experiment.pack_ms is None)
        words += [f"--repeat {experiment.repeat}"] * (experiment.repeat > 1 and not self.quick)
        return " ".join(words)


def _key(point: Any) -> str:
    """A file name for a point: what it is, made short."""
    return hashlib.sha256(msgspec.json.encode(point)).hexdigest()[:20]


def work_out(study: Study, item: tuple[Path, Any]) -> None:
    """Work out a point of a study and write its file."""
    path, point = item
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(study.work(point)))
