"""Shows a snapshot as text that fits an 80-column terminal."""

import io
import textwrap
from collections.abc import Sequence
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from scenarios.faults import FaultError
from testbed.live.snapshot import PURPOSES, GraphNow, Happening, HostNow, LinkNow, Snapshot
from testbed.terminal import plain_console

WIDTH = 80
LEAST_HAPPENINGS = 4
Row = TypeVar("Row")


def text(*parts: RenderableType) -> str:
    """The text that a terminal would show, without colours."""
    console = plain_console(file=io.StringIO(), width=WIDTH)
    for part in parts:
        console.print(part)
    shown = console.file
    return shown.getvalue().rstrip("\n") if isinstance(shown, io.StringIO) else ""


def status(now: Snapshot) -> str:
    """The state of hosts and links, for the verb `status`."""
    problems = (f"problem: {problem}" for problem in now.problems)
    return text(
        headline(now), *filter(None, [_token(now)]), "", host_table(now), "", link_table(now), *_group_lines(now), *problems
    )


def _group_lines(now: Snapshot) -> list[str]:
    return ["", *(f"group {name}: {', '.join(members)}" for name, members in now.groups.items())] if now.groups else []


def headline(now: Snapshot) -> str:
    """The network in one line."""
    messages = sum(now.broadcasts.values())
    every = f", every {now.interval_ms:g} ms" if now.interval_ms else ""
    network = f"{now.network}, " if now.network != now.name else ""
    return f"{now.name}: {network}{now.protocol}, {now.at_s:.0f} s, {messages} messages{every}"


def host_table(now: Snapshot) -> Table:
    """One row a host."""
    graphs = any(host.graph for host in now.hosts)
    table = table_of("host", "state", "delivered", "missing", "parent", *(("graph", "primary destination of") if graphs else ()))
    for column in (2, 3):
        table.columns[column].justify = "right"
    for host in now.hosts:
        about = (str(host.graph), ", ".join(host.graph.primary_of)) if host.graph else ()
        counts = str(host.delivered), str(host.missing)
        table.add_row(host.host, host.trouble or host.state, *counts, parents_of(host), *about)
    return table


def parents_of(host: HostNow) -> str:
    """The parent of a host; with several trees, the parent in each, with its source."""
    if len(host.parents) == 1:
        return next(iter(host.parents.values()))
    return ", ".join(f"{parent} ({source})" for source, parent in host.parents.items())


def link_table(now: Snapshot) -> Table:
    """One row a link between switches."""
    table = table_of("link", "cost", "state", "packets", "changed to")
    table.columns[3].justify = "right"
    for link in now.links:
        packets = str(packets_on(link)) if link.expensive else ""
        table.add_row(link.link, "expensive" if link.expensive else "cheap", "up" if link.up else "DOWN", packets, link.changes)
    return table


def packets_on(link: LinkNow) -> int:
    """Packets in both directions."""
    return sum(count for way in link.packets.values() for count in way.values())


def tree(now: Snapshot, source: str = "") -> str:
    """The parent graph of each source, or of one source, for the verb `tree`."""
    if source and source not in {host.host for host in now.hosts}:
        raise FaultError(f"there is no host {source!r}")
    known = [name for name in dict.fromkeys(s for host in now.hosts for s in host.parents) if source in {"", name}]
    if not known:
        return f"no host has a parent{f' in the tree of {source}' if source else ''}: {now.protocol} has made no tree yet, or makes none"
    return text(*(tree_of(now, name) for name in known))


def tree_of(now: Snapshot, source: str) -> Tree:
    """The parent graph of a source. A leader has its parent in another cluster. Hosts that are not below the source follow at the end."""
    cluster_of = {host: number for number, cluster in enumerate(now.clusters) for host in cluster}
    parent_of = {host.host: host.parents[source] for host in now.hosts if source in host.parents}
    state = {host.host: f" ({host.trouble})" if host.trouble else "" for host in now.hosts}
    graphs = {host.host: host.graph for host in now.hosts if host.graph}
    drawn = {source}

    def label(host: str) -> str:
        leads = host in parent_of and cluster_of[host] != cluster_of[parent_of[host]] and host not in graphs
        return f"{host}{' leads its cluster' if leads else ''}{state[host]}{_told(graphs.get(host))}"

    def grow(branch: Tree, host: str) -> Tree:
        for child in (child for child, parent in parent_of.items() if parent == host and child not in drawn):
            drawn.add(child)
            grow(branch.add(label(child)), child)
        return branch

    what = f"the root{_told(graphs[source])}" if source in graphs else "the source"
    root = grow(Tree(f"{source}, {what}{state[source]}"), source)
    for host in (host.host for host in now.hosts if host.host not in drawn):
        root.add(f"apart: {host}{state[host]}{f', child of {parent_of[host]}' if host in parent_of else ', no parent'}")
    return root


