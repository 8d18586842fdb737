"""The second paper: what each guarantee of broadcast costs, and two stories of what it is good for."""

from typing import Final

from papers.paper import By, Experiment, Paper, Slip, Statement

PAPER: Final = Paper(
    name="reliable_broadcast",
    title="Reliable Broadcast",
    authors="Lecture slides, vanilladb.org",
    about="A family of broadcasts, each with one guarantee more: best-effort, reliable (eager and lazy) and uniform, as replicated "
    "databases need it.",
    experiments=(
        Experiment("price_of_guarantees", quick={"messages": "40"}, pack_ms=None),
        Experiment("sender_dies_halfway"),
        Experiment("committed_but_unknown"),
        Experiment("majority_dies"),
    ),
    claims=(
        Statement(
            "cost",
            "A message takes n - 1 packets with best-effort, basic and lazy reliable broadcast, and n (n - 1) with eager reliable and "
            "uniform broadcast.",
            (By("price_of_guarantees", "packets"),),
            "Algorithms 3.1 to 3.4",
        ),
        Statement(
            "properties",
            "All of them have validity, no duplication and no creation.",
            (By("price_of_guarantees", "properties"),),
            "Best Effort Broadcast",
        ),
        Statement(
            "story 1",
            "If the sender dies half-way, best-effort broadcast leaves some hosts without the message, and reliable broadcast does not.",
            (By("sender_dies_halfway"),),
            "Reliable Broadcast",
        ),
        Statement(
            "story 2",
            "A replica that commits, answers its client and dies may leave a transaction that nobody else knows of; with uniform "
            "broadcast all others have it.",
            (By("committed_but_unknown"),),
            "Uniform Reliable Broadcast",
        ),
        Statement(
            "majority",
            "Uniform agreement needs every host that is not suspected; a majority is not enough where a majority may die.",
            (By("majority_dies"),),
            "Uniform Reliable Broadcast",
        ),
    ),
    slips=(
        Slip(
            "failure detector",
            "It is assumed to be perfect, which no detector is on a network that loses and delays packets.",
            "Ours errs, and detection is a promise of its own: wrong suspicions cost packets, and are taken back.",
        ),
    ),
)
