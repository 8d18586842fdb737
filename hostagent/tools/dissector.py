"""The wire format for Wireshark: a dissector in Lua that names all protocols and messages."""

from pathlib import Path
from typing import Any

from hostagent.contract.messages import Purpose
from hostagent.contract.wire import COST_DSCP, HEADER, LONGEST_DATAGRAM, MAGIC, PACK, PORT, VERSION
from hostagent.protocols import PROTOCOLS


def dissector() -> str:
    """The Lua file: a table of numbers and names, then `dissector.lua`."""
    return f"local WIRE = {_lua(_wire())}\n\n{Path(__file__).with_suffix('.lua').read_text(encoding='utf-8')}"


def _wire() -> dict[str, Any]:
    return {
        "port": PORT,
        "magic": MAGIC,
        "version": VERSION,
        "header": HEADER.size,
        "longest": LONGEST_DATAGRAM,
        "pack": PACK,
        "cost_dscp": COST_DSCP,
        "purposes": {purpose.value: purpose.name.lower() for purpose in Purpose},
        "protocols": {
            core.number: {"name": name, "kinds": {number: kind.__name__ for number, kind in enumerate(core.messages)}}
            for name, core in PROTOCOLS.items()
        },
    }


def _lua(value: Any, indent: str = "") -> str:
    """A value in Lua syntax. Strings must not contain quotation marks."""
    if not isinstance(value, dict):
        return f'"{value}"' if isinstance(value, str) else str(value)
    inner = f"{indent}    "
    lines = (f"{inner}{f'[{key}]' if isinstance(key, int) else key} = {_lua(item, inner)},\n" for key, item in value.items())
    return f"{{\n{''.join(lines)}{indent}}}"
