"""A task, what its result directory holds before anything runs, and what every engine writes into the record of a run."""

import platform
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from hostagent.contract.promises import Promise
from hostagent.protocols import PROTOCOLS
from runfiles.format import RunRecord, write
from runfiles.networks import write_network
from scenarios import Scenario
from scenarios.faults import Fault, check_kinds, name_of
from scenarios.scenario import dump as dump_scenario
from testbed.errors import CannotRun
from testbed.ownership import first_missing

_PACKAGES = ("ryu", "pyspark", "matplotlib", "msgspec")


@dataclass(frozen=True)
class Task:
    """What to run."""

    scenario_name: str
    scenario: Scenario
    settings: dict[str, str]
    protocol: str
    parameters: dict[str, Any]
    seed: int
    output: Path
    label: str = ""
    pack_ms: float | None = 0.0

    def __post_init__(self) -> None:
        check_messages(self, self.scenario.faults)


def check_messages(task: Task, faults: Iterable[Fault]) -> None:
    """Refuse faults on kinds of messages that the protocol of a task does not have."""
    check_kinds(faults, task.protocol, [message.__name__ for message in PROTOCOLS[task.protocol].messages])


@contextmanager
def result_directory(task: Task) -> Iterator[None]:
    """Make the result directory of a task, with what is asked in it, for the body to fill; the directory of a run that fails goes."""
    with unfinished_removed(task.output):
        _make(task)
        yield


def _make(task: Task) -> None:
    try:
        task.output.mkdir(parents=True)
        (task.output / "events").mkdir()
    except FileExistsError:
        raise CannotRun(f"{task.output} exists already: choose another directory with --out, or remove it") from None
    except OSError as error:
        raise CannotRun(f"cannot write {task.output}: {error.strerror}") from None
    write_network(task.scenario.network, task.output / "network.json")
    dump_scenario(task.scenario, task.output / "scenario.json")


@contextmanager
def unfinished_removed(*outputs: Path) -> Iterator[None]:
    """If the body fails, remove those of these result directories that it made and did not finish. Everything else stays."""
    new = [(output, first_missing(output)) for output in outputs if not output.exists()]
    try:
        yield
    except BaseException:
        for output, highest in new:
            if not is_finished(output):
                shutil.rmtree(output, ignore_errors=True)
                # Directories above it that were made for it alone.
                for above in output.parents[: len(output.parents) - len(highest.parents)]:
                    with suppress(OSError):
                        above.rmdir()
        raise


def is_finished(output: Path) -> bool:
    """Whether a run was made to its end."""
    return (output / "run.json").exists()


def write_record(run_record: RunRecord, output: Path) -> None:
    """Write the record of a finished run, which makes its directory complete."""
    write(output / "run.json", run_record)


def described(task: Task) -> dict[str, Any]:
    """What the record of a run says of its task, whatever the engine."""
    core = PROTOCOLS[task.protocol]
    parameters = msgspec.convert(task.parameters, core.Parameters)
    return {
        "scenario": task.scenario_name,
        "label": task.label,
        "protocol": task.protocol,
        "seed": task.seed,
        "settings": dict(task.settings),
        "parameters": msgspec.to_builtins(parameters),
        "promise": promise_of(task),
        "pack_ms": task.pack_ms,
    }


def promise_of(task: Task) -> Promise:
    """What the protocol promises with these parameters among these hosts."""
    core = PROTOCOLS[task.protocol]
    parameters = msgspec.convert(task.parameters, core.Parameters)
    return core.promise(parameters, len(task.scenario.network.hosts)).packed(task.pack_ms)


def never_fired(faults: Iterable[Fault]) -> list[str]:
    """What to say of faults whose trigger did not come."""
    return [f"the fault {name_of(fault)} {fault.target} never happened: its trigger did not fire" for fault in faults]


def versions() -> dict[str, str]:
    """What this run stands on."""
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for package in _PACKAGES:
        # A machine that only simulates may lack some.
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
