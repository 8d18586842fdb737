"""The third paper: the propagation graph, the algorithms that it is compared with, and the experiments of chapter 4."""

from typing import Final

from papers import chapter_4, drawn_graphs
from papers.paper import By, Experiment, Paper, Slip, StatedGraph, StatedTable, Statement

_STUDY: Final = chapter_4.STUDY.name
_SHAPES: Final = {
    "4.1": "With ever more sites the depth of a group rises, as there are fewer intersections, and falls again, as trees get sparse.",
    "4.2": "The depth rises and falls with the size of groups too.",
    "4.3": "The number of extra sites is low in general, and rises and falls as the depth does.",
    "4.4": "The load of the busiest site is between that of two-phase and the central site, and gets very low where trees are sparse.",
    "4.5": "The load of the busiest site is between that of two-phase and the central site for groups of any size.",
    "4.6": "Heuristic I yields better trees than random choices (20 groups).",
    "4.7": "Heuristic I yields better trees than random choices (40 groups).",
    "4.8": "On a grid Heuristic II is slightly better than I; the minimum spanning tree does well for few sites, and its paths always "
    "grow, while those of the heuristics decrease (20 groups).",
    "4.9": "On a grid Heuristic II is slightly better than I; the minimum spanning tree does well for few sites, and its paths always "
    "grow (40 groups).",
    "4.10": "Heuristic III outperforms II, and cannot beat the minimum spanning tree in some cases (20 groups).",
    "4.11": "Heuristic III outperforms II, and cannot beat the minimum spanning tree in some cases (40 groups).",
    "4.12": "The shortest-path tree usually has the shortest paths (20 groups).",
    "4.13": "The shortest-path tree usually has the shortest paths (40 groups).",
    "4.14": "Both trees have many more extra sites than the heuristics.",
}
_NOTES: Final = {
    **dict.fromkeys(
        ("4.1", "4.3"),
        "The text does not say which numbers of groups are drawn. Of 10 groups of five the peak is at 20 sites or below, so only "
        "their fall is tested.",
    ),
    "4.2": "The text does not say how many sites there are: 200, as in Graph 4.5.",
    "4.4": "The text does not say how many groups there are: 20. Load is that of one message to each group; of two-phase it is that of "
    "receivers, as in the paper.",
    "4.8": "Beyond 300 sites groups hardly intersect any more, and the paths of the heuristics grow again, with the grid itself.",
    "4.10": "Where groups hardly intersect any more, Heuristics II and III are alike.",
}
PAPER: Final = Paper(
    name="ordered_multicast",
    title="Ordered and Reliable Multicast Communication",
    authors="Annemarie Spauster, thesis, Princeton University, 1991",
    about="Messages to overlapping groups, in one order for all hosts. They travel down a forest that is built from the groups; the "
    "thesis compares it with central, two-phase, token-passing and other algorithms, lets groups change, and has sites fail.",
    experiments=(
        Experiment("propagation_graph", pack_ms=None),
        Experiment("table_2_1", quick={"messages": "60"}, on_mininet=False),
        Experiment("table_4_1", simulated={"delay": "20ms"}, pack_ms=None, repeat=6),
        Experiment("table_4_2", simulated={"delay": "20ms"}, pack_ms=None, repeat=6),
        Experiment("order_costs", simulated={"delay": "20ms"}, quick={"hosts": "6", "messages": "12"}, pack_ms=None),
        Experiment("graph_costs", quick={"graphs": "heuristic-2,shortest-path-tree", "messages": "80"}, on_mininet=False),
        Experiment("groups", quick={"messages": "40"}),
        Experiment("groups_change"),
        Experiment("site_fails_atomic"),
        Experiment("site_fails_non_atomic"),
        Experiment("two_trees"),
        Experiment("fan_levels"),
        Experiment("sequencer_dies", emulated={"delay_ms": "0"}),
        Experiment("source_dies_between_phases", emulated={"delay_ms": "0"}),
        Experiment("silent_host", on_mininet=False),
        Experiment("stamps_wait", simulated={"delay_ms": "5"}),
        Experiment("token_lost", quick={"messages": "300"}),
        Experiment("full_speed", quick={"messages": "300"}),
    ),
    studies=(drawn_graphs.STUDY, chapter_4.STUDY),
    claims=(
        Statement(
            "order",
            "The propagation graph gives multiple-group order: no two hosts disagree about any two messages.",
            (
                By("propagation_graph", "order"),
                By("table_4_1", "order", "propagation-graph"),
                By("groups", text="propagation-graph"),
            ),
            "3.3, 3.4",
        ),
        Statement(
            "N",
            "A message to n members takes n + e packets, for e extra sites.",
            (By("propagation_graph", "N = n + e"),),
            "4.1.1",
        ),
        Statement(
            "drawn graphs",
            "The algorithm builds the graphs that the text draws, from the same groups.",
            (By(drawn_graphs.STUDY.name),),
            "Figures 3.1 to 3.6 and 4.1",
        ),
        Statement(
            "sparse groups",
            "Depth and extra sites are small where small groups are drawn among many sites.",
            (By(_STUDY, "4.1.1"),),
            "4.1.1",
        ),
        Statement(
            "confidence",
            "Each point of the graphs is asserted with 95 % confidence, within 10 % of the mean, or 0.5 extra sites.",
            (By(_STUDY, "confidence"),),
            "4.1.1",
        ),
        Statement(
            "cheap graphs",
            "Which graph is cheap depends on the network: trees over the network have fewer crossings, and more extra sites.",
            (By("graph_costs"),),
            "4.4",
        ),
        Statement(
            "paths",
            "All heuristics have longer paths than minimum spanning and shortest-path trees.",
            (By(_STUDY, "4.5"),),
            "4.5",
            why="Graphs 4.8 and 4.10 say otherwise themselves: with ever more sites the paths of a minimum spanning tree grow, and pass "
            "those of every heuristic.",
        ),
        Statement(
            "silent host",
            "With time stamps a host waits for the silent ones, unless they send null messages; other algorithms do not.",
            (By("silent_host", "2.2"),),
            "2.2",
        ),
        Statement(
            "dead host",
            "With time stamps a dead host stops everybody, unless a failure detector takes it out.",
            (By("stamps_wait"),),
            "2.2",
        ),
        Statement(
            "packets of all",
            "Each algorithm takes the packets, expensive packets and delays that theory says.",
            (
                By("order_costs", "packets"),
                By("order_costs", "expensive"),
                By("order_costs", "delay"),
                By("order_costs", "control"),
            ),
            "4.1, 4.2",
            note="Theory beside it: an atomic multicast that involves only its destinations needs two delays between groups, a broadcast "
            "can do with one (Schiper and Pedone); whoever sends to all others by unicast has a throughput of 1 / (n - 1) of its line.",
        ),
        Statement(
            "chapter 5",
            "Groups change while messages are sent, and nothing is lost, doubled or reordered.",
            (By("groups_change"),),
            "5.2",
        ),
        Statement(
            "levels",
            "The fan's levels 0 to 2 give up what they miss while a host is down, level 3 recovers it.",
            tuple(By("fan_levels", f"level {level}") for level in range(4)),
            "6.4",
        ),
        Statement(
            "bounds of the fan",
            "The fan's levels deliver within the bounds of their proofs: Delta, and rho for what was missed.",
            (By("fan_levels", "bounds"),),
            "6.4",
        ),
        Statement(
            "P4 and Q3",
            "The propagation graph (Protocol 4) delivers within Delta of being sent a message, and what was missed within rho, as long as "
            "the hosts can reach each other.",
            (By("propagation_graph", "7.2.1"), By("site_fails_atomic", "7.2.1")),
            "7.2.1",
        ),
        Statement(
            "atomic",
            "Atomic: sites below a failed one wait, a failed leaf stops nobody, and everything goes on after recovery, in strict order.",
            (By("site_fails_atomic", "7.1.2"), By("site_fails_atomic", "-")),
            "7.1.2",
        ),
        Statement(
            "non-atomic",
            "Non-atomic: c delivers beta-2, alpha-3 and beta-3 and fails; d and e deliver alpha-3 first. Operational order holds, strict "
            "order does not, and only c is involved.",
            (By("site_fails_non_atomic"),),
            "7.1.1, Figures 7.1 to 7.4",
        ),
        Statement(
            "two trees",
            "After a partition there are two trees for a bounded time.",
            (By("two_trees"),),
            "7.3, Figure 7.5",
        ),
        Statement(
            "dead source",
            "A source of two-phase that fails between its phases stops all destinations, unless they finish for it.",
            (By("source_dies_between_phases"),),
            "7.1.3",
        ),
        Statement(
            "central site",
            "If the central site fails the system stops, unless a successor is elected.",
            (By("sequencer_dies"),),
            "7.1.3",
        ),
        Statement("token", "A lost token is found and made again.", (By("token_lost"),), "2.3"),
        Statement(
            "full speed",
            "Every ordered protocol delivers ten thousand messages at full speed, in order and once. (Not a claim of the paper.)",
            (By("full_speed"),),
        ),
    ),
    tables=(
        StatedTable(
            "table_2_1",
            Statement(
                "Table 2.1",
                "Each algorithm gives the orders that the table says, on the networks that it says, and no others.",
                (By("table_2_1", but_not="refutes the cell"), By("table_2_1", text="refutes the cell", refutes=True)),
                "2.8",
                why="Two cells of the table are empty and need not be: the token site and Total order messages on point-to-point networks "
                "too, at the price of a packet for each host.",
            ),
        ),
        StatedTable(
            "table_4_1",
            Statement(
                "Table 4.1",
                "On a point-to-point network a message down a graph takes n + e packets, hardly more than centralised and far fewer than "
                "two-phase, and each algorithm as long as its formula says at most.",
                (By("table_4_1"),),
                "4.1.1",
            ),
        ),
        StatedTable(
            "table_4_2",
            Statement(
                "Table 4.2",
                "On a broadcast network a message down a graph of depth d takes d + 1 packets, more than centralised and fewer than "
                "two-phase, and each algorithm as long as so many packets at most.",
                (By("table_4_2"),),
                "4.2",
                why="d + 1 is the least. Two hosts of one level that pass a message on send a packet each, and the table counts one for "
                "each level: i + 1 packets for i such hosts. The rest of the table holds.",
            ),
        ),
    ),
    graphs=tuple(
        StatedGraph(
            _STUDY,
            f"Graph {number}",
            Statement(f"Graph {number}", text, (By(_STUDY, f"Graph {number}"),), "4"),
            _NOTES.get(number, ""),
        )
        for number, text in _SHAPES.items()
    ),
    slips=(
        Slip("appendix I", "`exists s in G such that s in S`.", "Means `s in g`."),
        Slip(
            "appendix I",
            "Sites that share a group with the subroot and are in no partition are not marked as placed.",
            "They are placed like the others.",
        ),
        Slip(
            "3.3, 3.5", "The partition of the example forgets h; the eight sites of 3.5 are seven.", "Read with h, and as seven."
        ),
        Slip(
            "Protocol 4",
            "(A) numbers from 0 where the root waits for 1; (C) has `y < m` for `y < p`; one L_c serves all children.",
            "Numbers begin with 1, `y < p`, and each pair of hosts has a counter: with several groups a child does not get "
            "everything.",
        ),
        Slip(
            "Protocol 5",
            "(C) does not count L_D, (D) has an undefined y, and `n-1(...)` is (n-1)(...). Its propagation part of rho has two values.",
            "Counted, and read from the context; the greater value is the bound.",
        ),
        Slip("7.1, 7.2", "Proofs and (C) name fragments `(B)`.", "Means those called (A)."),
        Slip("chapter 6", "Eight kinds of events are announced, and seven described.", "There are seven."),
        Slip("Q2", "`=` stands for a bound.", "Read as at most."),
        Slip("7.2.1", "The proof of P4 has four steps of phi_P, and Delta three.", "Delta and rho are judged with four."),
        Slip(
            "4.2",
            "d + 1 packets count one packet for each level.",
            "That is the least: two hosts of one level that pass a message on need a packet each, so there are i + 1 for i such "
            "hosts.",
        ),
        Slip(
            "Graphs 4.2 and 4.4",
            "Graph 4.2 does not say how many sites, Graph 4.4 not how many groups there are.",
            "200 sites as in Graph 4.5, and 20 groups.",
        ),
        Slip("2.6", "Total is only sketched.", "Reconstructed; the protocol says what."),
    ),
)
