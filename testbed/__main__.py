"""The command line: reads arguments, calls the command, and turns errors into one sentence and an exit status."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, get_args

from controller.address import address
from hostagent.protocols.propagation_graph.generator import METHODS
from hostagent.runtime.failures import CoreFailed, ProtocolError
from hostagent.runtime.own import blamed
from runfiles.archives import LIMITS
from runfiles.errors import ResultsError
from runfiles.format import Medium
from scenarios import ScenarioError
from scenarios.faults import FaultError
from testbed.errors import CannotRun
from testbed.ownership import settle
from testbed.status import HOLDS, UNKNOWN
from testbed.terminal import errors, on_end
from testbed.version import castbed_version
from topologies import NetworkError
from topologies.properties import whole
from topologies.units import time_ms

INTERRUPTED = 130
# The most repeats and schedules.
_MOST = 1_000_000
_MOST_JOBS = 1000
_SHORTEST_WAIT_MS = 10.0
_Verbs: TypeAlias = "argparse._SubParsersAction[_Parser]"  # noqa: SLF001 - argparse has no other name for it
_EPILOG = "Exit status: 0 every promise and claim holds, 1 one does not, 2 unknown or could not run, 130 interrupted."
_PACK = (
    "which messages to the same host share a datagram: none (off), those that are sent at once (0ms, the default), or those "
    "of a time such as 25ms; then a host sends one datagram to each host in that time, and more only if datagrams are full"
)

_MEDIUM = "how a message to a group travels: as one datagram to each member, or as one that the switches copy"

_FULL = "capture whole packets, for Wireshark; without it captures have the first 96 bytes of each, which is all that is analysed"

_OPTIONAL = {
    "mininet": "Mininet is not installed, which this command needs: run ./setup.sh as root",
    "ryu": "Ryu is not installed, which this command needs: run ./setup.sh as root",
    **dict.fromkeys(
        ("pyspark", "py4j"),
        "PySpark is not installed, which the analysis of large runs needs: run ./setup.sh; small runs are analysed without it",
    ),
}
"""The packages that a machine may lack, and the message when a command needs one."""
_CORE = "a protocol: a name from ./castbed list, or your own file that ends in .py"
_CORE_OR_PROGRAM = f"{_CORE}, or 'maelstrom:./my-node', a program"
_PROTOCOL = f"{_CORE_OR_PROGRAM}, or guest:NAME from ./castbed guests"
_BUG = "castbed: this is a bug in Castbed; please report it with the lines above"
_RUN = "the directory of a run, or of several, or an archive of them"
_VERBATIM = ("python", "test")


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one sentence."""

    def error(self, message: str) -> NoReturn:
        """End with the sentence, and say where to find help."""
        self.exit(UNKNOWN, f"castbed: {message}; see {self.prog} --help\n")


class _HelpWithKeys(argparse.Action):
    """`--help` of a command that takes a scenario: with the scenario in front of it, also the keys of the scenario."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: object) -> NoReturn:
        """Print the help, and end."""
        from testbed.commands.names.show import scenario, tell

        try:
            keys = scenario(namespace.scenario) if getattr(namespace, "scenario", None) else None
        except ScenarioError as error:
            parser.error(str(error))
        parser.print_help()
        if keys:
            sys.stdout.write("\n")
            sys.stdout.flush()
            tell(keys)
        parser.exit()


class _Version(argparse.Action):
    """`--version`: the number of Castbed and its commit."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it, and end."""
        sys.stdout.write(f"castbed {castbed_version()}\n")
        parser.exit()


def _help(top: argparse.ArgumentParser, _: argparse.Namespace) -> int:
    """Without a command there is help."""
    top.print_help()
    return HOLDS


