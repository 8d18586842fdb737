"""The register of checkers, and the verdict on a run: whether it keeps what its protocol promises.

Runs of both engines are judged here by the same three inputs: what happened, what was promised, and what the network allowed.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import msgspec

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding, Verdict, conclude
from analysis.judging.history import History
from analysis.judging.properties.datagrams import genuine, one_token
from analysis.judging.properties.delivery import (
    agreement,
    convergence,
    no_creation,
    no_duplication,
    progress,
    rollback_discipline,
    uniform_agreement,
    validity,
)
from analysis.judging.properties.load import bounded_memory, quiescence
from analysis.judging.properties.membership import safe, sending_view, view_agreement, view_convergence, view_progress
from analysis.judging.properties.order import (
    acyclic_order,
    causal_order,
    multiple_group_order,
    multiple_source_order,
    no_gaps,
    same_position,
    single_source_order,
)
from analysis.judging.properties.peers import cluster_tree, failure_detection
from analysis.judging.properties.timing import bounds
from analysis.judging.reliability import relative_reliability
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, TimeBound

__all__ = ["CHECKS", "ORDER_CHECKS", "Check", "Finding", "Judgement", "Promised", "Verdict", "check_of", "judge"]

Check = Callable[[History, Promise, Connectivity], Finding]
Promised = Guarantee | Order | TimeBound
"""One of the things that a protocol can promise."""
OrderCheck = Callable[[Order, History, Promise, Connectivity], Finding]

CHECKS: Final[Mapping[Guarantee, Check]] = {
    Guarantee.NO_CREATION: no_creation.check,
    Guarantee.NO_DUPLICATION: no_duplication.check,
    Guarantee.VALIDITY: validity.check,
    Guarantee.AGREEMENT: agreement.check,
    Guarantee.UNIFORM_AGREEMENT: uniform_agreement.check,
    Guarantee.CONVERGENCE: convergence.check,
    Guarantee.PROGRESS: progress.check,
    Guarantee.ACYCLIC_ORDER: acyclic_order.check,
    Guarantee.NO_GAPS: no_gaps.check,
    Guarantee.SAME_POSITION: same_position.check,
    Guarantee.ROLLBACK_DISCIPLINE: rollback_discipline.check,
    Guarantee.QUIESCENCE: quiescence.check,
    Guarantee.BOUNDED_MEMORY: bounded_memory.check,
    Guarantee.CLUSTER_TREE: cluster_tree.check,
    Guarantee.FAILURE_DETECTION: failure_detection.check,
    Guarantee.SENDING_VIEW: sending_view.check,
    Guarantee.VIEW_AGREEMENT: view_agreement.check,
    Guarantee.VIEW_CONVERGENCE: view_convergence.check,
    Guarantee.VIEW_PROGRESS: view_progress.check,
    Guarantee.SAFE: safe.check,
    Guarantee.GENUINE: genuine.check,
    Guarantee.ONE_TOKEN: one_token.check,
}
"""The checker of each guarantee."""

ORDER_CHECKS: Final[Mapping[Scope, OrderCheck]] = {
    Scope.SINGLE_SOURCE: single_source_order.check,
    Scope.CAUSAL: causal_order.check,
    Scope.MULTIPLE_SOURCE: multiple_source_order.check,
    Scope.MULTIPLE_GROUP: multiple_group_order.check,
}
"""The checker of each scope of an order, for every strength."""


def check_of(promised: Promised) -> Check:
    """The checker of a guarantee, an order or a time bound."""
    if isinstance(promised, Order):
        return partial(ORDER_CHECKS[promised.scope], promised)
    if isinstance(promised, TimeBound):
        return lambda history, _promise, connectivity: bounds.check(history, promised, connectivity)
    return CHECKS[promised]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a run, the finding for each promise, the reasons that decided it, and the promises that nothing tested."""

    verdict: Verdict
    findings: dict[str, Finding]
    reasons: tuple[str, ...] = ()
    not_tested: tuple[str, ...] = ()
    relative_reliability: float | None = None


def judge(history: History, promise: Promise, connectivity: Connectivity, doubts: Iterable[str] = ()) -> Judgement:
    """Judge a run by what its protocol promises, and by nothing else. `doubts` are other reasons not to trust the run."""
    promises: tuple[Promised, ...] = (*promise.guarantees, *promise.orders, *promise.time_bounds)
    findings = {str(promised): check_of(promised)(history, promise, connectivity) for promised in promises}
    verdict, reasons = conclude(findings, (*history.damage, *doubts))
    return Judgement(
        verdict=verdict,
        findings=findings,
        reasons=reasons,
        not_tested=tuple(promised for promised, finding in findings.items() if finding.verdict is Verdict.NOT_TESTED),
        relative_reliability=relative_reliability(history, promise, connectivity),
    )
