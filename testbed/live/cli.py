"""Mininet's command line with Castbed's verbs, each with completion and help."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from mininet.cli import CLI
from mininet.net import Mininet

from testbed.live.remote import answer
from testbed.live.session import Live
from testbed.live.verbs import VERBS, Verb
from testbed.terminal import errors
from topologies import Network

_GREETING = """The network is up. Try: status, tree, fail s1 s2, heal s1 s2, costs; help for all verbs; Ctrl-D or exit to end."""


class LiveCLI(CLI):  # type: ignore[misc] # Mininet has no types
    """Mininet's command line. Where Mininet and Castbed have a verb of the same name, Castbed's is used, so that it is recorded."""

    prompt = "castbed> "
    doc_header = "Mininet's commands and Castbed's verbs (help VERB):"

    def __init__(self, net: Mininet, live: Live) -> None:
        self._live = live
        self._told = 0
        self._is_typed = sys.stdin.isatty()
        if self._is_typed:
            errors.print(_GREETING, soft_wrap=True)
        else:
            self.prompt = ""
        super().__init__(net)

    def precmd(self, line: str) -> str:
        """Print the line of a script, as if it were typed."""
        if not self._is_typed and line != "EOF":
            sys.stdout.write(f"{LiveCLI.prompt}{line}\n")
        return str(super().precmd(line))

    def waitForNode(self, node: Any) -> None:  # noqa: N802 - Mininet's name
        """Wait for a command on a node. Mininet passes it what is typed meanwhile; it must not get the next lines of a script."""
        if self._is_typed:
            super().waitForNode(node)
        else:
            sys.stdout.write(node.waitOutput())

    def onecmd(self, line: str) -> bool:
        """Execute a line. A failure of one of Mininet's commands does not end the network."""
        try:
            return bool(super().onecmd(line))
        except Exception as failure:  # noqa: BLE001 - whatever Mininet raises
            errors.print(f"castbed: {line}: {type(failure).__name__}: {failure}", soft_wrap=True)
            return False

    def postcmd(self, stop: bool, line: str) -> bool:
        """Print the problems that are new since the last line."""
        for problem in self._live.problems[self._told :]:
            errors.print(f"castbed: {problem}", soft_wrap=True)
        self._told = len(self._live.problems)
        return bool(super().postcmd(stop, line))

    def emptyline(self) -> bool:
        """Do nothing; the default would repeat the last line."""
        return False

    def do_help(self, line: str) -> None:
        """List all verbs, or explain one."""
        if line in VERBS:
            sys.stdout.write(f"{VERBS[line].usage}\n    {VERBS[line].help}\n")
        elif line:
            super().do_help(line)
        else:
            width = max(map(len, VERBS))
            sys.stdout.writelines(f"  {name:{width}}  {verb.help}\n" for name, verb in VERBS.items())
            sys.stdout.write(
                "and Mininet's own commands: h1 ping h2, nodes, net, dump, pingall, dpctl, sh, py, xterm, source FILE, exit\n"
            )

    def act(self, line: str) -> None:
        """Execute a line with one of Castbed's verbs, and print the answer."""
        told = answer(self._live, line)
        if told.refused:
            errors.print(f"castbed: {told.refused}", soft_wrap=True)
        elif told.text:
            sys.stdout.write(f"{told.text}\n")
            sys.stdout.flush()

    def completenames(self, text: str, *ignored: Any) -> list[str]:
        """The verbs that begin with this text."""
        return _with_space(super().completenames(text, *ignored))

    def candidates(self, verb: Verb, line: str) -> Iterable[str]:
        """The possible next words of a line."""
        before = line.split()[1:] if line.endswith(" ") else line.split()[1:-1]
        return completions(self._live.network, verb, before)


def completions(network: Network, verb: Verb, before: list[str]) -> Iterable[str]:
    """The names of the network that can be the next word of a verb."""
    if verb.names == "hosts":
        return network.hosts if not before else ()
    if verb.names == "switches":
        return network.switches
    if verb.names == "links" and len(before) == 0:
        return network.switches
    if verb.names == "links" and len(before) == 1 and before[0] in network.switches:
        return [name for name in network.neighbours[before[0]] if not network.is_host(name)]
    return ()


def _with_space(found: list[str]) -> list[str]:
    """Add a space to a completion that is the only one, so that the next word can follow."""
    return [f"{found[0]} "] if len(found) == 1 else found


def _doer(name: str) -> Callable[[LiveCLI, str], None]:
    return lambda cli, rest: cli.act(f"{name} {rest}")


def _completer(verb: Verb) -> Callable[[LiveCLI, str, str, int, int], list[str]]:
    def complete(cli: LiveCLI, begun: str, line: str, _start: int, end: int) -> list[str]:
        return _with_space([name for name in cli.candidates(verb, line[:end]) if name.startswith(begun)])

    return complete


def _add_verbs(to: Any) -> None:
    for name, verb in VERBS.items():
        setattr(to, f"do_{name}", _doer(name))
        setattr(to, f"complete_{name}", _completer(verb))


_add_verbs(LiveCLI)