def _told(graph: GraphNow | None) -> str:
    """What a host does in a propagation graph, besides passing messages on."""
    primary = f", primary destination of {', '.join(graph.primary_of)}" if graph and graph.primary_of else ""
    return f"{primary}{f', graph {graph.number} closed' if graph and graph.closed else ''}"


def costs(now: Snapshot) -> str:
    """Expensive packets so far, for the verb `costs`."""
    table = table_of("link", "way", *PURPOSES, "all")
    for column in range(2, 3 + len(PURPOSES)):
        table.columns[column].justify = "right"
    for link in (link for link in now.links if link.expensive):
        for way, counts in link.packets.items():
            table.add_row(link.link, way, *_counts(counts))
    messages = sum(now.broadcasts.values())
    table.add_section()
    table.add_row("host to host", "", *_counts(now.expensive_packets))
    if messages:
        all_packets = sum(now.expensive_packets.values())
        per = [*(now.expensive_packets[purpose] / messages for purpose in PURPOSES), all_packets / messages]
        table.add_row("per message", "", *(f"{value:.2f}" for value in per))
    return text(table, f"{messages} messages; at least {now.lower_bound} expensive packets each, with one packet a message")


def _counts(counts: dict[str, int]) -> list[str]:
    return [*(str(counts.get(purpose, 0)) for purpose in PURPOSES), str(sum(counts.values()))]


def table_of(*headings: str, title: str = "") -> Table:
    """An empty table in Castbed's style."""
    table = Table(
        box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False, title=title or None, title_justify="left"
    )
    for heading in headings:
        table.add_column(heading)
    return table


def watched(before: Snapshot, now: Snapshot, width: int, height: int) -> RenderableType:
    """The whole network on one screen, and what happened last. If hosts or links do not fit, those with problems come first."""
    head = [*textwrap.wrap(headline(now), width), *textwrap.wrap(_cost_line(before, now), width)]
    head += [line[:width] for line in (_groups(now) if now.groups else "", _graphs(now), _token(now)) if line]
    room = height - 4 - len(now.problems[-2:]) - len(head)
    # What happened has the lines that the tables leave, and a few in any case.
    pane = min(len(now.happenings), max(LEAST_HAPPENINGS, room - 1 - max(len(now.hosts), len(now.links))), max(0, room - 2))
    lines = max(1, room - (pane + 1 if pane else 0))
    hosts = sorted(now.hosts, key=lambda host: (not host.trouble, host.missing == 0))
    links = sorted(now.links, key=lambda link: (link.up and not link.changes, not link.expensive))
    link_rows = table_of("link", "", "/s", "changed to")
    link_rows.columns[2].justify = "right"
    earlier = {link.link: link for link in before.links}
    for link in _first(links, now.links, lines):
        state = Text("DOWN", "bold red") if not link.up else "expensive" if link.expensive else "cheap"
        per_s = _per_second(packets_on(link) - packets_on(earlier[link.link]), before, now) if link.expensive else ""
        link_rows.add_row(link.link, state, per_s, link.changes)
    host_rows = table_of("host", "", "has", "lacks", "parent")
    for column in (2, 3):
        host_rows.columns[column].justify = "right"
    for host in _first(hosts, now.hosts, lines):
        trouble = Text(host.trouble, "bold red")
        host_rows.add_row(host.host, trouble, str(host.delivered), str(host.missing or ""), parents_of(host))
    both = Table.grid(padding=(0, 3))
    both.add_row(host_rows, link_rows)
    more = len(now.hosts) - lines, len(now.links) - lines
    left_out = ", ".join(f"{count} more {what}" for count, what in zip(more, ("hosts", "links"), strict=True) if count > 0)
    problems = (Text(problem[: width - 1], "bold red") for problem in now.problems[-2:])
    return Group(
        *head,
        "",
        both,
        left_out,
        *problems,
        *(["what happened:"] if pane else []),
        *(happening(one)[:width] for one in now.happenings[len(now.happenings) - pane :]),
    )


