"""The fifth paper: SPO, in which every unit names its destinations."""

from typing import Final

from papers.paper import By, Experiment, Paper, Slip, StatedGraph, Statement

PAPER: Final = Paper(
    name="selective_order",
    title="Design and Implementation of Reliable Broadcast Protocol",
    authors="Akihito Nakamura, Yasuyuki Terauchi and Makoto Takizawa",
    about="Every unit of data (PDU) names its destinations. An entity gets all and only its own PDUs, in the order of each sender, and "
    "delivers one when all destinations know that all have it.",
    experiments=(
        Experiment("spo_delay", quick={"entities": "2,6"}, repeat=6),
        Experiment("spo_loss", quick={"messages": "120"}, repeat=6),
        Experiment("spo_subsets"),
        Experiment("spo_waits", quick={"messages": "300"}, repeat=6),
    ),
    claims=(
        Statement(
            "all and only",
            "An entity gets all its PDUs and only those, in the order of their senders, and nothing is lost.",
            (By("spo_subsets", "-"), By("spo_loss", "-"), By("spo_delay", "-")),
            "2",
        ),
        Statement(
            "subsets",
            "To send a PDU only to its destinations saves packets and time. (Not a claim of the paper.)",
            (By("spo_subsets", "cost"),),
        ),
        Statement(
            "phases",
            "A PDU is accepted, pre-acknowledged and acknowledged, in this order.",
            (By("spo_delay", "section 3"),),
            "3.3",
        ),
        Statement("LC2", "Waiting for the next PDU saves requests that would be for nothing.", (By("spo_waits"),), "3.4"),
        Statement(
            "selective",
            "Selective retransmission repeats only what was lost.",
            (By("spo_loss", "section 3.4"),),
            "3.4",
        ),
    ),
    graphs=(
        StatedGraph(
            "spo_delay",
            "Figure 1",
            Statement("Figure 1", "The delay grows with the number of entities.", (By("spo_delay", "Figure 1"),), "4"),
            "The text of the paper has no numbers of this figure; a LAN of 10 Mbit/s as there.",
        ),
        StatedGraph(
            "spo_loss",
            "Figure 2",
            Statement("Figure 2", "The delay grows with the probability that a PDU is lost.", (By("spo_loss", "Figure 2"),), "4"),
            "The text of the paper has no numbers of this figure; a LAN of 10 Mbit/s as there.",
        ),
    ),
    slips=(
        Slip("3.2", "Acceptance sets TREQ to TSEQ.", "To TSEQ + 1, what is expected next."),
        Slip(
            "3.2",
            "TREQ follows accepted PDUs only, so an entity that is no destination of several PDUs in a row waits for ever.",
            "TREQ follows as soon as a PDU shows that those before it were for others.",
        ),
        Slip("3.3", "`RPL`.", "Is RRL."),
        Slip("3.2", "ACK_j is not explained.", "It is what E_i expects next from E_j."),
        Slip(
            "3",
            "An entity without data sends nothing, so nobody's PDU is ever acknowledged.",
            "It sends an empty PDU after a bounded time.",
        ),
        Slip("3.2", "min(W, minBUF) / (H n^2) is zero for small buffers.", "Such parameters are refused with a sentence."),
    ),
)
