"""The command completion: what the Tab key completes in bash, zsh and fish. The script has all names, so that it asks nobody."""

import argparse
import sys
from argparse import Namespace
from collections.abc import Iterator

from hostagent.protocols import PROTOCOLS
from hostagent.runtime.guests.catalogue import GUESTS, PREFIX
from papers import PAPERS
from scenarios import catalogue
from scenarios.faults import FAULTS
from testbed.commands.names.keys import protocol_keys
from testbed.live.verbs import VERBS
from testbed.status import HOLDS
from topologies import catalogue as networks

_BASH = """_castbed() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} words= names=
    if [ "$COMP_CWORD" -eq 1 ]; then words="{verbs}"; else
        case "$before" in
            --protocol) words="{protocols}" ;;
            :|guest) words="{guests}" names=yes word=${{word#:}} ;;
            --on) words="mininet simulator" ;;
            --medium) words="unicast multicast" ;;
            --set) case "$verb ${{COMP_WORDS[2]}}" in
{keys}
            esac; [ -z "$word" ] || words="$words {parameters}"; compopt -o nospace 2>/dev/null ;;
            *) case "$verb" in
{no_files}) [[ $before == --* ]] || names=yes ;;
            esac; case "$verb" in
{options}
            esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [ "$COMP_CWORD" -gt 1 ] && [ -z "$names" ]; then COMPREPLY+=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _castbed castbed ./castbed
"""


def command(arguments: Namespace) -> int:
    """Print the script for a shell."""
    verbs = _verbs(arguments.grammar())
    sys.stdout.write(_fish(verbs) if arguments.shell == "fish" else _bash(verbs, is_zsh=arguments.shell == "zsh"))
    return HOLDS


def _verbs(grammar: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (action,) = (action for action in grammar._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001 - no other way
    return dict(action.choices)


def _options(verb: argparse.ArgumentParser) -> list[str]:
    return [word for action in verb._actions for word in action.option_strings if word.startswith("--")]  # noqa: SLF001 - no other way


def _names(verb: str) -> list[str]:
    """The names that a command takes."""
    scenarios, topologies = catalogue.names(), networks.names()
    found = _no_files() | {
        "run": scenarios,
        "sweep": scenarios,
        "up": topologies,
        "topology": topologies,
        "routes": topologies,
        "controller": topologies,
        "show": list(dict.fromkeys([*scenarios, *PROTOCOLS, *FAULTS, *topologies])),
    }
    return found.get(verb, [])


def _no_files() -> dict[str, list[str]]:
    """The commands that take names and no files."""
    return {
        "paper": [*(paper.name for paper in PAPERS), "all"],
        "fault": list(VERBS),
        "guests": list(GUESTS),
        "new": ["protocol", "scenario", "network"],
        "completion": ["bash", "zsh", "fish"],
    }


def _protocols() -> list[str]:
    return [*PROTOCOLS, *(f"{PREFIX}{name}" for name in GUESTS)]


def _parameters() -> list[str]:
    """The parameters of protocols, as --set has them."""
    return [f"{key.key}=" for core in PROTOCOLS.values() for key in protocol_keys(core)]


def _bash(verbs: dict[str, argparse.ArgumentParser], *, is_zsh: bool) -> str:
    keys = "\n".join(
        f'                *" {definition.name}") words="{" ".join(f"{key}=" for key in definition.keys)}" ;;'
        for definition in catalogue.every()
    )
    options = "\n".join(
        f'                {name}) words="{" ".join([*_names(name), *_options(verb)])}" ;;' for name, verb in verbs.items()
    )
    no_files = f"                {'|'.join(_no_files())}"
    script = _BASH.format(
        verbs=" ".join(verbs), protocols=" ".join(_protocols()), guests=" ".join(GUESTS), parameters=" ".join(_parameters()),
        keys=keys, no_files=no_files, options=options,
    )  # fmt: skip
    return f"autoload -Uz bashcompinit && bashcompinit\n{script}" if is_zsh else script


def _fish(verbs: dict[str, argparse.ArgumentParser]) -> str:
    return "\n".join(["complete -c castbed -e", *_fish_lines(verbs), ""])


def _fish_lines(verbs: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    yield f"complete -c castbed -n __fish_use_subcommand -f -a '{' '.join(verbs)}'"
    keys = dict.fromkeys(key for definition in catalogue.every() for key in definition.keys)
    values = {"--protocol": _protocols(), "--set": [*(f"{key}=" for key in keys), *_parameters()]}
    for name, verb in verbs.items():
        seen = f"complete -c castbed -n '__fish_seen_subcommand_from {name}'"
        if names := _names(name):
            yield f"{seen} -a '{' '.join(names)}'"
        for option in _options(verb):
            words = values.get(option, [])
            yield f"{seen} -l {option.removeprefix('--')}" + (f" -x -a '{' '.join(words)}'" if words else "")
