"""Finds a scenario by name or file, and sets its keys.

A scenario is a Python file with a docstring that says what it shows, and a function `scenario`. The parameters of that function are the
keys of `--set key=value`, and a line `key: meaning` in its docstring says what a key means. The type of a parameter says how its text is
read; `**expensive` accepts the properties of expensive links.
The keys of the workload (messages, interval, arrivals, ...), `sources` (`all`, or `h1,h2`) and `groups` (for the syntax see
`scenarios.groups`) can be set for every scenario.

`scenario` returns a Scenario, which is run with each of its protocols, or several Variants, one for each run. The file may also have
functions that evaluate the runs: `claims(runs)` returns a Claim for each statement that the scenario is to show, `sweep(runs)` a Sweep, or
several with names, which are drawn as plots, and `tables(runs)` Tables, which are shown beside those of a paper.
"""

import dataclasses
import difflib
import inspect
import runpy
import traceback
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from analysis.figures.claims import (
    Claim,
    ComparedTable,
    MeasuredRun,
    MissingRun,
    Runs,
    Sweep,
    Table,
    compare_tables,
    evaluate,
    over_repeats,
)
from scenarios.groups import GroupError, read_groups
from scenarios.scenario import Arrivals, Scenario, ScenarioError, Variant, Workload
from topologies import NetworkError
from topologies.properties import PROPERTIES, number, signed_whole

HERE = Path(__file__).parent
T = TypeVar("T")
_OPTIONAL = ("claims", "sweep", "tables")
"""The functions that a scenario may have, beside `scenario`."""
# A user's script may raise anything. Without SystemExit here, a script that calls sys.exit(0) would end Castbed as if all promises held.
_USERS_FAULT = (Exception, SystemExit)


@dataclass(frozen=True)
class Definition:
    """A scenario as its file defines it."""

    name: str
    summary: str
    function: Callable[..., Scenario | Sequence[Variant]]
    claims: Callable[[Runs], Iterable[Claim]] | None = None
    sweep: Callable[[Runs], Sweep | Sequence[Sweep]] | None = None
    tables: Callable[[Runs], Iterable[Table]] | None = None

    @property
    def keys(self) -> dict[str, Callable[[str], Any]]:
        """The keys that can be set, each with the function that reads its text."""
        own = _own_keys(self.function)
        others = _link_keys(self.function) | WORKLOAD_KEYS | STREAM_KEYS
        return own | {key: read for key, read in others.items() if key not in own}

    def build(self, settings: Mapping[str, str]) -> tuple[Variant, ...]:
        """The runs of the scenario with these keys set."""
        values = {key: self._read(key, text) for key, text in settings.items()}
        workload = {key: values.pop(key) for key in WORKLOAD_KEYS if key in values}
        own = _own_keys(self.function)
        more = {key: values.pop(key) for key in STREAM_KEYS if key in values and key not in own}
        arguments = {PROPERTIES[key].field if key in _link_keys(self.function) else key: value for key, value in values.items()}
        try:
            variants = tuple(_variants(self.function(**arguments)))
            return tuple(dataclasses.replace(variant, scenario=_with(variant.scenario, workload, **more)) for variant in variants)
        except (ScenarioError, NetworkError, GroupError) as error:
            raise ScenarioError(f"scenario {self.name}: {error}") from None
        except _USERS_FAULT as error:
            raise ScenarioError(f"scenario {self.name} fails{_why(error)}") from error

    def conclude(self, runs: Sequence[MeasuredRun]) -> list[Claim]:
        """Evaluate the claims on these runs; an empty list if the scenario makes none."""
        return self._call("claims", lambda: evaluate(self.claims, runs) if self.claims else [])

    def pictures(self, runs: Sequence[MeasuredRun]) -> list[Sweep]:
        """The sweeps that the scenario draws from its runs, with intervals over seeds; none if a run is missing."""
        by_seed = self._by_seed("sweep", lambda chosen: _several(self.sweep(chosen)) if self.sweep else [], runs)
        return [over_repeats(same) for same in zip(*by_seed, strict=True)]

    def compare_tables(self, runs: Sequence[MeasuredRun]) -> list[ComparedTable]:
        """The tables of a paper beside ours, with intervals over seeds; none if a run is missing."""
        return compare_tables(self._by_seed("tables", lambda chosen: list(self.tables(chosen)) if self.tables else [], runs))

    def _by_seed(self, name: str, function: Callable[[Runs], list[T]], runs: Sequence[MeasuredRun]) -> list[list[T]]:
        """What a function of the script makes of the runs of each seed."""
        seeds = dict.fromkeys(run.summary.seed for run in runs)
        of_seed = [Runs([run for run in runs if run.summary.seed == seed]) for seed in seeds]
        try:
            return [self._call(name, partial(function, chosen)) for chosen in of_seed]
        except MissingRun:
            return []

    def _call(self, name: str, function: Callable[[], T]) -> T:
        """Call a function of the user's script; its failure becomes a sentence."""
        try:
            return function()
        except MissingRun:
            raise
        except _USERS_FAULT as error:
            raise ScenarioError(f"{name}() of scenario {self.name} fails{_why(error)}") from error

    def _read(self, key: str, text: str) -> Any:
        if key not in self.keys:
            raise ScenarioError(f"scenario {self.name} has no key {key!r}: choose from {', '.join(self.keys)}")
        try:
            return self.keys[key](text)
        except ValueError as error:
            raise ScenarioError(f"scenario {self.name}: {key}: {error}") from None


