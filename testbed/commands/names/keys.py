"""The keys of scenarios, protocols, faults and topologies, each with its default, its unit and its meaning."""

import ast
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from hostagent.contract.advice import ADVICE
from hostagent.contract.core import Core
from scenarios import Scenario
from scenarios.catalogue import STREAM_KEYS, WORKLOAD_KEYS, Definition
from scenarios.faults import Fault, Trigger
from scenarios.scenario import Workload
from topologies import units
from topologies.builders import EXPENSIVE_MBIT
from topologies.catalogue import TopologyKey
from topologies.network import Link
from topologies.properties import PROPERTIES

REQUIRED = "required"
_UNITS: dict[Callable[[str], Any], str] = {
    units.time_ms: "time, such as 20ms",
    units.bandwidth_mbit: "such as 10mbit",
    units.share: "share, such as 5%",
}
_FORMATS: dict[Callable[[str], Any], Callable[[Any], str]] = {
    units.time_ms: units.format_time,
    units.bandwidth_mbit: units.format_bandwidth,
    units.share: units.format_share,
}
_PLAIN: dict[Any, str] = {int: "whole number", float: "number", str: "text", bool: "true or false"}
_SUFFIXES = {"_ms": "ms", "_mbit": "Mbit/s", "_ppm": "millionths", "_per_second": "a second"}
_STREAM_MEANINGS = {
    "sources": "the hosts that broadcast: all, or some such as h1,h2",
    "groups": "groups that messages go to, such as alpha:h1,h2;beta:h2,h3",
}
_FAULT_MEANINGS = {
    "at_ms": "when it happens, since the first broadcast",
    "when": "the event after which it happens, instead of a time",
    "link": "the link, such as s1-s2",
    "switch": "the switch",
    "host": "the host; empty with `when`: the host of the event",
    "group": "the name of the group",
    "towards": "the end of the link that is affected; both if empty",
    "times": "how often",
    "down_ms": "how long it is down each time",
    "up_ms": "how long it is up in between",
    "sides": "lists of switches; the others are one more side",
    "storage": "whether the host finds what it had stored",
    "offset_ms": "how far the clock is ahead",
    "drift_ppm": "how much faster the clock runs",
    "kind": "the kind of message, by its name in the protocol",
    "nth": "which of them, from 1",
    **{known.field: known.meaning for known in PROPERTIES.values()},
}


class Key(msgspec.Struct, frozen=True):
    """A key that can be set."""

    key: str
    default: str
    unit: str
    meaning: str


def scenario_keys(definition: Definition) -> list[Key]:
    """The keys of a scenario. The defaults of a stream are those of its own runs, or several if the runs differ."""
    hints = typing.get_type_hints(definition.function, include_extras=True)
    meanings = _lines(inspect.getdoc(definition.function) or "")
    signature = inspect.signature(definition.function).parameters
    built = [variant.scenario for variant in definition.build({})]
    found = []
    for key, read in definition.keys.items():
        if key in signature:
            default = _text(signature[key].default, read)
            found.append(Key(key, default, _unit(hints[key], read), meanings.get(key, "")))
        elif key in WORKLOAD_KEYS or key in STREAM_KEYS:
            found.append(_stream_key(key, read, built))
        else:
            known = PROPERTIES[key]
            found.append(
                Key(key, _text(_link_default(known.field), read), _unit(None, read), f"{known.meaning}; of expensive links")
            )
    return found


def _stream_key(key: str, read: Callable[[str], Any], built: Iterable[Scenario]) -> Key:
    if key in STREAM_KEYS:
        values = [getattr(scenario, key) for scenario in built]
        texts = [
            ",".join(value) if key == "sources" else ";".join(f"{g.name}:{','.join(g.members)}" for g in value)
            for value in values
        ]
        return Key(key, _several(texts), "text", _STREAM_MEANINGS[key])
    hint = typing.get_type_hints(Workload, include_extras=True)[key]
    values = [_text(getattr(scenario.workload, key), read) for scenario in built if scenario.script is None]
    return Key(key, _several(values or ["-"]), _unit(hint, read), meanings_of(Workload).get(key, ""))


def _several(values: Iterable[str]) -> str:
    """The different values, or how many there are."""
    every = list(dict.fromkeys(values))
    return " or ".join(every) if len(every) <= 3 else f"{len(every)} different ones"


