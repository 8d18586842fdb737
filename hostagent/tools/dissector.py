"""The wire format for Wireshark: a dissector in Lua that names all protocols, messages and their fields, and the hosts of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from hostagent.contract.core import Core
from hostagent.contract.messages import HostSet, HostSetOrNone, Purpose
from hostagent.contract.wire import COST_DSCP, HEADER, LONGEST_DATAGRAM, MAGIC, PACK, PORT, VERSION, own_fields
from hostagent.protocols import PROTOCOLS

_HOST_SETS = tuple(rule for kind in (HostSet, HostSetOrNone) for rule in get_args(kind)[1:])


def dissector(hosts: Sequence[str] = ()) -> str:
    """The Lua file: a table of numbers and names, then `dissector.lua`. `hosts` are those of a run, in their order."""
    return f"local WIRE = {_lua(_wire(hosts))}\n\n{Path(__file__).with_suffix('.lua').read_text(encoding='utf-8')}"


def _wire(hosts: Sequence[str]) -> dict[str, Any]:
    return {
        "port": PORT,
        "magic": MAGIC,
        "version": VERSION,
        "header": HEADER.size,
        "longest": LONGEST_DATAGRAM,
        "pack": PACK,
        "cost_dscp": COST_DSCP,
        "purposes": {purpose.value: purpose.name.lower() for purpose in Purpose},
        "hosts": dict(enumerate(hosts, start=1)),
        "protocols": {core.number: {"name": name, **_messages(core)} for name, core in PROTOCOLS.items()},
    }


def _messages(core: type[Core]) -> dict[str, Any]:
    """The names of a protocol's messages, of the fields in each of them, and of those fields that are sets of hosts."""
    fields = {number: own_fields(kind) for number, kind in enumerate(core.messages)}
    return {
        "kinds": {number: kind.__name__ for number, kind in enumerate(core.messages)},
        "fields": {number: {place: field.name for place, field in enumerate(some, start=1)} for number, some in fields.items()},
        "host_sets": {
            number: {
                place: 1 for place, field in enumerate(some, start=1) if any(rule in _HOST_SETS for rule in get_args(field.type))
            }
            for number, some in fields.items()
        },
    }


def _lua(value: Any, indent: str = "") -> str:
    """A value in Lua syntax. Names in it have no quotation marks, no backslashes and no line ends."""
    if not isinstance(value, dict):
        return f'"{value}"' if isinstance(value, str) else str(value)
    inner = f"{indent}    "
    lines = (f"{inner}{f'[{key}]' if isinstance(key, int) else key} = {_lua(item, inner)},\n" for key, item in value.items())
    return f"{{\n{''.join(lines)}{indent}}}"