def parser() -> argparse.ArgumentParser:
    """The grammar of the command line."""
    top = _Parser(prog="./castbed", description="A Mininet testbed for reliable broadcast.", epilog=_EPILOG)
    top.add_argument("--version", action=_Version, help="show the version of Castbed and its commit, and exit")
    top.set_defaults(call=partial(_help, top))
    verbs = top.add_subparsers(dest="verb", metavar="COMMAND", parser_class=_Parser)
    _add_runs(verbs)
    _add_recorded(verbs)
    _add_results(verbs)
    _add_live(verbs)
    _add_verdicts(verbs)
    _add_looks(verbs)
    inside = verbs.add_parser(
        "vm", help="run a command in a virtual machine, whose kernel has netem: ./castbed vm run clusters --set delay=20ms"
    )
    inside.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="any other command, with its arguments")
    inside.set_defaults(call=_later("network.vm.command"), parse=top.parse_args)
    top.set_defaults(vm_words=None)
    for name in ["demo", "run", "sweep", "paper", "up", "replay", "analyse", "compare", "plot", "campaign"]:
        verbs.choices[name].add_argument(
            "--spark-master", type=_spark_master, metavar="URL", help="where Spark runs (default: here, on all cores)"
        )
    for name in ["demo", "run", "sweep", "paper", "up", "replay", "compare", "doctor", "campaign"]:
        verbs.choices[name].add_argument("--out", type=Path, metavar="DIR", help="where results go (default results/...)")
    for name in [
        "demo",
        "run",
        "sweep",
        "paper",
        "up",
        "replay",
        "status",
        "watch",
        "analyse",
        "compare",
        "check",
        "tree",
        "campaign",
        "list",
        "show",
        "runs",
        "plot",
        "doctor",
        "topology",
        "routes",
        "graph",
    ]:
        verbs.choices[name].add_argument("--json", action="store_true", help="print JSON for machines on standard output")
    return top


def _add_runs(verbs: _Verbs) -> None:
    demo = verbs.add_parser("demo", help="run, capture, analyse and plot: four clusters of three hosts", epilog=_EPILOG)
    demo.set_defaults(call=_later("commands.run.demo"))
    run = verbs.add_parser("run", help="run a scenario: ./castbed run grid --set rows=4", epilog=_EPILOG, add_help=False)
    run.add_argument("scenario", help="a name from ./castbed list, or a file that ends in .py")
    run.add_argument("--protocol", action="append", metavar="P", help=f"{_PROTOCOL}; may be given several times")
    run.set_defaults(call=_later("commands.run.run"))
    for verb in (demo, run):
        verb.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set a key, or PROTOCOL.PARAMETER")
        verb.add_argument("--full-packets", action="store_true", help=_FULL)
        verb.add_argument("--faults", type=Path, metavar="FILE", help="a schedule of faults to inject, beside the scenario's own")
    sweep = verbs.add_parser(
        "sweep", help="run a scenario over a grid of settings; continues where it was stopped", epilog=_EPILOG, add_help=False
    )
    for verb in (run, sweep):
        verb.add_argument(
            "-h", "--help", action=_HelpWithKeys, help="show this help, and after the name of a scenario its keys, and exit"
        )
    sweep.add_argument("scenario", help="a name from ./castbed list, or a file that ends in .py")
    sweep.add_argument(
        "--over", action="append", required=True, metavar="KEY=V,V,...", help="protocol, medium, a key, or PROTOCOL.PARAMETER"
    )
    sweep.add_argument("--protocol", action="append", metavar="P", help=f"{_PROTOCOL}; may be given several times")
    sweep.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="set a key, or PROTOCOL.PARAMETER, in all runs"
    )
    sweep.set_defaults(call=_later("commands.sweep.command"))
    paper = verbs.add_parser(
        "paper", help="put a paper to the test: its claims, tables and graphs beside our runs, on one page", epilog=_EPILOG
    )
    paper.add_argument("papers", nargs="*", metavar="NAME", help="papers by name or number, or all; without one they are listed")
    paper.add_argument(
        "--on", choices=("simulator", "mininet"), default="simulator", help="virtual time (default), or real packets"
    )
    paper.add_argument("--quick", action="store_true", help="a first look in minutes: short runs, few repeats")
    paper.add_argument("--summaries", type=Path, metavar="DIR", help="write NAME.md and NAME.json there too, such as docs/papers")
    paper.set_defaults(call=_later("commands.paper.command"))
    for verb in (demo, run, sweep):
        verb.add_argument("--on", choices=("mininet", "simulator"), default="mininet", help="real packets, or virtual time")
        verb.add_argument("--seed", type=int, default=1, metavar="N", help="the seed of every random choice (default 1)")
        verb.add_argument("--repeat", type=_positive, default=1, metavar="R", help="run each protocol R times, seeds N, N+1, ...")
        verb.add_argument("--pack", type=_pack_ms, default="0ms", metavar="off|TIME", help=_PACK)
        verb.add_argument("--medium", choices=get_args(Medium), default="unicast", help=f"{_MEDIUM} (default unicast)")


