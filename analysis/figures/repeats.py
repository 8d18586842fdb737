"""Groups of repeats: runs that differ in nothing but the seed. Groups are named after the settings in which they differ."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from analysis.figures.measured import MeasuredRun
from analysis.figures.summary import Summary
from hostagent.contract.advice import ADVICE
from runfiles.decoding import decode
from runfiles.errors import ResultsError

NOT_SET: Final = "not set"
# Facts about the machine and the seed: runs that differ in these alone are repeats of one experiment.
_NOT_ASKED: Final = frozenset(("seed", "datapath", "shaping"))
# Facts whose value is a name by itself, without the key in front of it; those that name a group best come first.
_SPEAK_FOR_THEMSELVES: Final = ("label", "protocol", "scenario", "engine", "network")
_SIZE: Final = frozenset(("network", "hosts", "clusters"))


@dataclass(frozen=True)
class Group:
    """Repeats of one experiment. Groups that differ in the size of the network alone have the same `line`."""

    name: str
    runs: tuple[MeasuredRun, ...]
    line: str

    @property
    def summaries(self) -> list[Summary]:
        """The summary of each repeat."""
        return [run.summary for run in self.runs]

    @property
    def size(self) -> tuple[int, int]:
        """The number of hosts and the number of clusters."""
        return len(self.runs[0].network.hosts), len(self.runs[0].network.clusters)


def grouped(runs: Sequence[MeasuredRun], by: str = "label") -> list[Group]:
    """Group runs by their value of `by` and by everything else that was set differently, so that a group holds repeats only."""
    told = [facets(run) for run in runs]
    _check_key(by, told)
    values = [_value(facts, by) for facts in told]
    identities = [_identity(run, facts) for run, facts in zip(runs, told, strict=True)]
    together: dict[tuple[str, Any], list[int]] = {}
    for place, key in enumerate(zip(values, identities, strict=True)):
        together.setdefault(key, []).append(place)
    named = _names(by, [(value, told[places[0]]) for (value, _), places in together.items()])
    lines = _lines(by, [told[places[0]] for places in together.values()])
    groups = [
        Group(name, tuple(_repeats([runs[place] for place in places])), line)
        for name, line, places in zip(named, lines, together.values(), strict=True)
    ]
    order = [_number(value) for value, _ in together]
    if by in {"label", "protocol"} or None in order:
        return groups
    return [groups[place] for place in sorted(range(len(groups)), key=lambda place: order[place] or 0.0)]


def facets(run: MeasuredRun) -> dict[str, str]:
    """Everything by which a run can be grouped, as text. Parameters are named as in `--set`."""
    record, network = run.input.run, run.network
    asked = _asked(run.directory)
    return {
        "label": run.label,
        "protocol": record.protocol,
        "scenario": record.scenario,
        "hosts": str(len(network.hosts)),
        "clusters": str(len(network.clusters)),
        "engine": record.engine,
        "medium": record.medium,
        "pack_ms": "off" if record.pack_ms is None else f"{record.pack_ms:g}",
        # A setting may have the name of another fact: the setting `hosts` of a grid counts the hosts of each switch.
        **{key: str(value) for key, value in record.settings.items() if key not in {"hosts", "clusters"}},
        # Advice follows from the network and the other parameters.
        **{f"{record.protocol}.{key}": _text(value) for key, value in record.parameters.items() if key != ADVICE},
        **{key: _text(value) for key, value in asked.get("workload", {}).items()},
        "faults": str(len(asked.get("faults", ()))),
        "network": network.name,
        "seed": str(record.seed),
        "datapath": record.datapath,
        "shaping": record.shaping,
    }


def differing(told: Iterable[Mapping[str, str]]) -> list[str]:
    """The keys whose values are not all the same."""
    every = list(told)
    return [key for key in _keys(every) if len({facts.get(key) for facts in every}) > 1]


def _asked(directory: Path) -> dict[str, Any]:
    """The `scenario.json` of a run; empty for old runs, which have none."""
    try:
        asked = decode((directory / "scenario.json").read_bytes(), dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return {}
    return asked


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _identity(run: MeasuredRun, facts: Mapping[str, str]) -> tuple[Any, ...]:
    asked = {key: value for key, value in facts.items() if key not in _NOT_ASKED}
    scenario = run.directory / "scenario.json"
    return (*asked.items(), run.network, scenario.read_bytes() if scenario.exists() else b"")


def _repeats(runs: list[MeasuredRun]) -> list[MeasuredRun]:
    """The runs in the order of their seeds, without copies. Simulated runs with the same seed are the same run."""
    kept: dict[Any, MeasuredRun] = {}
    for run in sorted(runs, key=lambda run: run.summary.seed):
        made = run.input.run
        kept.setdefault(made.seed if made.engine == "simulator" else (made.run, made.started_ns), run)
    return list(kept.values())


def _keys(told: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(key for facts in told for key in facts))


def _check_key(by: str, told: Sequence[Mapping[str, str]]) -> None:
    if all(_value(facts, by) == NOT_SET for facts in told):
        several = differing(told)
        same = [key for key in _keys(told) if key not in several]
        raise ResultsError(
            f"no run has a value for {by!r}: these runs differ in {', '.join(several) or 'nothing'}; "
            f"the same for all runs are {', '.join(same)}"
        )


def _value(facts: Mapping[str, str], key: str) -> str:
    """The value of a run at a key; a parameter of the run's protocol may be named without the protocol."""
    return facts.get(key, facts.get(f"{facts['protocol']}.{key}", NOT_SET))


