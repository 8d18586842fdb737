"""Networks that were written for other tools: Mininet's `Topo` classes and containerlab's YAML.

A file of Mininet is one for `mn --custom`: it has `topos`, a dictionary of functions that make a `Topo`, or a class that is one. The
parameters of a link that shape it (`bw`, `delay`, `jitter`, `loss`, `max_queue_size`) are taken over. The file is run, and imports Mininet.

    class Offices(Topo):
        def build(self, hosts=2):
            one, other = self.addSwitch("s1"), self.addSwitch("s2")
            self.addLink(one, other, bw=10, delay="20ms")
            ...

A file of containerlab has nodes and links. A node of kind `linux` with one link is a host, and all others are switches, whatever they run.
Links have no limits there; `labels` of a link, which containerlab leaves to others, may have the properties of a link in our words:

    - endpoints: ["leaf1:e1-1", "spine1:e1-1"]
      labels: {bandwidth: 10mbit, delay: 20ms}

In both, links between switches are expensive, unless they say `cost: cheap` (in Mininet `addLink(..., cost="cheap")`).
"""

import runpy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from topologies.files import link_of
from topologies.network import Link, Network, NetworkError
from topologies.properties import PROPERTIES

_OF_MININET = {"bw": "bandwidth", "delay": "delay", "jitter": "jitter", "max_queue_size": "queue"}
T = TypeVar("T")
SUFFIXES = (".py", ".yml", ".yaml")


def load(path: Path, options: Mapping[str, str]) -> Network:
    """Read a network of another tool. The options of a Mininet file are `topo`, its name there, and what its function takes."""
    if not path.exists():
        raise NetworkError(f"cannot read {path}: there is no such file")
    if path.suffix == ".py":
        return _mininet(path, dict(options))
    if options:
        raise NetworkError(f"{path} takes no parameters, as a file of containerlab has none: leave out {', '.join(options)}")
    return _containerlab(path)


def _mininet(path: Path, options: dict[str, str]) -> Network:
    found = _of_user(path, lambda: _topos(runpy.run_path(str(path))))
    wanted = options.pop("topo", "")
    if not found or (wanted and wanted not in found) or (not wanted and len(found) > 1):
        names = ", ".join(found) or "none"
        raise NetworkError(f"{path}: choose one of its topologies with {path}:topo=NAME; there are: {names}")
    name = wanted or next(iter(found))
    topo = _of_user(path, lambda: found[name](**{key: _value(text) for key, text in options.items()}))
    links = [_of_mininet(*link) for link in topo.links(sort=True, withInfo=True)]
    return _network(name, topo.hosts(), topo.switches(), links)


def _of_user(path: Path, call: Callable[[], T]) -> T:
    """What code in the user's file gives; its failure becomes a sentence."""
    try:
        return call()
    except (Exception, SystemExit) as error:
        raise NetworkError(f"{path} fails: {type(error).__name__}: {error}") from error


def _topos(module: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """What can be made: the dictionary `topos`, or else the classes that are a `Topo` and that this file defines."""
    if isinstance(named := module.get("topos"), dict):
        return {str(name): make for name, make in named.items()}
    return {
        name: kind
        for name, kind in module.items()
        if isinstance(kind, type) and kind.__module__ == "<run_path>" and any(base.__name__ == "Topo" for base in kind.__mro__)
    }


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _of_mininet(one: str, other: str, info: Mapping[str, Any]) -> dict[str, Any]:
    texts = {ours: _text(ours, info[theirs]) for theirs, ours in _OF_MININET.items() if info.get(theirs) is not None}
    if info.get("loss"):
        texts["loss"] = f"{info['loss']}%"
    return {"a": one, "b": other, **texts, **({"cost": info["cost"]} if "cost" in info else {})}


def _text(key: str, value: Any) -> Any:
    """A value of Mininet in our words: a bandwidth is a number of Mbit/s there, and a time without a unit one of microseconds."""
    if key == "queue":
        return int(value)
    unit = {"bandwidth": "mbit"}.get(key, "us")
    return f"{value}{unit}" if str(value).replace(".", "", 1).isdigit() else str(value)


def _containerlab(path: Path) -> Network:
    import yaml  # type: ignore[import-untyped] # noqa: PLC0415 - takes time to import, and has no types

    try:
        lab = yaml.safe_load(path.read_text(encoding="utf-8"))
        nodes, links = lab["topology"]["nodes"], lab["topology"].get("links") or []
        ends = [tuple(map(_node_of, link["endpoints"])) for link in links]
        kinds = {str(node): str((about or {}).get("kind", "")) for node, about in nodes.items()}
    except OSError as error:
        raise NetworkError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise NetworkError(f"{path} is not YAML: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise NetworkError(
            f"{path} is not a topology of containerlab: it needs `topology` with `nodes` and `links` ({error})"
        ) from error
    degree = Counter(node for pair in ends for node in pair)
    hosts = [node for node, kind in kinds.items() if kind == "linux" and degree[node] == 1]
    made = [
        {"a": pair[0], "b": pair[1], **{key: str(value) for key, value in (link.get("labels") or {}).items() if key in _LABELS}}
        for pair, link in zip(ends, links, strict=True)
    ]
    return _network(str(lab.get("name") or path.stem), hosts, [node for node in kinds if node not in hosts], made)


_LABELS = frozenset((*PROPERTIES, "cost"))


def _node_of(end: Any) -> str:
    """The node of an end of a link: `leaf1:e1-1`, or an object with `node`."""
    return str(end["node"]) if isinstance(end, dict) else str(end).partition(":")[0]


def _network(name: str, hosts: Iterable[str], switches: Iterable[str], links: Iterable[dict[str, Any]]) -> Network:
    hosts, switches = tuple(hosts), tuple(switches)
    made: list[Link] = []
    for number, texts in enumerate(links, start=1):
        ends = {texts["a"], texts["b"]}
        expensive = ends <= set(switches) and "cost" not in texts
        queue = {"queue": int(texts["queue"])} if "queue" in texts else {}
        made.append(link_of(f"link number {number}", {**texts, **queue, **({"cost": "expensive"} if expensive else {})}))
    return Network(name, hosts, switches, tuple(made))
