"""The command new: writes a small file that works, to be changed. Returns the exit status."""

import re
from argparse import Namespace
from pathlib import Path

from hostagent.protocols import PROTOCOLS
from scenarios import catalogue
from testbed.errors import CannotRun
from testbed.ownership import hand_over
from testbed.status import HOLDS
from testbed.terminal import output

TEMPLATES = {path.stem: path for path in Path(__file__).with_name("templates").glob("[!_]*")}
"""The files to copy, by kind. In each of them `gossip` stands for the name, and `Gossip` for the name of a class."""
_TRY = {
    "protocol": (
        "./castbed campaign --protocol {file} --schedules 50",
        "./castbed run clusters --on simulator --protocol {file} --protocol basic",
    ),
    "scenario": ("./castbed run {file} --on simulator",),
    "network": ("./castbed topology {file}", "./castbed run topology --set of={file} --on simulator --protocol basic"),
}


def command(arguments: Namespace) -> int:
    """Write a protocol, a scenario or a network into the current directory, and say how to try it."""
    template = TEMPLATES[arguments.kind]
    name = arguments.name.removesuffix(template.suffix)
    taken = {"protocol": PROTOCOLS, "scenario": catalogue.names()}.get(arguments.kind, ())
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", name):
        raise CannotRun(
            f"{name!r} cannot be the name of a {arguments.kind}: begin with a letter, and use letters, digits, _ and -"
        )
    if name in taken:
        raise CannotRun(f"Castbed has a {arguments.kind} {name} already: choose another name")
    file = Path(f"{name}{template.suffix}")
    hand_over(file)
    text = template.read_text().replace("gossip", name).replace("Gossip", _class_name(name))
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise CannotRun(f"{file} exists already: choose another name, or remove it") from None
    output.print(f"{file} is there, and works; try it, then change it:", soft_wrap=True)
    for line in _TRY[arguments.kind]:
        output.print(f"  {line.format(file=file)}", soft_wrap=True)
    return HOLDS


def _class_name(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split("[_-]", name))
