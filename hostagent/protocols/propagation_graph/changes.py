"""Changes to a propagation graph after it was built: more independence of its sites, or less load at the cost of depth.

Third paper, section 3.5 and section 4.1.2 (Figure 4.1).
"""

from collections.abc import Iterator
from dataclasses import replace

from hostagent.protocols.propagation_graph.graph import PropagationGraph


def improved(graph: PropagationGraph, children: int = 0, *, independent: bool = False) -> PropagationGraph:
    """The graph with at most so many children for each site, unless 0, and with fewer extra sites if that is wanted."""
    spread = spread_load(graph, children) if children else graph
    return make_independent(spread) if independent else spread


def make_independent(graph: PropagationGraph) -> PropagationGraph:
    """Remove extra sites from the paths of groups that they are not in, wherever one order can still be kept.

    A member that gets a group's messages from an extra site gets them instead from the next member further up (Figure 3.4). The member
    must then be the only site to do its merges; other members that need the same merge become its descendants (Figure 3.5). Where that
    does not help, the extra site stays (Figure 3.6).
    """
    better: PropagationGraph | None = graph
    while better is not None:
        graph = better
        better = next((tried for tried in _more_independent(graph) if _is_better(tried, graph)), None)
    return graph


def _is_better(tried: PropagationGraph, graph: PropagationGraph) -> bool:
    return _count_extra(tried) < _count_extra(graph) and not any(tried.one_order())


def _count_extra(graph: PropagationGraph) -> int:
    return sum(len(graph.extra_sites(group)) for group in graph.groups)


def _more_independent(graph: PropagationGraph) -> Iterator[PropagationGraph]:
    """Graphs in which one member gets one group's messages past the extra sites above it."""
    for group, members in graph.groups.items():
        for site in members:
            above = graph.path(group, site)[-2::-1]
            nearest = next((sender for sender in above if sender in members), None)
            if above and above[0] != nearest and nearest is not None:
                tried = replace(graph, bypasses={**graph.bypasses, (group, site): nearest})
                yield tried
                yield _gathered(tried, group, site)


def _gathered(graph: PropagationGraph, group: str, merger: str) -> PropagationGraph:
    """The graph in which every site that needs a merge that `merger` now does is moved below `merger`, with the site's subtree."""
    parents, bypasses = dict(graph.parents), dict(graph.bypasses)
    for other in graph.groups:
        merging = graph.merge_sites(group, other) if other != group else {}
        for site in merging if merging.get(merger) == merger else ():
            if site != merger and site not in graph.ancestors(merger):
                parents[site] = merger
                bypasses.pop((group, site), None)
    return replace(graph, parents=parents, bypasses=bypasses)


def spread_load(graph: PropagationGraph, most_children: int) -> PropagationGraph:
    """Give every site at most `most_children` where that adds no extra sites: depth grows, the load of the busiest site falls.

    A child of a site with too many children moves below a sibling that is in all the groups whose messages the child gets from
    the parent, so the sibling gets no messages that it would not get anyway.
    """
    parents = dict(graph.parents)
    waiting = list(graph.roots)
    while waiting:
        site = waiting.pop(0)
        kept = [child for child, parent in parents.items() if parent == site]
        for child in reversed(kept[:]):
            heirs = [sibling for sibling in kept if sibling != child and _can_carry(graph, sibling, site, child)]
            if heirs and len(kept) > most_children:
                parents[child] = min(heirs, key=lambda heir: sum(parent == heir for parent in parents.values()))
                kept.remove(child)
        waiting += kept
    spread = replace(graph, parents=parents)
    return spread if _count_extra(spread) <= _count_extra(graph) else graph


def _can_carry(graph: PropagationGraph, sibling: str, parent: str, child: str) -> bool:
    """Whether a sibling is in every group whose messages the parent sends to the child."""
    return all(sibling in graph.groups[group] for group, route in graph.routes.items() if route.get(child) == parent)