def _called(key: str, value: str) -> str:
    if key in _SPEAK_FOR_THEMSELVES:
        return value
    return f"{value} {key}" if key in _SIZE else f"{key} {value}"


def _names(by: str, groups: Sequence[tuple[str, Mapping[str, str]]]) -> list[str]:
    """A name for each group: its value of `by`, and as many other facts as distinguish it from groups with the same value."""
    names = [_called(by, value) for value, _ in groups]
    differ = {name: differing(facts for other, (_, facts) in zip(names, groups, strict=True) if other == name) for name in names}
    chosen: dict[str, list[str]] = {}
    for name, keys in differ.items():
        same = [facts for other, (_, facts) in zip(names, groups, strict=True) if other == name]
        chosen[name] = []
        for key in (key for key in keys if key not in _NOT_ASKED):
            if _distinct(same, [*chosen[name], key]) > _distinct(same, chosen[name]):
                chosen[name].append(key)
    long = [
        ", ".join([name, *(_called(key, facts.get(key, NOT_SET)) for key in chosen[name])])
        for name, (_, facts) in zip(names, groups, strict=True)
    ]
    # Groups that no fact distinguishes, for example by the times of their faults, are numbered.
    numbers = {name: count(1) for name in long}
    return [f"{name} ({next(numbers[name])})" if long.count(name) > 1 else name for name in long]


def _distinct(told: Sequence[Mapping[str, str]], keys: Sequence[str]) -> int:
    return len({tuple(facts.get(key) for key in keys) for facts in told})


def _lines(by: str, told: Sequence[Mapping[str, str]]) -> list[str]:
    """A name for each line of groups that differ in size alone: the protocol, and the facts that differ among groups of equal size."""
    alike: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for facts in told:
        alike.setdefault((facts["protocol"], facts["hosts"], facts["clusters"]), []).append(facts)
    apart = {key for some in alike.values() for key in differing(some)} - _NOT_ASKED - _SIZE - {"label"}
    keys = [key for key in dict.fromkeys([by, *_keys(told)]) if key in apart]
    return [", ".join([facts["protocol"], *(_called(key, facts[key]) for key in keys if key in facts)]) for facts in told]


def _number(text: str) -> float | None:
    """The number at the start of a value; zero for `off` and values that are not set; None for other text."""
    found = re.match(r"-?\d+(\.\d+)?", text)
    return float(found[0]) if found else 0.0 if text in {"off", NOT_SET} else None
