"""The first paper: nine claims of the cluster tree, and two that were added."""

from typing import Final

from papers.paper import By, Experiment, Paper, Slip, StatedGraph, Statement

PAPER: Final = Paper(
    name="nonprogrammable_servers",
    title="Reliable Broadcast in Networks with Nonprogrammable Servers",
    authors="Hector Garcia-Molina, Boris Kogan and Nancy Lynch, 1987",
    about="Hosts in clusters, joined by expensive links, with servers that only route. Hosts form a tree of clusters, along which a "
    "message reaches each cluster once, and repair it when the network fails. Runs called literal are with the algorithm exactly as in "
    "the paper, those called frugal with leaders that speak for their clusters.",
    experiments=(
        Experiment("cluster_tree", pack_ms=0.0),
        Experiment("grid_cost", quick={"messages": "250"}),
        Experiment("arpanet", quick={"hosts": "1", "messages": "300"}),
        Experiment("source_cut_off", quick={"size": "2"}),
        Experiment("cycle", quick={"draws": "1"}),
        Experiment("clusters_merge_and_split"),
        Experiment("faster_parent"),
        Experiment("figure_4_1"),
        Experiment("tuning"),
        Experiment("brief_opening"),
        Experiment("link_fails", quick={"messages": "700"}),
        Experiment("control_cost", quick={"hosts": "12,24"}),
    ),
    claims=(
        Statement(
            "1",
            "Once the tree stands, a message costs k - 1 expensive packets for k clusters, which is the least possible.",
            (By("cluster_tree", "1", "once the tree stands"), By("grid_cost", "1"), By("arpanet", "1")),
            "3",
        ),
        Statement(
            "1, with control",
            "The same with every control packet, from the first hello to the end: at most 5 % above k - 1. The paper does not say "
            "so of its own algorithm (literal); it is what leaders that speak for their clusters (frugal) reach.",
            (By("cluster_tree", "1", "with all control packets"),),
            "3",
        ),
        Statement(
            "2",
            "A source that is cut off after a partial broadcast does not stop the others from completing it; with the basic "
            "algorithm it does.",
            (By("source_cut_off", "2"),),
            "3",
        ),
        Statement("3", "The parent graph induces a tree of clusters.", (By("cluster_tree", "3"),), "4.3"),
        Statement("4", "No cycle of parents persists while there is no partition.", (By("cycle", "4"),), "4.3"),
        Statement("5", "Clusters that split or merge form a tree again.", (By("clusters_merge_and_split", "5"),), "4.3"),
        Statement("6", "A leader moves to a parent that is ahead of its own.", (By("faster_parent", "6"),), "4.2"),
        Statement(
            "7",
            "Hosts that are not neighbours in the tree fill each other's gaps when the source is cut off.",
            (By("figure_4_1", "7"),),
            "4.4, Figure 4.1",
        ),
        Statement("8", "The frequencies of the exchanges trade cost against reliability.", (By("tuning", "8"),), "5"),
        Statement("9", "A brief opening of a partition is used.", (By("brief_opening", "9"),), "5"),
        Statement(
            "link failure",
            "Nothing is lost when an expensive link fails and comes back under load. (Not a claim of the paper.)",
            (By("link_fails", "+"),),
        ),
        Statement(
            "growth",
            "The control packets of literal grow with the square of the hosts, those of frugal do not. (Not a claim of the paper.)",
            (By("control_cost", "+"),),
        ),
    ),
    graphs=(
        StatedGraph(
            "tuning",
            "",
            Statement(
                "Cost and reliability",
                "The frequencies of the exchanges are the knobs between cost and reliability.",
                (By("tuning", "8"),),
                "5",
            ),
            "The paper says so and has no graph of it.",
        ),
        StatedGraph(
            "grid_cost",
            "",
            Statement(
                "Cost on grids",
                "The cost of a message depends on the number of clusters, not on that of hosts.",
                (By("grid_cost", "1"),),
                "3",
            ),
            "The paper says so and has no graph of it.",
        ),
    ),
    slips=(
        Slip("appendix", "`cost < 0` is tested where a packet without the cost bit is meant.", "Read as `cost = 0`."),
        Slip("appendix", "CLUSTER has no initial value.", "It begins as {i}, the host itself."),
        Slip(
            "attachment, option 3",
            "The condition that the new parent is in another cluster is missing.",
            "`j not in CLUSTER` is added.",
        ),
        Slip("attachment", "A fourth option is announced and is not in the text.", "There are three options here."),
    ),
)
