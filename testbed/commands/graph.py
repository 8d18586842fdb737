"""The command graph: the propagation graph of groups, as a table, as JSON and as pictures. Returns the exit status."""

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from hostagent.protocols.propagation_graph.generator import BLIND, alike, generate, improved
from hostagent.protocols.propagation_graph.graph import PropagationGraph, check
from scenarios import Group, catalogue
from scenarios.groups import GroupError, check_groups, random_groups, read_groups
from testbed.errors import CannotRun
from testbed.ownership import hand_over
from testbed.status import HOLDS, VIOLATED
from testbed.terminal import errors, output, print_table
from topologies import Network, find
from topologies.paths import distance

_RANDOM_SITES = re.compile(r"random:sites=(\d+),groups=(\d+),size=(\d+)(?:,seed=(\d+))?")


class GroupFigures(msgspec.Struct, frozen=True):
    """The cost of a graph for one group."""

    members: tuple[str, ...]
    primary: str
    depth: int
    extra_sites: tuple[str, ...]
    packets: int
    """The packets of one message: n + e."""


class GraphFigures(msgspec.Struct, frozen=True):
    """A propagation graph as JSON."""

    parents: dict[str, str]
    bypasses: tuple[tuple[str, str, str], ...]
    """Group, receiver and sender of each edge that is not in the forest."""
    groups: dict[str, GroupFigures]
    load: dict[str, int]
    problems: dict[str, str]
    """For each of PG1 to PG4 and the one order, why the property does not hold; empty if it holds."""


def command(arguments: Namespace) -> int:
    """Build and show the graph. PG3 and PG4 need not hold; a graph without PG1, PG2 or one order would be a bug."""
    try:
        groups, sites, network = _asked(arguments.groups, arguments.on)
    except GroupError as error:
        raise CannotRun(str(error)) from None
    if arguments.by not in BLIND and network is None:
        raise CannotRun(f"--by {arguments.by} needs a network: name it with --on, such as --on grid:rows=4,cols=4")
    far = (lambda one, other: distance(network, one, other)) if network else alike
    graph = generate({group.name: group.members for group in groups}, sites, arguments.by, far, arguments.seed)
    graph = improved(graph, arguments.children or 0, independent=arguments.independent)
    figures = _figures(graph)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(figures) + b"\n")
    else:
        _print(graph, figures)
    if arguments.save:
        hand_over(*(Path(f"{arguments.save}{end}") for end in (".png", ".svg", "-on-network.png", "-on-network.svg")))
    for path in _draw(graph, network, arguments.save) if arguments.save else ():
        errors.print(f"wrote {path}", soft_wrap=True)
    return VIOLATED if any(figures.problems[name] for name in ("PG1", "PG2", "one order")) else HOLDS


def _asked(text: str, topology: str | None) -> tuple[Sequence[Group], Sequence[str], Network | None]:
    """The groups that a user named, their sites, and the network if there is one; a scenario has its own."""
    network = find(topology) if topology else None
    if drawn := _RANDOM_SITES.fullmatch(text):
        count, number, size, seed = (int(word or 1) for word in drawn.groups())
        sites = network.hosts[:count] if network else tuple(f"h{place}" for place in range(1, count + 1))
        if len(sites) < count:
            raise GroupError(f"{text}: the network has only {len(sites)} hosts")
        if not count or not number:
            raise GroupError(f"{text}: there must be at least one site and one group")
        return random_groups(sites, number, size, seed), sites, network
    if text.startswith("random:") and network is None:
        raise GroupError(f"{text}: say among how many sites, as in random:sites=20,groups=8,size=4, or name a network with --on")
    groups: Sequence[Group]
    if text in catalogue.names():
        scenario = catalogue.find(text).build({})[0].scenario
        network, groups = network or scenario.network, scenario.groups
    else:
        groups = _read_file(Path(text)) if Path(text).is_file() else read_groups(text, network.hosts if network else ())
    if not groups:
        raise GroupError(f"{text} has no groups: write them as alpha:h1,h2;beta:h2,h3")
    sites = network.hosts if network else tuple(dict.fromkeys(member for group in groups for member in group.members))
    check_groups(groups, sites)
    return groups, sites, network