def find(name: str) -> Definition:
    """The scenario of this name, or in this file if the name ends in `.py`."""
    path = Path(name) if name.endswith(".py") else _files().get(name)
    if path is None or not path.exists():
        close = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ScenarioError(
            f"there is no scenario {name!r}: {hint}choose from {', '.join(names())}, or give a file that ends in .py"
        )
    return _load(path)


def names() -> list[str]:
    """The names of the scenarios that come with Castbed."""
    return sorted(_files())


def every() -> Iterable[Definition]:
    """All scenarios that come with Castbed."""
    return map(find, names())


def _files() -> dict[str, Path]:
    """The files of the scenarios that come with Castbed, by name. Each paper has a folder; its `__init__.py` names the paper."""
    return {path.stem: path for path in HERE.glob("*/*.py") if path.stem != "__init__"}


def _load(path: Path) -> Definition:
    try:
        module = runpy.run_path(str(path))
    except _USERS_FAULT as error:
        raise ScenarioError(f"{path} cannot be loaded{_why(error)}") from error
    if "scenario" not in module:
        raise ScenarioError(f"{path} has no function scenario(): see scenarios/general/grid.py for an example")
    for name in _OPTIONAL:
        _check_takes_runs(path, name, module.get(name))
    summary = inspect.cleandoc(module["__doc__"] or "").split("\n", 1)[0]
    return Definition(path.stem, summary, module["scenario"], *(module.get(name) for name in _OPTIONAL))


def _check_takes_runs(path: Path, name: str, function: Any) -> None:
    """Refuse a function that cannot be called with the runs, before any run is made."""
    if function is not None and not (callable(function) and len(inspect.signature(function).parameters) == 1):
        raise ScenarioError(f"{path}: {name} must be a function of one argument, the runs: def {name}(runs: Runs)")


def _several(drawn: Sweep | Sequence[Sweep]) -> list[Sweep]:
    return [drawn] if isinstance(drawn, Sweep) else list(drawn)


def _variants(result: Any) -> Iterable[Variant]:
    """The runs that a scenario returned; their labels must differ."""
    if isinstance(result, Scenario):
        return (Variant(protocol, result, protocol) for protocol in result.protocols)
    if not isinstance(result, Sequence) or not result or not all(isinstance(variant, Variant) for variant in result):
        raise ScenarioError("scenario() must return a Scenario, or Variants in a list or tuple")
    labels = [variant.label for variant in result]
    for label in labels:
        if labels.count(label) > 1:
            raise ScenarioError(f"two runs have the label {label!r}: give each run its own label")
    return result


def _with(scenario: Scenario, workload: Mapping[str, Any], sources: str = "", groups: str = "") -> Scenario:
    """The scenario with these keys of its workload, sources and groups set."""
    useless = [key for key in workload if key != "settle"] + ["sources"] * bool(sources)
    if scenario.script is not None and useless:
        raise ScenarioError(f"{useless[0]} cannot be set: each broadcast of this scenario has its own source, time and size")
    hosts = scenario.network.hosts
    return dataclasses.replace(
        scenario,
        workload=dataclasses.replace(scenario.workload, **workload),
        sources=(hosts if sources == "all" else tuple(sources.split(","))) if sources else scenario.sources,
        groups=read_groups(groups, hosts) if groups else scenario.groups,
    )


def _why(error: BaseException) -> str:
    """Where and why a script failed. The line is that of the innermost frame, without our own frame and those of the interpreter."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)[1:] if not frame.filename.startswith("<frozen ")]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    called = "sys.exit() was called, which a scenario must not do" if isinstance(error, SystemExit) else str(error)
    return f"{where}: {type(error).__name__}: {called}"


def _own_keys(function: Callable[..., Any]) -> dict[str, Callable[[str], Any]]:
    hints = typing.get_type_hints(function, include_extras=True)
    named = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    return {parameter.name: _reader(hints[parameter.name]) for parameter in named}


def _link_keys(function: Callable[..., Any]) -> dict[str, Callable[[str], Any]]:
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values()):
        return {key: known.parse for key, known in PROPERTIES.items()}
    return {}


def _reader(hint: Any) -> Callable[[str], Any]:
    """The function that reads text as a value of this type: the function that an annotated type names, else a plain one."""
    reader: Callable[[str], Any] = hint.__metadata__[0] if hasattr(hint, "__metadata__") else _PLAIN.get(hint, hint)
    return reader


_PLAIN: dict[Any, Callable[[str], Any]] = {int: signed_whole, float: number, Arrivals: str}
STREAM_KEYS: dict[str, Callable[[str], Any]] = {"sources": str, "groups": str}
WORKLOAD_KEYS = {name: _reader(hint) for name, hint in typing.get_type_hints(Workload, include_extras=True).items()}
