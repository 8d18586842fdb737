"""The command show, and the keys in the help of run and sweep: what can be set, with default, unit and meaning."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.box import SIMPLE_HEAD
from rich.table import Table

from hostagent.protocols import PROTOCOLS
from hostagent.runtime import own
from hostagent.runtime.guests import catalogue as guests
from scenarios import catalogue
from scenarios.faults import FAULTS
from testbed.commands.names.keys import Key, fault_keys, protocol_keys, scenario_keys, topology_keys, trigger_keys
from testbed.errors import CannotRun
from testbed.status import HOLDS
from testbed.terminal import output, print_sentence, print_table
from topologies import catalogue as networks
from topologies import files, foreign


class Described(NamedTuple):
    """Something with a name on the command line: what it is, a sentence about it, how it is used, and its keys."""

    kind: str
    name: str
    about: str
    usage: str
    keys: list[Key]


def show(arguments: Namespace) -> int:
    """Show every scenario, protocol, fault and topology of a name, with its keys."""
    found = list(described(arguments.name))
    if not found:
        raise CannotRun(_unknown(arguments.name))
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode([one._asdict() for one in found]) + b"\n")
        return HOLDS
    for one in found:
        tell(one)
    return HOLDS


def _unknown(name: str) -> str:
    if name in guests.GUESTS:
        return f"{name} is a guest: write {guests.PREFIX}{name}"
    if name.endswith((*files.FORMATS, *foreign.SUFFIXES)):
        return f"{name} is the file of a network, which has no keys: ./castbed topology {shlex.quote(name)} shows it"
    return f"nothing is called {name!r}: ./castbed list has all names"


def described(name: str) -> Iterator[Described]:
    """Everything of this name."""
    if name in catalogue.names() or _is_scenario(name):
        yield scenario(name)
    asked, name = name, _protocol(name)
    if name in PROTOCOLS:
        core = PROTOCOLS[name]
        usage = f"./castbed run SCENARIO --protocol {shlex.quote(asked)} --set {name}.PARAMETER=VALUE"
        yield Described("protocol", name, f"{core.summary}; assumes {core.assumes}", usage, protocol_keys(core))
    if name in FAULTS:
        about = " ".join((FAULTS[name].__doc__ or "").split())
        yield Described("fault", name, about, "an item of a file for --faults, see docs/faults.md", fault_keys(FAULTS[name]))
        yield Described("event", "when", "the event that a fault waits for", "the field `when` of a fault", trigger_keys())
    if known := networks.keys_of(name.partition(":")[0]):
        about, example, keys = known
        yield Described("topology", name, about, f"./castbed topology {example}", topology_keys(keys))


def _protocol(name: str) -> str:
    """The name of the protocol that a user writes as a file, a program or a guest; other names as they are."""
    written = name.endswith(own.SUFFIX) or name.startswith((own.MAELSTROM, guests.PREFIX))
    return own.find(name) if written and not _is_scenario(name) else name


def _is_scenario(name: str) -> bool:
    """Whether a name is that of a file with a scenario; a user's file may hold a protocol as well."""
    path = Path(name)
    return name.endswith(".py") and path.is_file() and "def scenario(" in path.read_text(errors="replace")


def scenario(name: str) -> Described:
    """A scenario by its name or file."""
    definition = catalogue.find(name)
    return Described("scenario", name, definition.summary, f"./castbed run {name} --set KEY=VALUE", scenario_keys(definition))


def tell(one: Described) -> None:
    """Print it."""
    print_sentence(f"{one.kind} {one.name}: {one.about}")
    output.print(f"  {one.usage}", soft_wrap=True)
    if not one.keys:
        output.print("  It has no keys.")
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("key", no_wrap=True)
    for heading in ("default", "unit", "meaning"):
        table.add_column(heading)
    for key in one.keys:
        table.add_row(key.key, key.default or "-", key.unit, key.meaning)
    print_table(table)