def _read_file(path: Path) -> list[Group]:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[str, ...]])
    except (OSError, msgspec.MsgspecError) as error:
        raise GroupError(f'{path} has no groups: write them like {{"alpha": ["h1", "h2"]}}; {error}') from None
    return [Group(name, members) for name, members in found.items()]


def _figures(graph: PropagationGraph) -> GraphFigures:
    return GraphFigures(
        parents=dict(graph.parents),
        bypasses=tuple((group, receiver, sender) for (group, receiver), sender in graph.bypasses.items()),
        groups={
            group: GroupFigures(
                members, graph.primary(group), graph.depth(group), graph.extra_sites(group), len(graph.routes[group])
            )
            for group, members in graph.groups.items()
        },
        load=dict(graph.load),
        problems=check(graph),
    )


def _print(graph: PropagationGraph, figures: GraphFigures) -> None:
    for root in graph.roots:
        if graph.children(root):
            _print_tree(graph, root)
    alone = [root for root in graph.roots if not graph.children(root)]
    if alone:
        output.print(f"alone: {' '.join(alone)}", soft_wrap=True)
    for group, receiver, sender in figures.bypasses:
        output.print(f"{sender} -> {receiver} for {group}, past the sites between them", soft_wrap=True)
    table = Table(box=None, padding=(0, 2))
    for heading in ("group", "members", "primary", "depth", "extra sites", "packets"):
        table.add_column(heading, justify="right" if heading in {"depth", "packets"} else "left")
    for name, about in figures.groups.items():
        words = (name, " ".join(about.members), about.primary, str(about.depth), " ".join(about.extra_sites), str(about.packets))
        table.add_row(*words)
    print_table(table)
    busiest = max(figures.load, key=lambda site: figures.load[site])
    number = len(figures.groups)
    depth = sum(about.depth for about in figures.groups.values()) / number
    extra = sum(len(about.extra_sites) for about in figures.groups.values()) / number
    output.print(
        f"mean depth {depth:.2f}; mean extra sites {extra:.2f}; with one message to each group, "
        f"{busiest} has the highest load: {figures.load[busiest]} messages sent and received",
        soft_wrap=True,
    )
    for name, problem in figures.problems.items():
        output.print(f"{name}: {f'no, {problem}' if problem else 'yes'}", soft_wrap=True)


def _print_tree(graph: PropagationGraph, root: str) -> None:
    waiting = [(root, 0)]
    while waiting:
        site, indent = waiting.pop()
        primary_of = [group for group in graph.groups if graph.primary(group) == site]
        about = f"  (primary destination of {', '.join(primary_of)})" if primary_of else ""
        output.print(f"{'  ' * indent}{site}{about}", soft_wrap=True)
        waiting += [(child, indent + 1) for child in reversed(graph.children(site))]


def _draw(graph: PropagationGraph, network: Network | None, stem: Path) -> list[Path]:
    """Draw the forest and, if there is a network, the forest on the network. Returns the files."""
    from analysis.pictures.forests import forest_figure
    from topologies.drawing import DrawnTree, save, tree_figure

    primaries = {site: ", ".join(group for group in graph.groups if graph.primary(group) == site) for site in graph.parents}
    notes = {site: told for site, told in primaries.items() if told}
    bypasses = [(group, sender, receiver) for (group, receiver), sender in graph.bypasses.items()]
    title = f"{len(graph.groups)} groups among {len(graph.parents)} sites"
    paths = [*save(forest_figure(graph.parents, notes, bypasses, title), stem)]
    if network is not None:
        parents = {site: parent for site, parent in graph.parents.items() if parent}
        laid_over = DrawnTree(source="", parents=parents, leaders=notes, leader="primary destination")
        paths += save(tree_figure(network, laid_over, f"{title}, on {network.name}"), stem.with_name(f"{stem.name}-on-network"))
    return paths
