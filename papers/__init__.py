"""The five papers, in the order in which the project calls them the first to the fifth."""

from papers import counter_tokens, nonprogrammable_servers, ordered_multicast, reliable_broadcast, selective_order
from papers.paper import Paper

PAPERS: tuple[Paper, ...] = (
    nonprogrammable_servers.PAPER,
    reliable_broadcast.PAPER,
    ordered_multicast.PAPER,
    counter_tokens.PAPER,
    selective_order.PAPER,
)
