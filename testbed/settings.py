"""What `--set` says: keys of the scenario and parameters of protocols."""

from collections.abc import Sequence
from typing import Any

import msgspec

from hostagent.core import Core
from hostagent.protocols import PROTOCOLS
from testbed.errors import CannotRun


def split_settings(pairs: Sequence[str]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """`key=value` sets a key of the scenario, `protocol.key=value` a parameter of a protocol."""
    settings: dict[str, str] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CannotRun(f"--set {pair} has no value: write --set key=value")
        protocol, dot, parameter = key.partition(".")
        if dot:
            parameters.setdefault(protocol, {})[parameter] = _number_or_text(value)
        else:
            settings[key] = value
    return settings, parameters


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def check_parameters(protocols: Sequence[str], parameters: dict[str, dict[str, Any]]) -> None:
    """Refuse unknown protocols and parameters before anything is made."""
    for protocol in (*protocols, *parameters):
        if protocol not in PROTOCOLS:
            raise CannotRun(f"there is no protocol {protocol!r}: choose from {', '.join(PROTOCOLS)}")
    for protocol, values in parameters.items():
        _check_values(PROTOCOLS[protocol], values)


def _check_values(core: type[Core], values: dict[str, Any]) -> None:
    try:
        msgspec.convert(values, core.Parameters, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(core.Parameters.__struct_fields__) or "none"
        raise CannotRun(f"protocol {core.name}: {error}; its parameters are: {known}") from None
