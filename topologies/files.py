"""Networks in files: JSON to edit by hand, and GraphML to exchange with graph tools.

JSON is one object. `name`, `hosts`, `switches` and `links` are required, `positions` and `comments`, a list of texts, are not:

    {
      "name": "two offices",
      "hosts": ["h1", "h2"],
      "switches": ["s1", "s2"],
      "links": [
        {"a": "h1", "b": "s1"},
        {"a": "h2", "b": "s2"},
        {"a": "s1", "b": "s2", "cost": "expensive", "bandwidth": "10mbit", "delay": "20ms", "jitter": "1ms", "loss": "1%", "queue": 100}
      ],
      "positions": {"s1": [0, 0], "s2": [1, 0]}
    }

A property that a link leaves out has the default of `Link`: cheap, unlimited, and without delay, loss, bursts of loss (`burst`),
duplicates (`duplicate`) or reordering (`reorder`). `topologies.units` reads the quantities.

GraphML holds the same data. The id of a node is its name, its attribute `kind` is host or switch, and `x` and `y` are its position. An
edge has the attributes of a JSON link as text. Graph tools keep neither the order nor the direction of edges, but ports are numbered by
the order, and links named by the direction. So an edge also has `number`, its position among the links, and `a`, the end that is named
first; files of other tools may leave both out. The name of the network is the attribute `name` of the graph, or else the file name.

Reading a file of either format gives exactly the network that was written.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal
from xml.etree.ElementTree import ParseError

import msgspec

from topologies.layout import Place
from topologies.network import Cost, Link, Network, NetworkError
from topologies.properties import PROPERTIES


class _LinkText(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    a: str
    b: str
    cost: Cost = Cost.CHEAP
    bandwidth: str | None = None
    delay: str | None = None
    jitter: str | None = None
    loss: str | None = None
    burst: str | None = None
    duplicate: str | None = None
    reorder: str | None = None
    queue: int | None = None


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    links: list[dict[str, Any]]
    positions: dict[str, Place] = {}
    comments: tuple[str, ...] = ()
    """For people who read the file."""
    format: int = 1
    """The format version that every file of a run has (`runfiles.format`). Networks are the same in all versions."""


class _NodeText(msgspec.Struct):
    """A node. Graph tools add their own attributes, such as labels and colours, so unknown attributes are ignored."""

    kind: Literal["host", "switch"]
    x: float | None = None
    y: float | None = None


def load(path: str | Path) -> Network:
    """Read a network from a .json or .graphml file."""
    path = Path(path)
    reader, _ = _format(path)
    try:
        return reader(path)
    except OSError as error:
        raise NetworkError(f"cannot read {path}: {error.strerror}") from error
    except NetworkError as error:
        raise NetworkError(f"{path}: {error}") from error


def dump(network: Network, path: str | Path) -> None:
    """Write a network to a .json or .graphml file."""
    path = Path(path)
    _, writer = _format(path)
    try:
        writer(network, path)
    except OSError as error:
        raise NetworkError(f"cannot write {path}: {error.strerror}") from error


def _format(path: Path) -> tuple[Callable[[Path], Network], Callable[[Network, Path], None]]:
    if path.suffix not in FORMATS:
        raise NetworkError(f"cannot tell the format of {path}: its name must end in {' or '.join(FORMATS)}")
    return FORMATS[path.suffix]


def _load_json(path: Path) -> Network:
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except msgspec.ValidationError as error:
        raise NetworkError(_sentence(error, _Document)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NetworkError(f"this is not JSON: {error}") from error
    links = tuple(link_of(f"link number {number}", texts) for number, texts in enumerate(document.links, start=1))
    return Network(document.name, document.hosts, document.switches, links, document.positions)


def _dump_json(network: Network, path: Path) -> None:
    """Write one line for each link and each position, so that people can edit the file and `diff` can compare it."""
    positions = (f"{_json(node)}: {_json(place)}" for node, place in network.positions.items())
    fields = {
        "name": _json(network.name),
        "hosts": _json(network.hosts),
        "switches": _json(network.switches),
        "links": _lines("[]", (_json(_texts(link)) for link in network.links)),
        "positions": _lines("{}", positions),
    }
    path.write_text(_lines("{}", (f'"{key}": {value}' for key, value in fields.items()), "") + "\n", encoding="utf-8")


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _lines(brackets: str, items: Iterable[str], indent: str = "  ") -> str:
    inside = ",\n".join(f"{indent}  {item}" for item in items)
    return f"{brackets[0]}\n{inside}\n{indent}{brackets[1]}" if inside else brackets


def _load_graphml(path: Path) -> Network:
    import networkx as nx  # noqa: PLC0415 - takes long to import

    try:
        graph = nx.read_graphml(path)
    except (ParseError, nx.NetworkXError, KeyError, ValueError) as error:
        raise NetworkError(f"this is not GraphML: {error}") from error
    nodes = {name: _node(name, attributes) for name, attributes in graph.nodes(data=True)}
    links = sorted(graph.edges(data=True), key=_edge_number)
    return Network(
        graph.graph.get("name", path.stem),
        tuple(name for name, node in nodes.items() if node.kind == "host"),
        tuple(name for name, node in nodes.items() if node.kind == "switch"),
        tuple(_edge(*edge) for edge in links),
        {name: (node.x, node.y) for name, node in nodes.items() if node.x is not None and node.y is not None},
    )


def _dump_graphml(network: Network, path: Path) -> None:
    import networkx as nx  # noqa: PLC0415 - takes long to import

    graph = nx.Graph(name=network.name)
    for kind, names in (("host", network.hosts), ("switch", network.switches)):
        graph.add_nodes_from(names, kind=kind)
    for name, (x, y) in network.positions.items():
        graph.add_node(name, x=float(x), y=float(y))
    for number, link in enumerate(network.links):
        texts = msgspec.to_builtins(_texts(link))
        graph.add_edge(link.a, texts.pop("b"), number=number, **texts)
    nx.write_graphml_xml(graph, path)


def _node(name: str, attributes: Mapping[str, Any]) -> _NodeText:
    try:
        return msgspec.convert(attributes, _NodeText)
    except msgspec.ValidationError as error:
        raise NetworkError(f"node {name!r}: {_sentence(error, _NodeText)}") from error


def _edge_number(edge: tuple[str, str, Mapping[str, Any]]) -> int:
    number = edge[2].get("number", 0)
    if not isinstance(number, int):
        raise NetworkError(f"link {edge[0]}-{edge[1]}: its attribute number must be a whole number, not {number!r}")
    return number


def _edge(one: str, other: str, attributes: Mapping[str, Any]) -> Link:
    known = {key: value for key, value in attributes.items() if key in _LinkText.__struct_fields__}
    first = known.get("a", one)
    return link_of("an edge", known | {"a": first, "b": one if first == other else other})


def link_of(where: str, texts: Mapping[str, Any]) -> Link:
    """The link that `texts` describe; `where` names the link in errors if its ends are not known."""
    if "a" in texts and "b" in texts:
        where = f"link {texts['a']}-{texts['b']}"
    try:
        values = msgspec.structs.asdict(msgspec.convert(texts, _LinkText))
        given = {key: values.pop(key) for key in PROPERTIES}
        parsed = {PROPERTIES[key].field: PROPERTIES[key].parse(str(text)) for key, text in given.items() if text is not None}
    except msgspec.ValidationError as error:
        raise NetworkError(f"{where}: {_sentence(error, _LinkText)}") from error
    except ValueError as error:
        raise NetworkError(f"{where}: {error}") from error
    return Link(**values, **parsed)


def _texts(link: Link) -> _LinkText:
    default = Link(link.a, link.b)
    texts: dict[str, Any] = {}
    for key, known in PROPERTIES.items():
        value = getattr(link, known.field)
        if value != getattr(default, known.field):
            texts[key] = value if key == "queue" else known.format(value)
    return _LinkText(link.a, link.b, link.cost, **texts)


def _sentence(error: msgspec.ValidationError, kind: type[msgspec.Struct]) -> str:
    """The message of msgspec in the words of the file format."""
    text, _, where = str(error).replace("`", "").partition(" - at $")
    text = text.replace("Object missing required field", "it needs the field")
    text = re.sub(
        "Object contains unknown field (.*)", rf"there is no field \1: choose from {', '.join(kind.__struct_fields__)}", text
    )
    return f"{where.strip('.')}: {text}" if where else text


FORMATS = {".json": (_load_json, _dump_json), ".graphml": (_load_graphml, _dump_graphml)}