def _add_recorded(verbs: _Verbs) -> None:
    replay = verbs.add_parser("replay", help="repeat recorded runs: the same broadcasts, faults and seeds", epilog=_EPILOG)
    replay.add_argument("run", type=Path, metavar="RUN", help=_RUN)
    replay.add_argument("--on", choices=("mininet", "simulator"), help="real packets, or virtual time (default: as recorded)")
    replay.add_argument("--medium", choices=get_args(Medium), help=f"{_MEDIUM} (default: as recorded)")
    replay.add_argument(
        "--protocol", action="append", metavar="P", help=f"{_PROTOCOL} (default: as recorded); may be given several times"
    )
    replay.add_argument(
        "--set", action="append", default=[], metavar="PROTOCOL.PARAMETER=VALUE", help="with --protocol: set a parameter"
    )
    replay.add_argument(
        "--trust",
        action="store_true",
        help="if the protocol is a file that came with the run: execute it, as you would any program",
    )
    replay.add_argument("--seed", type=int, metavar="N", help="another seed; for several runs, the lowest of their seeds")
    replay.set_defaults(call=_later("commands.run.replay"))
    replay.add_argument("--full-packets", action="store_true", help=_FULL)
    analyse = verbs.add_parser("analyse", help="make tables, summary and plots of runs again; needs no root")
    analyse.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=_RUN)
    analyse.add_argument("--out", type=Path, metavar="DIR", help="where plots that compare runs go (default: into the first RUN)")
    analyse.set_defaults(call=_later("commands.run.analyse"))
    compare = verbs.add_parser(
        "compare", help="compare groups of runs: intervals, differences, plots and one page", epilog=_EPILOG
    )
    compare.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=_RUN)
    compare.add_argument(
        "--by",
        default="label",
        metavar="label|protocol|KEY",
        help="the key that groups runs, such as loss or seed (default label)",
    )
    compare.add_argument(
        "--against", default="", metavar="GROUP", help="the group that the others are tested against (default the first)"
    )
    compare.add_argument("--message", default="", metavar="HOST:N", help="the message of the space-time diagram, such as h1:5")
    compare.set_defaults(call=_later("commands.compare.compare"))
    export = verbs.add_parser(
        "export", help="pack runs into one file that others can analyse, without root", epilog=f"Limits: {LIMITS}."
    )
    export.add_argument("run", type=Path, metavar="RUN", help="the directory of a run, or of several")
    export.add_argument("--out", type=Path, metavar="FILE", help="the archive, ending in .zip (default: beside the directory)")
    export.set_defaults(call=_later("commands.sharing.export"))


