"""Networks by their names on the command line: `grid:rows=4,cols=4,hosts=3`, `topozoo/Arpanet19728`, `office.json`."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from topologies import files, foreign
from topologies.builders import EXPENSIVE_MBIT, SHAPES, clusters, figure_3_1, figure_3_2, grid, lan
from topologies.network import Link, Network, NetworkError
from topologies.properties import PROPERTIES, whole
from topologies.zoo import zoo_names, zoo_network


@dataclass(frozen=True)
class _Parameter:
    """An argument of a builder, the function that reads it from text, and what it means."""

    argument: str
    parse: Callable[[str], Any]
    meaning: str
    required: bool = False


@dataclass(frozen=True)
class _Entry:
    """A builder, its description in `castbed list`, an example, and its own parameters."""

    build: Callable[..., Network]
    description: str
    example: str
    own: dict[str, _Parameter]

    @property
    def parameters(self) -> dict[str, _Parameter]:
        """The own parameters of the builder, and the properties of expensive links."""
        return self.own | {
            key: _Parameter(known.field, known.parse, known.meaning) for key, known in PROPERTIES.items() if key not in self.own
        }


def _yes_or_no(text: str) -> bool:
    if text not in {"yes", "no"}:
        raise ValueError(f"{text!r} is neither yes nor no")
    return text == "yes"


_HOSTS = _Parameter("hosts_per_switch", whole, "hosts at each switch")
_ENTRIES = {
    "grid": _Entry(
        grid,
        "a grid of switches with a LAN of hosts each, expensive links between neighbours",
        "grid:rows=4,cols=4,hosts=3",
        {
            "rows": _Parameter("rows", whole, "rows of switches", required=True),
            "cols": _Parameter("cols", whole, "columns of switches", required=True),
            "hosts": _HOSTS,
        },
    ),
    "clusters": _Entry(
        clusters,
        f"k LANs of size hosts each, joined by expensive links in the shape {', '.join(SHAPES)}",
        "clusters:k=4,size=3,shape=ring",
        {
            "k": _Parameter("k", whole, "clusters", required=True),
            "size": _Parameter("size", whole, "hosts of each cluster", required=True),
            "shape": _Parameter("shape", str, f"how clusters are joined: {', '.join(SHAPES)}", required=True),
            "switches": _Parameter("switches_per_cluster", whole, "switches of each cluster, in a line"),
        },
    ),
    "lan": _Entry(
        lan,
        "one switch with its hosts; bandwidth, loss and so on are those of the links between hosts and switch",
        "lan:hosts=5,bandwidth=10mbit",
        {"hosts": _Parameter("hosts", whole, "hosts of the LAN", required=True)},
    ),
    "figure-3-1": _Entry(figure_3_1, "three hosts around a server without one: figure 3.1 of the first paper", "figure-3-1", {}),
    "figure-3-2": _Entry(
        figure_3_2,
        "six clusters in a tree: figure 3.2 of the first paper; repaired=yes adds the cheap path from C to L",
        "figure-3-2:repaired=yes",
        {"repaired": _Parameter("repaired", _yes_or_no, "whether a cheap path joins the clusters C and L")},
    ),
}
_ZOO = _Entry(
    zoo_network,
    "a real network of topohub, hosts=1 at every node; delays=yes takes the links' delays from their lengths",
    "topozoo/Arpanet19728:hosts=2",
    {"hosts": _HOSTS, "delays": _Parameter("delay_from_length", _yes_or_no, "whether delays follow from the lengths of links")},
)


def find(text: str) -> Network:
    """Find or build the network that `text` names."""
    if text.endswith(tuple(files.FORMATS)):
        return files.load(text)
    name, _, options = text.partition(":")
    if name.endswith(foreign.SUFFIXES):
        return foreign.load(Path(name), dict(option.partition("=")[::2] for option in options.split(",") if option))
    if name in _ENTRIES:
        return _ENTRIES[name].build(**_arguments(name, _ENTRIES[name], options))
    if "/" in name:
        return zoo_network(name, **_arguments(name, _ZOO, options))
    raise NetworkError(
        f"there is no topology {name!r}: choose {', '.join(_ENTRIES)}, a network of topohub such as topozoo/Arpanet19728,"
        f" or a file that ends in {', '.join((*files.FORMATS, *foreign.SUFFIXES))}"
    )


@dataclass(frozen=True)
class TopologyKey:
    """A key of a topology: how its text is read, what it means, and its default; a key without one must be given."""

    name: str
    parse: Callable[[str], Any]
    meaning: str
    default: Any
    required: bool


def keys_of(name: str) -> tuple[str, str, list[TopologyKey]] | None:
    """The description of a topology, an example, and its keys; None if there is none of this name."""
    entry = _ENTRIES.get(name) or (_ZOO if name == "topozoo" or ("/" in name and name in zoo_names()) else None)
    if entry is None:
        return None
    defaults = {known.name: known.default for known in inspect.signature(entry.build).parameters.values()}
    # Links that are not expensive have no limit; those of a LAN are such links.
    limits = {field.name: field.default for field in fields(Link)} | ({} if name == "lan" else {"bandwidth_mbit": EXPENSIVE_MBIT})
    return (
        entry.description,
        entry.example,
        [
            TopologyKey(key, known.parse, known.meaning, defaults.get(known.argument, limits.get(known.argument)), known.required)
            for key, known in entry.parameters.items()
        ],
    )


def names() -> list[str]:
    """The names of the builders."""
    return list(_ENTRIES)


def choices() -> list[tuple[str, str]]:
    """List what `find` accepts: an example and a description of each choice."""
    return [
        *((entry.example, entry.description) for entry in (*_ENTRIES.values(), _ZOO)),
        ("PATH.json, PATH.graphml", "a network from a file"),
        ("PATH.py:topo=NAME", "a Topo of Mininet, from a file for mn --custom"),
        ("PATH.clab.yml", "a topology of containerlab; labels of links may have bandwidth, delay and so on"),
    ]


def _arguments(name: str, entry: _Entry, options: str) -> dict[str, Any]:
    """Turn `rows=4,cols=4` into keyword arguments for the entry's builder."""
    arguments = {}
    for option in options.split(",") if options else []:
        key, _, value = option.partition("=")
        if key not in entry.parameters:
            raise NetworkError(f"{name} has no parameter {key!r}: choose from {', '.join(entry.parameters)}")
        parameter = entry.parameters[key]
        if parameter.argument in arguments:
            raise NetworkError(f"{name}: {key} is given twice")
        try:
            arguments[parameter.argument] = parameter.parse(value)
        except ValueError as error:
            raise NetworkError(f"{name}: {key}: {error}") from error
    missing = [key for key, parameter in entry.own.items() if parameter.required and parameter.argument not in arguments]
    if missing:
        raise NetworkError(f"{name} needs {' and '.join(missing)}: for example {entry.example}")
    return arguments
