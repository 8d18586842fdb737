"""The commands list, guests, doctor, clean, routes, dissector, controller, topology and test. Every function returns the exit status."""

import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from hostagent.protocols import PROTOCOLS
from hostagent.runtime import own
from hostagent.runtime.guests.catalogue import GUESTS, PLACE, PREFIX, install
from hostagent.tools.dissector import dissector as lua
from runfiles.reading import load, runs_in
from scenarios import catalogue
from scenarios.faults import FAULTS
from testbed.commands.sharing import opened
from testbed.errors import CannotRun
from testbed.network import doctor, record
from testbed.ownership import hand_over
from testbed.status import HOLDS, UNKNOWN
from testbed.terminal import errors, output, print_table
from topologies import Network, NetworkError, choices, dump, find
from topologies.files import FORMATS

ROOT = Path(__file__).parents[2]


def list_all(arguments: Namespace) -> int:
    """Show every scenario, protocol, guest, fault and topology that can be named on a command line."""
    entries = {
        "scenarios": [(found.name, found.summary) for found in catalogue.every()],
        "protocols": [(core.name, core.summary) for core in PROTOCOLS.values()],
        "guests": [(f"{PREFIX}{guest.name}", guest.summary) for guest in GUESTS.values()],
        "faults": [(name, " ".join((kind.__doc__ or "").split())) for name, kind in FAULTS.items()],
        "topologies": choices(),
    }
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode({kind: dict(rows) for kind, rows in entries.items()}) + b"\n")
        return HOLDS
    for kind, rows in entries.items():
        output.print(Text(kind, "bold"))
        width = max(len(name) for name, _ in rows)
        for name, description in rows:
            line = f"  {name:{width}}  {description}"
            # One line each. On a terminal it ends with the last word that fits; `show` has the whole sentence.
            output.print(_shortened(line, output.width) if output.is_terminal else line, soft_wrap=True)
    output.print("./castbed show NAME has the keys of each, with default, unit and meaning.")
    return HOLDS


def _shortened(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 1].rpartition(' ')[0].rstrip(',;:')} …"


def examine(arguments: Namespace) -> int:
    """Show what this machine can do, and what is missing."""
    machine = doctor.examine(arguments.out or Path("results"))
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(machine) + b"\n")
    else:
        table = Table(box=None, padding=(0, 2), show_header=False)
        for finding in machine.findings:
            mark = "ok" if not finding.remedy else "missing" if finding.needed else "note"
            table.add_row(mark, finding.what, finding.state, finding.remedy)
        print_table(table)
        output.print(f"Packets are switched by the {machine.datapath} datapath; links are shaped by {machine.shaping}.")
    return UNKNOWN if machine.missing else HOLDS


def clean(arguments: Namespace) -> int:  # noqa: ARG001 - it takes no arguments
    """Remove what killed runs left behind."""
    if not doctor.is_root():
        raise CannotRun("clean removes bridges and namespaces: run it with sudo")
    tags = record.clean()
    output.print(f"cleaned up after {len(tags)} dead runs: {', '.join(tags)}" if tags else "nothing to clean up")
    return HOLDS


def routes(arguments: Namespace) -> int:
    """Show the flows that the controller would install, and the path between any two hosts."""
    from controller.explain import explain, rows

    network = find(arguments.topology)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode([row._asdict() for row in rows(network)]) + b"\n")
    else:
        for line in explain(network):
            output.print(line, soft_wrap=True)
    return HOLDS


def dissector(arguments: Namespace) -> int:
    """Print the dissector for Wireshark, with the names of the hosts of a run and the messages of a user's protocol."""
    if arguments.protocol:
        own.find(arguments.protocol)
    runs = [load(directory) for directory in runs_in([opened(arguments.run)])] if arguments.run else []
    hosts = {run.network.hosts for run in runs}
    if len(hosts) > 1:
        raise CannotRun(f"the runs in {arguments.run} have different hosts: name one of them")
    sys.stdout.write(lua(next(iter(hosts), ())))
    return HOLDS


