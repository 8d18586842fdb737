"""Every protocol by the name that users type."""

from hostagent.contract.core import Core
from hostagent.protocols.basic import Basic
from hostagent.protocols.best_effort import BestEffort
from hostagent.protocols.cluster_tree import ClusterTree
from hostagent.protocols.counter.protocol import Counter
from hostagent.protocols.eager_reliable import EagerReliable
from hostagent.protocols.fan import Fan
from hostagent.protocols.lazy_reliable import LazyReliable
from hostagent.protocols.optimistic.protocol import Optimistic
from hostagent.protocols.propagation_graph.protocol import PropagationGraph
from hostagent.protocols.sequencer.protocol import Sequencer
from hostagent.protocols.spo.protocol import Spo
from hostagent.protocols.timestamp.protocol import Timestamp
from hostagent.protocols.token_site.protocol import TokenSite
from hostagent.protocols.totem.protocol import Totem
from hostagent.protocols.trans_total.protocol import TransTotal
from hostagent.protocols.two_phase.protocol import TwoPhase
from hostagent.protocols.uniform import Uniform

PROTOCOLS: dict[str, type[Core]] = {
    core.name: core
    for core in (
        BestEffort,
        Basic,
        ClusterTree,
        EagerReliable,
        LazyReliable,
        Uniform,
        Fan,
        PropagationGraph,
        TwoPhase,
        Sequencer,
        Timestamp,
        TransTotal,
        TokenSite,
        Spo,
        Totem,
        Counter,
        Optimistic,
    )
}
