"""The register of checkers, and the verdict on a run: whether it keeps what its protocol promises.

Runs of both engines are judged here by the same three inputs: what happened, what was promised, and what the network allowed.
"""

from collections.abc import Callable, Iterable, Mapping
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
    uniform_agreement,
    validity,
)
from analysis.judging.properties.load import bounded_memory, quiescence
from analysis.judging.properties.membership import safe, sending_view, view_agreement, view_convergence
from analysis.judging.properties.order import causal_order, multiple_group_order, multiple_source_order, single_source_order
from analysis.judging.properties.peers import cluster_tree, failure_detection
from analysis.judging.properties.timing import bounds
from analysis.judging.reliability import relative_reliability
from hostagent.contract.promises import Guarantee, Promise

__all__ = ["CHECKS", "Check", "Finding", "Judgement", "Verdict", "judge"]

Check = Callable[[History, Promise, Connectivity], Finding]

CHECKS: Final[Mapping[Guarantee, Check]] = {
    Guarantee.NO_CREATION: no_creation.check,
    Guarantee.NO_DUPLICATION: no_duplication.check,
    Guarantee.VALIDITY: validity.check,
    Guarantee.AGREEMENT: agreement.check,
    Guarantee.UNIFORM_AGREEMENT: uniform_agreement.check,
    Guarantee.SINGLE_SOURCE_ORDER: single_source_order.check,
    Guarantee.MULTIPLE_SOURCE_ORDER: multiple_source_order.check,
    Guarantee.MULTIPLE_GROUP_ORDER: multiple_group_order.check,
    Guarantee.CAUSAL_ORDER: causal_order.check,
    Guarantee.CONVERGENCE: convergence.check,
    Guarantee.QUIESCENCE: quiescence.check,
    Guarantee.BOUNDED_MEMORY: bounded_memory.check,
    Guarantee.CLUSTER_TREE: cluster_tree.check,
    Guarantee.FAILURE_DETECTION: failure_detection.check,
    Guarantee.SENDING_VIEW: sending_view.check,
    Guarantee.VIEW_AGREEMENT: view_agreement.check,
    Guarantee.VIEW_CONVERGENCE: view_convergence.check,
    Guarantee.SAFE: safe.check,
    Guarantee.GENUINE: genuine.check,
    Guarantee.ONE_TOKEN: one_token.check,
}
"""The checker of each guarantee."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a run, the finding for each promise, the reasons that decided it, and the promises that nothing tested."""

    verdict: Verdict
    findings: dict[str, Finding]
    reasons: tuple[str, ...] = ()
    not_tested: tuple[str, ...] = ()
    relative_reliability: float | None = None


def judge(history: History, promise: Promise, connectivity: Connectivity, doubts: Iterable[str] = ()) -> Judgement:
    """Judge a run by what its protocol promises, and by nothing else. `doubts` are other reasons not to trust the run."""
    findings: dict[str, Finding] = {
        guarantee: CHECKS[guarantee](history, promise, connectivity) for guarantee in promise.guarantees
    }
    findings |= {str(bound): bounds.check(history, bound, connectivity) for bound in promise.time_bounds}
    verdict, reasons = conclude(findings, (*history.damage, *doubts))
    return Judgement(
        verdict=verdict,
        findings=findings,
        reasons=reasons,
        not_tested=tuple(guarantee for guarantee, finding in findings.items() if finding.verdict is Verdict.NOT_TESTED),
        relative_reliability=relative_reliability(history, promise, connectivity),
    )