def controller(arguments: Namespace) -> int:
    """Run the controller by hand, for a network that was made elsewhere."""
    from controller.log import Log
    from controller.server import run as serve

    serve(find(arguments.topology), arguments.listen, Log(sys.stdout))


def topology(arguments: Namespace) -> int:
    """Show the size, the clusters and the lower bound of a network, and save it as a file or a picture."""
    network = find(arguments.topology)
    facts = {
        "name": network.name,
        "hosts": len(network.hosts),
        "switches": len(network.switches),
        "links": len(network.links),
        "expensive_links": sum(link.expensive for link in network.links),
        "clusters": network.clusters,
        "lower_bound": network.lower_bound,
    }
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(facts) + b"\n")
    else:
        _print_facts(network, facts)
    hand_over(*arguments.save)
    for path in arguments.save:
        _save(network, path)
        errors.print(f"wrote {path}", soft_wrap=True)
    return HOLDS


def _print_facts(network: Network, facts: dict[str, Any]) -> None:
    output.print(f"{facts['name']}: {facts['hosts']} hosts, {facts['switches']} switches, {facts['links']} links", soft_wrap=True)
    output.print(f"{facts['expensive_links']} of them expensive, between {len(network.clusters)} clusters")
    output.print(f"least expensive packets per message, with one packet a message: {network.lower_bound}")
    for number, cluster in enumerate(network.clusters, start=1):
        output.print(f"  cluster {number}: {' '.join(cluster)}", soft_wrap=True)


def _save(network: Network, path: Path) -> None:
    if path.suffix in FORMATS:
        dump(network, path)
    elif path.suffix in {".png", ".svg", ".pdf"}:
        from topologies.drawing import figure

        figure(network, title=network.name).savefig(path)
    else:
        raise NetworkError(f"cannot save {path}: the name must end in {', '.join(FORMATS)}, .png, .svg or .pdf")


def test(arguments: Namespace) -> int:
    """Check style, types and behaviour of Castbed itself."""
    python = sys.executable
    steps = [
        [python, "-m", "ruff", "check", "--quiet", "."],
        [python, "-m", "ruff", "format", "--quiet", "--check", "."],
        [python, "-m", "mypy"],
        # Two processes: tests on Mininet mostly wait. Tests of one file share networks and sessions, so one process runs them.
        [python, "-m", "pytest", *(arguments.words or ("-n", "2", "--dist", "loadfile"))],
    ]
    for step in steps if not arguments.words else steps[-1:]:
        errors.print(f"castbed test: {' '.join(step[2:])}", soft_wrap=True)
        status = subprocess.run(step, cwd=ROOT, check=False).returncode
        if status != 0:
            return status
    return HOLDS


def guests(arguments: Namespace) -> int:
    """List the guests, or install those that are named."""
    if strange := [name for name in arguments.names if name not in GUESTS]:
        raise CannotRun(f"there is no guest {strange[0]!r}: there are {', '.join(GUESTS)}")
    hand_over(PLACE)
    for name in arguments.names:
        _install_guest(name)
    if arguments.names:
        return HOLDS
    table = Table("guest", "installed", "what it is", title="Guests: ./castbed run ... --protocol guest:NAME")
    for guest in GUESTS.values():
        table.add_row(guest.name, "yes" if guest.is_installed else "no", guest.summary)
    print_table(table)
    return HOLDS


def _install_guest(name: str) -> None:
    guest = GUESTS[name]
    if guest.is_installed:
        errors.print(f"guest {name} is installed already", soft_wrap=True)
        return
    errors.print(f"guest {name}: downloading {guest.package}", soft_wrap=True)
    try:
        install(guest)
    except (subprocess.CalledProcessError, OSError) as failure:
        said = failure.stderr if isinstance(failure, subprocess.CalledProcessError) else str(failure)
        last = (said.strip().splitlines() or ["nothing"])[-1]
        raise CannotRun(f"guest {name} could not be installed; the last line was: {last}") from None
    if not guest.is_installed:
        raise CannotRun(f"guest {name} could not be installed: {guest.package} has no {guest.program}")
    errors.print(f"guest {name} is installed in {guest.directory}", soft_wrap=True)
