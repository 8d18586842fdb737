"""Tasks, their result directories, and the part of a run's record that is the same for every engine."""

import platform
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from hostagent.contract.messages import EVERYBODY
from hostagent.contract.promises import Promise
from hostagent.protocols import PROTOCOLS
from hostagent.runtime.own import LOADED, Own
from runfiles.format import OWN_PROTOCOL, Medium, RunRecord, write
from runfiles.networks import write_network
from scenarios import Scenario
from scenarios.faults import Fault, check_kinds, name_of
from scenarios.membership import check_known
from scenarios.scenario import dump as dump_scenario
from testbed.errors import CannotRun
from testbed.ownership import first_missing
from testbed.version import castbed_version

_PACKAGES = ("ryu", "pyspark", "matplotlib", "msgspec")


@dataclass(frozen=True)
class Task:
    """One run to make: a scenario, a protocol with parameters, a seed, and the result directory."""

    scenario_name: str
    scenario: Scenario
    settings: dict[str, str]
    protocol: str
    parameters: dict[str, Any]
    seed: int
    output: Path
    label: str = ""
    pack_ms: float | None = 0.0
    medium: Medium = "unicast"
    full_packets: bool = False
    """Whether captures have whole packets, and not only their headers."""

    def __post_init__(self) -> None:
        check_messages(self, self.scenario.faults)

    @property
    def routed_groups(self) -> dict[int, tuple[str, ...]]:
        """The members of the groups that the network carries one datagram to, by number: all groups on multicast, else none."""
        return {EVERYBODY: self.scenario.network.hosts, **self.scenario.members} if self.medium == "multicast" else {}

    @property
    def own(self) -> Own | None:
        """The protocol's file if it is a user's."""
        return LOADED.get(self.protocol)


def check_messages(task: Task, faults: Iterable[Fault]) -> None:
    """Refuse faults on kinds of messages that the protocol of a task does not have, and joins and leaves if it knows no membership."""
    core, faults = PROTOCOLS[task.protocol], tuple(faults)
    check_kinds(faults, task.protocol, [message.__name__ for message in core.messages])
    check_known(faults, task.protocol, knows_membership=core.knows_membership)


@contextmanager
def result_directory(task: Task) -> Iterator[None]:
    """Make the result directory of a task, with its network and scenario, for the body to fill. If the run fails, it is removed."""
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
    if task.own is not None and not task.own.is_guest:
        (task.output / OWN_PROTOCOL).mkdir()
        copied = task.output / OWN_PROTOCOL / task.own.file_name
        copied.write_bytes(task.own.source)
        if task.own.words is not None:
            copied.chmod(0o755)


@contextmanager
def unfinished_removed(*outputs: Path) -> Iterator[None]:
    """If the body fails, remove the result directories that it has made and not finished. Everything else stays."""
    new = [(output, first_missing(output)) for output in outputs if not output.exists()]
    try:
        yield
    except BaseException:
        for output, highest in new:
            if not is_finished(output):
                shutil.rmtree(output, ignore_errors=True)
                # Remove the directories above that were made for it alone.
                for above in output.parents[: len(output.parents) - len(highest.parents)]:
                    with suppress(OSError):
                        above.rmdir()
        raise


def is_finished(output: Path) -> bool:
    """Whether the run in a result directory is complete."""
    return (output / "run.json").exists()


def write_record(run_record: RunRecord, output: Path) -> None:
    """Write the record of a finished run, which makes its directory complete."""
    write(output / "run.json", run_record)


def described(task: Task) -> dict[str, Any]:
    """The fields of a run's record that come from the task, for every engine."""
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
        "medium": task.medium,
        "kinds": tuple(kind.__name__ for kind in core.messages),
        "program": task.own.words if task.own and not task.own.is_guest else None,
        "guest": task.own is not None and task.own.is_guest,
    }


def promise_of(task: Task) -> Promise:
    """The promise of the task's protocol, with its parameters, for the hosts of the network."""
    core = PROTOCOLS[task.protocol]
    parameters = msgspec.convert(task.parameters, core.Parameters)
    return core.promise(parameters, len(task.scenario.network.hosts)).packed(task.pack_ms)


def never_fired(faults: Iterable[Fault]) -> list[str]:
    """A sentence for each fault whose trigger did not fire."""
    return [f"the fault {name_of(fault)} {fault.target} never happened: its trigger did not fire" for fault in faults]


def versions() -> dict[str, str]:
    """The versions of Castbed, Python, the kernel and the packages that matter."""
    found = {"castbed": castbed_version(), "python": platform.python_version(), "kernel": platform.release()}
    for package in _PACKAGES:
        # A machine for the simulator only may lack some packages.
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