def happening(one: Happening) -> str:
    """One line for something that happened."""
    return f"{one.at_s:7.1f} s  {one.who}: {one.what}"


def news(before: Snapshot, now: Snapshot) -> list[str]:
    """Lines for what happened since a snapshot."""
    known = max((one.number for one in before.happenings), default=0)
    return [happening(one) for one in now.happenings if one.number > known]


def ended(last: Snapshot) -> str:
    """How a network ended, as far as a watcher saw it."""
    lacking = ", ".join(f"{host.host} lacks {host.missing}" for host in last.hosts if host.missing)
    return f"{headline(last)}; it has ended, and {lacking or 'everybody has every message'}"


def _first(sorted_rows: Sequence[Row], rows: Sequence[Row], lines: int) -> Sequence[Row]:
    """All rows in their own order if they fit, else the first of the sorted rows."""
    return rows if len(rows) <= lines else sorted_rows[:lines]


def line(before: Snapshot, now: Snapshot) -> str:
    """The network in one line, for a file or a pipe."""
    troubles = [
        *(f"{host.host} {host.trouble}" for host in now.hosts if host.trouble),
        *(f"{host.host} lacks {host.missing}" for host in now.hosts if host.state == "up" and host.missing),
        *(f"{link.link} down" for link in now.links if not link.up),
        *(f"{link.link} {link.changes}" for link in now.links if link.changes),
        *now.problems,
    ]
    more = (_groups(now) if now.groups else "", _graphs(now), _token(now))
    return "; ".join(filter(None, (headline(now), _cost_line(before, now), ", ".join(troubles) or "all is well", *more)))


def _groups(now: Snapshot) -> str:
    """The groups with their members, in one line."""
    return "groups: " + "; ".join(f"{name} {','.join(members)}" for name, members in now.groups.items())


def _graphs(now: Snapshot) -> str:
    """The propagation graphs that hosts are in, with the primary destinations, in one line; empty if there is no graph."""
    graphs = {host.host: host.graph for host in now.hosts if host.graph}
    if not graphs:
        return ""
    hosts: dict[str, list[str]] = {}
    for host, graph in graphs.items():
        hosts.setdefault(f"graph {graph}", []).append(host)
    told = "; ".join(f"{graph} at {', '.join(some)}" for graph, some in hosts.items()) if len(hosts) > 1 else next(iter(hosts))
    primary = ", ".join(f"{group} {host}" for host, graph in graphs.items() for group in graph.primary_of)
    return f"{told}{f'; primary destinations: {primary}' if primary else ''}"


def _token(now: Snapshot) -> str:
    """Where the token is, and up to which message hosts have committed, in one line; empty if there is neither."""
    hosts: dict[str, list[str]] = {}
    for host in now.hosts:
        if host.committed:
            hosts.setdefault(host.committed, []).append(host.host)
    committed = ", ".join(f"{message} ({' '.join(some)})" for message, some in hosts.items())
    return "; ".join(filter(None, (now.token and f"token: {now.token}", committed and f"committed up to {committed}")))


def _cost_line(before: Snapshot, now: Snapshot) -> str:
    messages, packets = sum(now.broadcasts.values()), sum(now.expensive_packets.values())
    news = {purpose: now.expensive_packets[purpose] - before.expensive_packets[purpose] for purpose in PURPOSES}
    rates = ", ".join(f"{purpose} {_per_second(count, before, now)}" for purpose, count in news.items())
    each = (
        f"{packets / messages:.2f} a message, at least {now.lower_bound} with one packet a message" if messages else f"{packets}"
    )
    return f"expensive packets: {each}; per s: {rates}"


def _per_second(count: int, before: Snapshot, now: Snapshot) -> str:
    return f"{count / max(now.at_s - before.at_s, 0.001):.0f}" if count else "0"
