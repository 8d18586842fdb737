"""Reads `--set`: keys of the scenario and parameters of protocols."""

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from hostagent.contract.advice import ADVICE
from hostagent.contract.core import Core
from hostagent.protocols import PROTOCOLS
from hostagent.runtime import own
from scenarios import Variant
from scenarios.advice import surroundings
from scenarios.faults import place_and_problem
from testbed.errors import CannotRun
from topologies.network import Network
from topologies.paths import round_trip_ms


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
            parameters.setdefault(protocol, {})[parameter] = _read_value(value)
        else:
            settings[key] = value
    return settings, parameters


def _read_value(text: str) -> float | str:
    """A number, `true`, `false`, or the text itself."""
    if text in {"true", "false"}:
        return text == "true"
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text


def choose(variants: Sequence[Variant], protocols: Sequence[str], parameters: Mapping[str, Mapping[str, Any]]) -> list[Variant]:
    """The runs of a scenario with the protocols and parameters that the user has chosen. Protocols of users are loaded from their files."""
    variants, protocols = [_with_name(variant) for variant in variants], _names(protocols)
    check_parameters([*(variant.protocol for variant in variants), *protocols], parameters)
    wanted = [chosen for protocol in protocols for chosen in _with_protocol(variants, protocol)] or variants
    return [_with_parameters(variant, parameters.get(variant.protocol, {})) for variant in wanted]


def _with_name(variant: Variant) -> Variant:
    """A run whose protocol may be the file of a user, with the protocol's name."""
    name = own.find(variant.protocol)
    return dataclasses.replace(variant, protocol=name, label=name if variant.label == variant.protocol else variant.label)


def _names(words: Sequence[str]) -> list[str]:
    """The names of protocols that a user has chosen by name or file. Two files of the same name are refused."""
    found: dict[str, str] = {}
    for word in words:
        if (other := found.setdefault(own.find(word), word)) != word:
            raise CannotRun(f"protocols {other} and {word} have the same name: rename one of the files")
    return list(found)


def _with_protocol(variants: Sequence[Variant], protocol: str) -> list[Variant]:
    """The scenario's runs of a protocol; if it has none, a run of it for each different network, workload, faults or medium."""
    own = [variant for variant in variants if variant.protocol == protocol]
    situations = [(variant.scenario, variant.medium) for variant in variants]
    different = [variant for place, variant in enumerate(variants) if situations[place] not in situations[:place]]
    alone = len(different) == 1
    return own or [
        Variant(protocol if alone else f"{variant.label}-{protocol}", variant.scenario, protocol, medium=variant.medium)
        for variant in different
    ]


def _with_parameters(variant: Variant, parameters: Mapping[str, Any]) -> Variant:
    for name in parameters:
        if name in variant.parameters:
            raise CannotRun(
                f"the runs of this scenario differ in {variant.protocol}.{name}, so it cannot be set: leave it out of --set"
            )
    together = {**variant.parameters, **parameters}
    core = PROTOCOLS[variant.protocol]
    _check_values(core, together)
    if variant.scenario.knows_groups and not core.knows_groups:
        able = [known.name for known in PROTOCOLS.values() if known.knows_groups]
        remedy = f"choose from {', '.join(able)}" if able else "leave out the groups"
        raise CannotRun(f"protocol {core.name} sends every message to everybody and knows no groups: {remedy}")
    try:
        core.check(msgspec.convert(together, core.Parameters, strict=False), variant.scenario.network.hosts)
    except ValueError as error:
        raise CannotRun(f"protocol {core.name}: {error}") from None
    _check_waits(core, parameters, variant.scenario.network)
    return dataclasses.replace(variant, parameters=core.advised(together, surroundings(variant.scenario)))


def _check_waits(core: type[Core], parameters: Mapping[str, Any], network: Network) -> None:
    """Refuse to wait for less than a round trip. Where nobody has chosen, protocols do what they can."""
    chosen = {name: float(parameters[name]) for name in core.waits if name in parameters}
    if chosen and min(chosen.values()) < (trip_ms := round_trip_ms(network)):
        name = min(chosen, key=chosen.__getitem__)
        raise CannotRun(
            f"protocol {core.name}: {name}={chosen[name]:g}: a round trip takes {trip_ms:g} ms on this network, so whoever waits for less "
            f"waits in vain; choose {trip_ms:g} or more"
        )


def check_parameters(protocols: Sequence[str], parameters: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse unknown protocols and parameters before anything is made."""
    for protocol in (*protocols, *parameters):
        if protocol not in PROTOCOLS:
            raise CannotRun(f"there is no protocol {protocol!r}: choose from {', '.join(PROTOCOLS)}")
    for protocol, values in parameters.items():
        if ADVICE in values:
            raise CannotRun(f"{protocol}.{ADVICE} cannot be set: it is worked out from the network, so leave it out of --set")
        _check_values(PROTOCOLS[protocol], values)


def _check_values(core: type[Core], values: Mapping[str, Any]) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(core.Parameters)}
    if unknown := [name for name in values if name not in fields]:
        raise CannotRun(f"protocol {core.name} has no parameter {unknown[0]!r}: its parameters are {', '.join(fields) or 'none'}")
    try:
        msgspec.convert(values, core.Parameters, strict=False)
    except msgspec.ValidationError as error:
        name, problem = place_and_problem(error)
        if typing.get_origin(fields[name].type if name else None) is typing.Literal:
            problem = f"choose from {', '.join(typing.get_args(fields[name].type))}"
        raise CannotRun(f"protocol {core.name}: {f'{name}={values[name]}: ' if name else ''}{problem}") from None