def _add_results(verbs: _Verbs) -> None:
    runs = verbs.add_parser("runs", help="list the runs that there are, or some of them, or remove them")
    runs.add_argument("places", nargs="*", type=Path, metavar="DIR", help="where to look (default results)")
    runs.add_argument("--scenario", default="", metavar="S", help="only runs of this scenario")
    runs.add_argument("--protocol", default="", metavar="P", help="only runs of this protocol")
    runs.add_argument("--on", choices=("mininet", "simulator"), default="", help="only runs on this engine")
    runs.add_argument(
        "--verdict",
        choices=("holds", "violated", "unknown", "not tested", "none"),
        default="",
        help="only runs with this verdict",
    )
    runs.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="only runs with this setting or parameter")
    runs.add_argument("--remove", action="store_true", help="remove these runs; without --yes, only show what would be removed")
    runs.add_argument("--yes", action="store_true", help="with --remove: do it")
    runs.set_defaults(call=_later("commands.results.runs.runs"))
    page = verbs.add_parser("open", help="open the page of a run in a browser, or print its path if there is none")
    page.add_argument("run", nargs="?", type=Path, metavar="RUN", help=f"{_RUN} (default: the newest page in results)")
    page.set_defaults(call=_later("commands.results.runs.open_page"))
    plot = verbs.add_parser(
        "plot", help="draw a figure of runs again, as PDF, SVG or PNG: ./castbed plot results/RUN cost --save cost.pdf"
    )
    plot.add_argument(
        "words", nargs="+", metavar="RUN ... NAME", help="runs, and the figure; without a figure, all names are shown"
    )
    plot.add_argument("--save", action="append", default=[], type=Path, metavar="FILE", help="may be given several times")
    plot.add_argument("--size", type=_size_cm, metavar="WxH", help="width and height, such as 12x8cm or 5x3in (default: its own)")
    plot.add_argument("--title", metavar="TEXT", help="another title")
    plot.add_argument("--no-title", action="store_true", help="no title, for a figure with a caption of its own")
    plot.add_argument("--by", default="label", metavar="label|protocol|KEY", help="the key that groups runs (default label)")
    plot.set_defaults(call=_later("commands.results.plot.plot"))
    pcapng = verbs.add_parser("pcapng", help="put the captures of a run into one file for Wireshark, with links as interfaces")
    pcapng.add_argument("run", type=Path, metavar="RUN", help=_RUN)
    pcapng.add_argument("--out", type=Path, metavar="FILE", help="the file of one run (default: beside its directory)")
    pcapng.set_defaults(call=_later("commands.results.pcapng.pcapng"))
    python = verbs.add_parser("python", help="start a Python in which `import castbed` works, for scripts and notebooks")
    python.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="ARGUMENT ...", help="a script, or -m and a module, with arguments"
    )
    python.set_defaults(call=_later("commands.results.interpreter.python"))
    completion = verbs.add_parser(
        "completion",
        help='print completion for a shell: eval "$(./castbed completion bash)"',
        epilog="Put that line into ~/.bashrc.",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    completion.set_defaults(call=_later("commands.names.completion.command"), grammar=parser)


def _add_live(verbs: _Verbs) -> None:
    up = verbs.add_parser("up", help="start a network with a stream of broadcasts, and break it by hand", epilog=_EPILOG)
    up.add_argument("topology", metavar="TOPOLOGY", help="such as clusters:k=4,size=3,shape=ring; see ./castbed list")
    up.add_argument("--protocol", default="cluster-tree", metavar="P", help=f"{_CORE_OR_PROGRAM} (default cluster-tree)")
    up.add_argument("--name", default="", help="the name of the network for other terminals (default: the topology's name)")
    up.add_argument(
        "--source", action="append", default=[], metavar="HOST", help="the host that broadcasts; several broadcast in turn"
    )
    up.add_argument(
        "--interval", type=_time_ms, default=200.0, metavar="TIME", help="time between two broadcasts (default 200ms)"
    )
    up.add_argument("--payload", type=int, default=256, metavar="BYTES", help="the size of a message (default 256)")
    up.add_argument("--for", type=_time_ms, dest="lasts", metavar="TIME", help="open no command line, and end after this time")
    up.add_argument("--seed", type=int, default=1, metavar="N", help="the seed of every random choice (default 1)")
    up.add_argument("--set", action="append", default=[], metavar="PROTOCOL.PARAMETER=VALUE", help="set a parameter")
    up.add_argument("--pack", type=_pack_ms, default="0ms", metavar="off|TIME", help=_PACK)
    up.add_argument("--medium", choices=get_args(Medium), default="unicast", help=f"{_MEDIUM} (default unicast)")
    up.add_argument("--full-packets", action="store_true", help=_FULL)
    up.set_defaults(call=_later("commands.up.up"))
    fault = verbs.add_parser("fault", help="send a verb to a network that is up: ./castbed fault fail s1 s2")
    fault.add_argument(
        "words", nargs="+", metavar="WORD", help="a verb of the command line of ./castbed up, where help lists all verbs"
    )
    fault.set_defaults(call=_later("commands.remote.fault"))
    status = verbs.add_parser("status", help="show the networks that are up")
    status.set_defaults(call=_later("commands.remote.status"))
    watch = verbs.add_parser("watch", help="a live view of a network that is up, until it ends or Ctrl-C")
    watch.add_argument("--every", type=_some_time_ms, default=1000.0, metavar="TIME", help="the interval (default 1s)")
    watch.set_defaults(call=_later("commands.remote.watch"))
    for verb in (fault, status, watch):
        verb.add_argument("--name", default="", help="which network, if several are up")


def _add_verdicts(verbs: _Verbs) -> None:
    check = verbs.add_parser("check", help="check runs against the promises of their protocols; needs no root", epilog=_EPILOG)
    check.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=_RUN)
    check.set_defaults(call=_later("commands.verdict.check"))
    tree = verbs.add_parser(
        "tree", help="show the tree that a run's hosts formed, draw it, and tell how long each fault was felt; needs no root"
    )
    tree.add_argument("run", type=Path, metavar="RUN", help=_RUN)
    tree.add_argument("--source", default="", metavar="HOST", help="the source of the tree (default: the first source)")
    tree.add_argument(
        "--at",
        action="append",
        default=[],
        type=_time_ms,
        metavar="TIME",
        help="such as 3s, since the first broadcast (default: the end)",
    )
    tree.set_defaults(call=_later("commands.verdict.tree"))
    campaign = verbs.add_parser(
        "campaign", help="run thousands of random cases in virtual time, each with a verdict", epilog=_EPILOG
    )
    campaign.add_argument("--protocol", required=True, metavar="P", help=_CORE)
    campaign.add_argument("--schedules", type=_positive, default=1000, metavar="N", help="number of cases (default 1000)")
    campaign.add_argument("--seed", type=int, default=1, metavar="S", help="the first case's number (default 1)")
    campaign.add_argument("--set", action="append", default=[], metavar="PROTOCOL.PARAMETER=VALUE", help="set a parameter")
    campaign.add_argument("--medium", choices=get_args(Medium), default="unicast", help=f"{_MEDIUM} (default unicast)")
    for verb in (verbs.choices["sweep"], verbs.choices["paper"], campaign):
        verb.add_argument("--jobs", type=_jobs, metavar="J", help="simulations at a time (default: one for each core)")
    campaign.add_argument(
        "--brief",
        action="store_true",
        help="end a case as soon as its verdict is certain, several times as fast; "
        "quiescence, bounded memory and cluster trees take longer to tell, and are then judged in one case of eight",
    )
    campaign.add_argument("--replay", metavar="SEED|FILE", help="run one case again: by its number, or a shrunk one by its file")
    campaign.set_defaults(call=_later("commands.campaign.campaign"))