def protocol_keys(core: type[Core]) -> list[Key]:
    """The parameters of a protocol."""
    meanings = meanings_of(core.Parameters)
    return [
        Key(f"{core.name}.{field.name}", _text(field.default), _unit(field.type, None, field.name), meanings.get(field.name, ""))
        for field in msgspec.structs.fields(core.Parameters)
        if field.name != ADVICE
    ]


def fault_keys(kind: type[Fault]) -> list[Key]:
    """The fields of a fault in a schedule file."""
    fields = msgspec.structs.fields(kind)
    return [
        Key(
            field.name,
            REQUIRED if field.required else "" if field.default in {None, ""} else _text(field.default),
            "an event" if field.name == "when" else _unit(field.type, None, field.name),
            _FAULT_MEANINGS[field.name],
        )
        for field in fields
    ]


def trigger_keys() -> list[Key]:
    """The fields of the event that a fault waits for."""
    words = inspect.getdoc(Trigger) or ""
    told = {"event": words.split("\n\n")[1].replace("\n", " ").split(". ")[0].removeprefix("`event` is ")}
    told |= {"host": "at this host", "origin": "about a message of this host", "sequence": "about the message of this number"}
    told |= {"nth": "which of them, from 1", "after_ms": "how long after the event"} | meanings_of(Trigger)
    fields = msgspec.structs.fields(Trigger)
    return [
        Key(field.name, REQUIRED if field.required else _default(field), _unit(field.type, None, field.name), told[field.name])
        for field in fields
    ]


def topology_keys(known: Iterable[TopologyKey]) -> list[Key]:
    """The keys of a topology, written after its name."""
    return [
        Key(key.name, REQUIRED if key.required else _yes(_text(key.default, key.parse)), _unit(None, key.parse), key.meaning)
        for key in known
    ]


def _yes(text: str) -> str:
    return {"true": "yes", "false": "no"}.get(text, text)


def _default(field: Any) -> str:
    return "" if field.default in {"", msgspec.NODEFAULT} or (field.name == "sequence") else _text(field.default)


def _link_default(field: str) -> Any:
    return EXPENSIVE_MBIT if field == "bandwidth_mbit" else getattr(Link("", ""), field)


def _text(value: Any, read: Callable[[str], Any] | None = None) -> str:
    """A value as it is written on the command line; empty for none."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(_text(each) for each in value)
    return _FORMATS[read](value) if read in _FORMATS else f"{value:g}" if isinstance(value, float) else str(value)


def _unit(hint: Any, read: Callable[[str], Any] | None, name: str = "") -> str:
    """The unit of a value, or what it is written like."""
    if read in _UNITS:
        return _UNITS[read]
    if found := next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)), ""):
        return found
    plain = _without_annotation(hint)
    if typing.get_origin(plain) is typing.Literal:
        return " | ".join(map(str, typing.get_args(plain)))
    if typing.get_origin(plain) is tuple:
        return "several, as 1,2,3" if typing.get_args(plain)[0] in {int, float} else "several, as a,b"
    if plain in _PLAIN:
        return _PLAIN[plain]
    returned = typing.get_type_hints(read).get("return") if isinstance(read, types.FunctionType) else read
    return "yes or no" if returned is bool else _PLAIN.get(returned, "text")


def _without_annotation(hint: Any) -> Any:
    """A type without its constraints, and without None."""
    while (
        typing.get_origin(hint) is typing.Annotated
        or isinstance(hint, types.UnionType)
        or typing.get_origin(hint) is typing.Union
    ):
        hint = next(kind for kind in typing.get_args(hint) if kind is not type(None))
    return hint


def _lines(text: str) -> dict[str, str]:
    """The lines `key: meaning` of a docstring."""
    return dict(re.findall(r"^(\w+): (.+)$", text, flags=re.MULTILINE))


def meanings_of(kind: type) -> dict[str, str]:
    """The first sentence of the docstring beneath each field of a class, also those of the classes that it extends."""
    return dict(found for base in reversed(kind.__mro__) for found in _documented(base))


def _documented(kind: type) -> Iterator[tuple[str, str]]:
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):
        # A class of the interpreter has no source.
        return
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    for field, text in itertools.pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, _first_sentence(" ".join(words.split()))


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(".")
