"""What the counter protocol promises: the levels of the paper's Table 4, safe and strict, and what is needed to call it live."""

from hostagent.contract.promises import Carrier, Guarantee, Order, Promise, Scope, Strength
from hostagent.protocols.counter.parameters import CounterParameters

GUARANTEES = (
    *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
    *(Guarantee.ACYCLIC_ORDER, Guarantee.NO_GAPS, Guarantee.SAFE, Guarantee.ONE_TOKEN),
    *(Guarantee.VIEW_CONVERGENCE, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
)
SCOPES = (Scope.SINGLE_SOURCE, Scope.CAUSAL, Scope.MULTIPLE_SOURCE, Scope.MULTIPLE_GROUP)


def promised(parameters: CounterParameters, hosts: int, token_kind: int) -> Promise:
    """Safe, and one strict order for all groups, while a majority is connected.

    A message takes three cycles. In the worst case every hop takes its longest wait, and several lists are formed meanwhile, each of which
    takes all tries of several hosts. A token of the idle ring may be on its way for some time before anybody misses it.
    """
    hop_ms = parameters.token_owner_ms + parameters.longest_wait_ms
    lists_ms = 10 * parameters.tries * parameters.longest_wait_ms
    return Promise(
        guarantees=GUARANTEES,
        orders=tuple(Order(scope, Strength.STRICT) for scope in SCOPES),
        token_kind=token_kind,
        carrier=Carrier.ANYONE,
        patience_ms=4 * hosts * hop_ms + lists_ms + 4000 * parameters.idle_s(hosts),
        quorum=hosts // 2 + 1,
        # Without multicast a token is n - 1 datagrams at once, which is many for a short time of looking.
        background_per_second=2 * parameters.idle_packets_per_second + 3 * (hosts - 1),
        retained=30 * hosts + 100,
        retained_per_group=20,
    )