def _add_looks(verbs: _Verbs) -> None:
    new = verbs.add_parser("new", help="write a small protocol, scenario or network that works, to be changed")
    new.add_argument("kind", choices=("protocol", "scenario", "network"), help="what to write")
    new.add_argument("name", metavar="NAME", help="its name; the file is NAME.py or NAME.json, in the current directory")
    new.set_defaults(call=_later("commands.new.command.command"))
    guests = verbs.add_parser("guests", help="real systems to run beside our protocols: list them, or install those named")
    guests.add_argument("names", nargs="*", metavar="NAME", help="a guest to install, such as corosync")
    guests.set_defaults(call=_later("commands.look.guests"))
    for name, call, text in (
        ("list", "list_all", "show scenarios, protocols, guests, faults and topologies"),
        ("doctor", "examine", "show what this machine can do, and what is missing"),
        ("clean", "clean", "remove what killed runs left behind, and nothing else"),
    ):
        verbs.add_parser(name, help=text).set_defaults(call=_later(f"commands.look.{call}"))
    dissector = verbs.add_parser("dissector", help="print a dissector for Wireshark: ./castbed dissector > castbed.lua")
    dissector.add_argument("run", nargs="?", type=Path, metavar="RUN", help=f"{_RUN}, whose hosts are then called by their names")
    dissector.add_argument("--protocol", default="", metavar="FILE", help="your own protocol, whose messages are then known too")
    dissector.set_defaults(call=_later("commands.look.dissector"))
    show = verbs.add_parser("show", help="show the keys of a scenario, protocol, fault or topology: default, unit and meaning")
    show.add_argument(
        "name", metavar="NAME", help="a name from ./castbed list, or the file of a scenario or protocol that ends in .py"
    )
    show.set_defaults(call=_later("commands.names.show.show"))
    topology = verbs.add_parser("topology", help="show a network; save it as .json, .graphml, .png, .svg or .pdf")
    topology.add_argument("--save", action="append", default=[], type=Path, metavar="FILE", help="may be given several times")
    topology.set_defaults(call=_later("commands.look.topology"))
    routes = verbs.add_parser("routes", help="show the flows and paths that the controller would install")
    routes.set_defaults(call=_later("commands.look.routes"))
    graph = verbs.add_parser("graph", help="show the propagation graph of some groups (third paper)")
    graph.add_argument(
        "groups",
        metavar="GROUPS",
        help='alpha:h1,h2;beta:h2,h3, a file like {"alpha": ["h1", "h2"]}, a scenario, or random:sites=200,groups=40,size=5,seed=7',
    )
    graph.add_argument("--on", metavar="TOPOLOGY", help="the network whose hosts are the sites; needed if --by uses distances")
    graph.add_argument("--by", choices=METHODS, default="heuristic-1", help="how the graph is built (default: %(default)s)")
    graph.add_argument("--independent", action="store_true", help="avoid extra sites where the one order still holds")
    graph.add_argument("--children", type=_positive, metavar="N", help="at most N children where that costs no extra sites")
    graph.add_argument("--seed", type=int, default=1, metavar="N", help="the seed of random choices (default: %(default)s)")
    graph.add_argument("--save", type=Path, metavar="STEM", help="draw the graph as STEM.png and STEM.svg")
    graph.set_defaults(call=_later("commands.graph.command"))
    controller = verbs.add_parser("controller", help="run the controller by hand, for switches made elsewhere")
    controller.add_argument(
        "--listen",
        type=address,
        default="127.0.0.1:6653",
        metavar="ADDRESS",
        help="127.0.0.1:PORT, which every user of this machine can connect to, or unix:PATH, which only you can",
    )
    controller.set_defaults(call=_later("commands.look.controller"))
    for verb in (topology, routes, controller):
        verb.add_argument("topology", metavar="TOPOLOGY", help="such as clusters:k=4,size=3,shape=ring; see ./castbed list")
    test = verbs.add_parser("test", help="check style, types and behaviour of Castbed itself")
    test.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="ARGUMENT ...", help="arguments for pytest alone, such as tests/hostagent"
    )
    test.set_defaults(call=_later("commands.look.test"))


