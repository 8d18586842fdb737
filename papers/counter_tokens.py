"""The fourth paper: the counter-based token protocol, and the four that it is compared with."""

from typing import Final

from papers.paper import By, Experiment, Paper, Slip, StatedGraph, StatedTable, Statement

_NOT_SHORTEST: Final = (
    "The paper takes D of the fast message protocol (Totem) for one message in each visit of the token, which is T + P; a host that "
    "sends all that it has makes D the time between two broadcasts, half of that of the counter-based protocol, as long as the token "
    "keeps up with the load, as it does with N = 10."
)
_FEW_ERRORS: Final = (
    "Not where few are lost: on a point-to-point network a token is N - 1 packets, so by the paper's own formula C is 0.19 and 0.27 at "
    "E = 2 %, N = 10, A = 10, T = 1. From 5 % on requests outweigh tokens, and C is nearly the same."
)
PAPER: Final = Paper(
    name="counter_tokens",
    title="An Ordered and Reliable Broadcast Protocol for Distributed Systems",
    authors="Ye-In Chang and Ming-Hon Hwang",
    about="Anyone broadcasts at any time, and a token that goes round counts who has what: a message is committed when all have it. "
    "One token acknowledges many messages.",
    experiments=(
        Experiment(
            "counter_costs",
            settings={"messages": "30000"},
            emulated={"hosts": "10", "owner": "1,2", "errors": "0%", "unit": "1s", "propagation": "0"},
            quick={"hosts": "8,16", "rates": "10", "owner": "1,2", "errors": "0%,2%,10%", "messages": "600"},
            pack_ms=None,
        ),
        Experiment(
            "token_comparison",
            emulated={"hosts": "10", "unit": "1s", "propagation": "0"},
            quick={"hosts": "6,12", "rates": "10", "messages": "300"},
            pack_ms=None,
        ),
        Experiment("loss_within_two_cycles"),
        Experiment("slow_receiver"),
        Experiment("token_failures"),
        Experiment("ring_splits", simulated={"delay": "20ms"}),
        Experiment("rotation", quick={"interval": "10ms"}, pack_ms=None, on_mininet=False),
        Experiment("levels", quick={"messages": "200"}),
        Experiment("three_lans", quick={"part": "5%"}, pack_ms=25.0, on_mininet=False),
    ),
    claims=(
        Statement(
            "C without errors",
            "Without errors there are fewer than 0.1 control messages for a broadcast in all cases.",
            (By("counter_costs", "Figure 3", "C is below"),),
            "4.2",
        ),
        Statement(
            "C, T and N",
            "C falls as the token owner time T grows, and as the number of nodes N grows.",
            (By("counter_costs", "Figure 3", "C falls"),),
            "4.2",
        ),
        Statement(
            "C with errors",
            "With errors C grows with the error rate E, and with N, as the paper counts: a request for each lost message.",
            (By("counter_costs", "Figure 4", "grows"),),
            "4.2",
        ),
        Statement(
            "C on both networks",
            "With errors C is almost the same on both networks, as the paper counts: a request for each lost message.",
            (By("counter_costs", "Figure 4", "C with a request for each lost message is nearly"),),
            "4.2",
            why=_FEW_ERRORS,
        ),
        Statement(
            "C in packets",
            "With errors C is almost the same on both networks, in packets.",
            (By("counter_costs", "Figure 4", "C in packets is nearly"),),
            "4.2",
            why="One request of ours names several messages, so that tokens outweigh requests, and on a point-to-point network a token is "
            "N - 1 packets.",
        ),
        Statement(
            "fewest messages",
            "The counter-based protocol needs fewer messages than the others, on both networks.",
            (By("token_comparison", text="fewest messages"),),
            "4.3",
        ),
        Statement(
            "shortest D",
            "The counter-based protocol has the shortest delay, as D is counted in the paper.",
            (By("token_comparison", "Figure 6", "shortest D"),),
            "4.3",
            why=_NOT_SHORTEST,
        ),
        Statement(
            "shortest delay",
            "The counter-based protocol has the shortest delay, from the broadcast until the last node commits.",
            (By("token_comparison", "Figure 6", "shortest true delay"),),
            "4.3",
            why="A message is committed when the token has been round with it, which takes one cycle of N (T + P) at least; the "
            "centralized and two-phase protocols need 2 P and 3 P.",
        ),
        Statement(
            "D and N",
            "D of the optimistic and the counter-based protocol falls as N grows.",
            (By("token_comparison", "Figure 6", "falls as N grows"),),
            "4.3",
        ),
        Statement(
            "constant D",
            "D of the centralized, two-phase and fast message protocols is the same for every N.",
            (By("token_comparison", "Figure 6", "is the same for every N"),),
            "4.3",
            why="P is random, and the more nodes, the longer the longest of their P, so that of two-phase grows. A host with the token of "
            "the fast message protocol sends all that it has, so D follows the load and not T + P.",
        ),
        Statement(
            "centralized",
            "In a point-to-point network the centralized protocol takes N messages for a broadcast.",
            (By("token_comparison", "Tables 1 and 2", "token-site, unicast"),),
            "4.3",
            why="The source sends to everybody, not only to the token site, and so does the token site with each acknowledgement, which "
            "may be for several messages: between N - 1 and 2 (N - 1). N is what a sequencer takes, to which alone the source sends.",
        ),
        Statement(
            "one to two cycles",
            "A message is committed between one and two cycles after its broadcast.",
            (By("token_comparison", "4.1"),),
            "4.1",
        ),
        Statement(
            "two-phase and safe",
            "The two-phase protocol is agreed, and not safe.",
            (By("levels", text="two-phase, safe"),),
            "5",
            why="The source has the priorities of all destinations before it sends the final one, so when a message is delivered all "
            "have received it. It is not safe where a majority finishes for a source that failed (failover=elect).",
        ),
        Statement("loss", "A lost message is detected within two cycles.", (By("loss_within_two_cycles"),), "2.3"),
        Statement(
            "flow control",
            "Flow control keeps a slow receiver's buffer from overflowing, where without it messages are lost.",
            (By("slow_receiver"),),
            "3.2",
        ),
        Statement(
            "token",
            "A token that is lost, doubled, or dies with its owner is replaced, and hosts leave and join through it.",
            (By("token_failures"),),
            "3.3",
        ),
        Statement(
            "fast message",
            "The protocol of Amir and others (Totem): a ring splits, both parts go on, and they merge, with the views that extended "
            "virtual synchrony asks for.",
            (By("ring_splits"),),
            "1",
        ),
        Statement(
            "rotation",
            "If the token of Totem takes M messages along in a rotation, each of them takes n / M packets beside its own, and half a "
            "rotation and L; safe delivery takes up to two rotations more. (Theory, not a claim of the paper.)",
            (By("rotation"),),
        ),
    ),
    tables=(
        StatedTable(
            "levels",
            Statement(
                "Table 4",
                "The levels of service and of reliability of the five protocols, without two-phase and safe, which is a claim of its own.",
                (By("levels", but_not="two-phase, safe"),),
                "5",
            ),
        ),
        StatedTable(
            "token_comparison",
            Statement(
                "Table 1",
                "In a broadcast network a message takes 1 + exp(A, N) / ((T + P) N) packets with the counter-based protocol, 1 + 1 / N "
                "with the optimistic, N + 1 with two-phase, and 2 at most with the centralized and the fast message protocols.",
                (By("token_comparison", "Tables 1 and 2", "multicast"),),
                "4.3",
                note="The paper has 2 for the last two; here one acknowledgement is for several messages, and a host sends several while "
                "it has the token. Acknowledgements of the packets of two-phase are left out, as in the paper. D is judged by other "
                "claims.",
            ),
        ),
        StatedTable(
            "token_comparison",
            Statement(
                "Table 2",
                "In a point-to-point network it takes (N - 1) (1 + exp(A, N) / ((T + P) N)) packets with the counter-based protocol, "
                "(N - 1) + (N - 1) / N with the optimistic, 3 (N - 1) with two-phase, and 2 (N - 1) at most with the fast message "
                "protocol.",
                (By("token_comparison", "Tables 1 and 2", "unicast", but_not="token-site"),),
                "4.3",
                note="The centralized protocol is judged by a claim of its own.",
            ),
        ),
        StatedTable(
            "token_comparison",
            Statement(
                "Table 3",
                "In a point-to-point network the counter-based protocol needs fewer messages than the optimistic one.",
                (By("token_comparison", "Table 3"),),
                "4.3",
            ),
        ),
        StatedTable(
            "counter_costs",
            Statement(
                "Figures 3 and 4",
                "C by the formula of the analysis, at each point of the two figures; without errors the simulation agrees with it.",
                (By("counter_costs", "4.1"),),
                "4.1",
            ),
        ),
    ),
    graphs=(
        StatedGraph(
            "counter_costs",
            "Figure 3",
            Statement("Figure 3", "C falls with T, and to the half if N is doubled.", (By("counter_costs", "Figure 3"),), "4.2"),
            "With each host broadcasting A times in a unit of time, as the formula is used, and with all hosts together doing so.",
        ),
        StatedGraph(
            "counter_costs",
            "Figure 4",
            Statement(
                "Figure 4",
                "C grows with the probability of errors and with N, and is almost the same on both networks.",
                (By("counter_costs", "Figure 4", but_not="C in packets is nearly"),),
                "4.2",
                why=_FEW_ERRORS,
            ),
            "First as in the paper, with a request for each lost message; then for both N, and with our packets, which ask for several "
            "messages.",
        ),
        StatedGraph(
            "token_comparison",
            "Figure 5",
            Statement(
                "Figure 5",
                "In a broadcast network the counter-based protocol needs the fewest messages.",
                (By("token_comparison", "Figure 5"),),
                "4.3",
            ),
            "Without two-phase, as in the paper: it needs far more than all others.",
        ),
        StatedGraph(
            "token_comparison",
            "Figure 6",
            Statement(
                "Figure 6",
                "In a broadcast network the counter-based protocol has the shortest D.",
                (By("token_comparison", "Figure 6", "shortest D"),),
                "4.3",
                why=_NOT_SHORTEST,
            ),
            "Twice: as D is counted in the paper, and with the true delay.",
        ),
        StatedGraph(
            "token_comparison",
            "Figure 7",
            Statement(
                "Figure 7",
                "In a point-to-point network the counter-based and the optimistic protocol need the fewest messages.",
                (By("token_comparison", "Figure 7"),),
                "4.3",
                why="The counter-based one does. By Table 2 the optimistic one takes 1 / N of a packet less than the centralized one; one "
                "acknowledgement for several messages there, or a host that sends several messages while it has the token of the fast "
                "message protocol, saves more.",
            ),
            "Without two-phase, as in the paper.",
        ),
    ),
    slips=(
        Slip(
            "4.1",
            "exp(A, N) is called the mean time between two broadcasts of the whole system, and used as that of one node.",
            "Figure 3 is made with both. C is below 0.1 with either; only with the second does it fall with N, as the text says.",
        ),
        Slip(
            "4.1, D",
            "D is no delay: it is two cycles divided by the messages that are committed in them.",
            "It is counted so here as well. While a protocol keeps up with the load, such a D follows from the time between two messages "
            "alone. The true delay, from the broadcast to the commit at the last node, is measured too: between one and two cycles.",
        ),
        Slip("4.1", "`E < 0`.", "Means `E < 1`."),
        Slip("3.2", "The second field called local.", "Is localC."),
        Slip(
            "3.1",
            "In T(c, n, t, S) the text calls n the last owner of the token, and the code the next one. The code of the timer is cut off.",
            "n is the next owner; a timer of its own.",
        ),
        Slip(
            "3.2",
            "`Will not send any message to node x` has no meaning on a broadcast network.",
            "A message waits at its source while one of its destinations says that its buffer is nearly full; those behind it wait too.",
        ),
    ),
)