def _later(name: str) -> Callable[[argparse.Namespace], int]:
    """A command that is imported when it is called, so that no command waits for the imports of another."""
    module, _, function = name.rpartition(".")

    def call(arguments: argparse.Namespace) -> int:
        status: int = getattr(import_module(f"testbed.{module}"), function)(arguments)
        return status

    return call


def _positive(text: str) -> int:
    try:
        number = whole(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    if number > _MOST:
        raise argparse.ArgumentTypeError(f"{text} is too many: at most {_MOST:,}")
    return number


def _jobs(text: str) -> int:
    jobs = _positive(text)
    if jobs > _MOST_JOBS:
        raise argparse.ArgumentTypeError(f"{text} processes are too many: at most {_MOST_JOBS:,}")
    return jobs


def _pack_ms(text: str) -> float | None:
    if text == "off":
        return None
    try:
        return time_ms(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither off nor a time such as 0ms or 25ms") from None


def _time_ms(text: str) -> float:
    try:
        return time_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _size_cm(text: str) -> tuple[float, float]:
    from analysis.notebook.figures import size_cm

    try:
        return size_cm(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _some_time_ms(text: str) -> float:
    if _time_ms(text) < _SHORTEST_WAIT_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is too short: {_SHORTEST_WAIT_MS:g}ms is the least")
    return _time_ms(text)


def _spark_master(text: str) -> str:
    if not re.fullmatch(r"local(\[.+\])?|yarn|(spark|k8s)://.+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a Spark master: write local[*], spark://HOST:PORT, k8s://URL or yarn")
    return text


def _read(words: Sequence[str]) -> argparse.Namespace:
    """All that follows `python` and `test` is theirs. argparse would take a first word that begins with a dash for an option of Castbed."""
    if not (words and words[0] in _VERBATIM and words[1:2] not in ([], ["-h"], ["--help"])):
        return parser().parse_args(words)
    arguments = parser().parse_args(words[:1])
    arguments.words = words[1:]
    return arguments


def main(words: Sequence[str] | None = None) -> int:
    """Read the arguments and call the command."""
    arguments = _read(sys.argv[1:] if words is None else [*words])
    on_end(_interrupt)
    try:
        status: int = arguments.call(arguments)
    except (CannotRun, ProtocolError, ScenarioError, FaultError, NetworkError, ResultsError) as error:
        errors.print(f"castbed: {error}", soft_wrap=True)
        return UNKNOWN
    except CoreFailed as error:
        return _core_failed(error)
    except ModuleNotFoundError as error:
        if (package := (error.name or "").partition(".")[0]) not in _OPTIONAL:
            raise
        errors.print(f"castbed: {_OPTIONAL[package]}", soft_wrap=True)
        return UNKNOWN
    except OSError as error:
        errors.print(f"castbed: {error.filename or 'a file'}: {error.strerror}", soft_wrap=True)
        return UNKNOWN
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - Python would end with status 1: a promise was violated
        return _failed(error)
    finally:
        settle()
    return status


def _core_failed(error: CoreFailed) -> int:
    """A protocol has raised an exception, which is a bug in Castbed only if the protocol is Castbed's."""
    if not error.failure.is_users:
        errors.print(error.failure.trace, soft_wrap=True)
    errors.print(f"castbed: {error}", soft_wrap=True)
    if not error.failure.is_users:
        errors.print(_BUG, soft_wrap=True)
    return UNKNOWN


def _failed(error: BaseException) -> int:
    """The user has interrupted the command, or it has a bug."""
    # Code that was interrupted half-way, such as the release of a lock, may fail for that reason alone.
    if KeyboardInterrupt in {type(error), type(error.__context__)}:
        errors.print("castbed: interrupted; nothing is left running", soft_wrap=True)
        return INTERRUPTED
    if users := blamed(error):
        return _core_failed(users)
    errors.print_exception()
    errors.print(_BUG, soft_wrap=True)
    return UNKNOWN


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Spark's gateway would take a second to shut down.
    os._exit(status)
