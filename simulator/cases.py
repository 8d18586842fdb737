"""A case: one simulated run with a verdict, small enough to write into a file and to send to a worker."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from analysis.judging.connectivity import Connectivity
from analysis.judging.history import History, make
from analysis.judging.judge import Judgement, Verdict, judge
from hostagent.contract.core import Core
from hostagent.contract.promises import Guarantee, Promise
from hostagent.protocols import PROTOCOLS
from runfiles.format import Medium
from scenarios import Scenario, ScenarioError, Workload
from scenarios.advice import surroundings
from scenarios.faults import AnyFault, Crash, Partition, check, check_kinds
from scenarios.groups import Group
from scenarios.membership import check_known
from simulator.engine import Outcome, simulate
from simulator.faults import Healing
from simulator.transits import TransitRecorder
from topologies import find

# Cases last for a hundred virtual seconds, most of them quiet, so frequent samples would cost more than they tell.
SAMPLE_MS = 5000.0
TAKE_LONG = frozenset({Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY, Guarantee.CLUSTER_TREE})
"""What is promised of a network that was left in peace for long. Brief cases leave it out."""
OF_DATAGRAMS = frozenset({Guarantee.GENUINE, Guarantee.ONE_TOKEN})
"""What is judged on the datagrams between hosts. More time never settles an open question about them."""
EVENTUAL = frozenset(
    {
        *(Guarantee.VALIDITY, Guarantee.AGREEMENT, Guarantee.UNIFORM_AGREEMENT, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
        *(Guarantee.FAILURE_DETECTION, Guarantee.VIEW_CONVERGENCE, Guarantee.VIEW_PROGRESS),
    }
)
"""What may still come about, later than expected; as long as it has not, it is violated."""
USUAL = frozenset({"start", "stop", "sample", "broadcast", "receive", "deliver", "parent", "graph"})
"""The events that nearly every run has."""


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to simulate. The network is written as on the command line."""

    protocol: str
    seed: int
    topology: str
    sources: tuple[str, ...] = ()
    messages: int = 10
    interval_ms: float = 20.0
    payload: int = 64
    settle_ms: float = 2000.0
    groups: tuple[Group, ...] = ()
    """The messages go to each group in turn; without groups, to everybody."""
    heal_for_ms: float
    faults: tuple[AnyFault, ...] = ()
    dead: tuple[str, ...] = ()
    """Hosts that stay dead when everything else is healed."""
    cut_off: tuple[str, ...] = ()
    """Switches that stay cut off from the others when everything else is healed."""
    parameters: dict[str, Any] = {}
    pack_ms: float | None = 0.0
    """How messages to the same host share a datagram; `hostagent.runtime.packing` has the values."""
    medium: Medium = "unicast"
    """How a message to a group travels."""
    brief: bool = False
    """Whether the healed phase ends as soon as the verdict is certain, without what takes long to tell."""
    beyond: bool = False
    """Whether the case has faults that the protocol does not claim to survive."""

    def scenario(self) -> Scenario:
        """The case as a scenario."""
        workload = Workload(messages=self.messages, interval=self.interval_ms, payload=self.payload, settle=self.settle_ms)
        return Scenario(
            network=find(self.topology), sources=self.sources, faults=self.faults, workload=workload, groups=self.groups
        )


class Result(msgspec.Struct, frozen=True):
    """The outcome of a case."""

    judgement: Judgement
    trace: str
    events: int
    broadcasts: int
    happened: tuple[str, ...] = ()
    """The events that only some runs have: what the protocol traced, take-backs, changes of membership."""


def run(case: Case, core: type[Core] | None = None) -> Result:
    """Simulate a case and judge it; `core` takes the place of the protocol that the case names."""
    scenario = case.scenario()
    core = core or PROTOCOLS[case.protocol]
    parameters = msgspec.convert(core.advised(case.parameters, surroundings(scenario)), core.Parameters)
    healing = Healing(case.heal_for_ms, case.dead, case.cut_off) if case.heal_for_ms else None
    promise = core.promise(parameters, len(scenario.network.hosts)).packed(case.pack_ms)
    if case.brief:
        promise = _without(promise, TAKE_LONG)
    recorder = TransitRecorder() if promise.needs_transits else None
    outcome = simulate(
        *(scenario, core, parameters, case.seed),
        healing=healing,
        sample_ms=SAMPLE_MS,
        pack_ms=case.pack_ms,
        multicasts=case.medium == "multicast",
        on_transmit=recorder.left if recorder else None,
        on_crossing=recorder.crossed if recorder else None,
        is_certain=partial(_is_certain, case, _without(promise, OF_DATAGRAMS)) if case.brief else None,
    )
    history = history_of(outcome)
    if recorder is not None:
        history = history._replace(transits=recorder.transits(outcome.world, history.requests))
    judgement = judge(history, promise, _connectivity(outcome))
    happened = tuple(sorted({event.event for _, event in outcome.events} - USUAL))
    return Result(judgement, outcome.world.trace_hash, outcome.world.events_done, len(history.broadcasts), happened)


def _without(promise: Promise, some: frozenset[Guarantee]) -> Promise:
    """A promise without some of its guarantees."""
    return msgspec.structs.replace(promise, guarantees=tuple(kept for kept in promise.guarantees if kept not in some))


def _is_certain(case: Case, promise: Promise, outcome: Outcome) -> bool:
    """Whether more time would not change what is judged: nothing is open, or something is violated for good.

    Of a case beyond the protocol's assumptions nothing is expected that takes time.
    """
    if case.beyond:
        return True
    in_logs = msgspec.structs.replace(promise, time_bounds=())
    findings = judge(history_of(outcome), in_logs, _connectivity(outcome)).findings.items()
    if any(finding.verdict is Verdict.VIOLATED and promised not in EVENTUAL for promised, finding in findings):
        return True
    return all(finding.verdict not in {Verdict.VIOLATED, Verdict.UNKNOWN} for _, finding in findings)


def _connectivity(outcome: Outcome) -> Connectivity:
    return Connectivity(outcome.world.network, outcome.faults, outcome.ended_ns)


def history_of(outcome: Outcome) -> History:
    """The history of a simulated run."""
    numbered = enumerate(outcome.events)
    events = ((host, position, e.at_ns, e.event, e.origin, e.sequence, e.details) for position, (host, e) in numbered)
    return make(outcome.world.network.hosts, events, outcome.ended_ns, damage=())


def load(path: Path) -> Case:
    """A case from a file."""
    try:
        case = msgspec.json.decode(path.read_bytes(), type=Case)
        _check(case)
    except OSError as error:
        raise ScenarioError(f"case {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ScenarioError(f"case {path}: {error}") from None
    return case


def _check(case: Case) -> None:
    """Refuse a case that cannot be run."""
    lasting = (*(Crash(host=host) for host in case.dead), Partition(sides=(case.cut_off,)))
    check(lasting, case.scenario().network, timed=False)
    if case.protocol not in PROTOCOLS:
        raise ScenarioError(f"there is no protocol {case.protocol!r}: choose one of {', '.join(PROTOCOLS)}")
    core = PROTOCOLS[case.protocol]
    if case.groups and not core.knows_groups:
        raise ScenarioError(f"protocol {case.protocol} knows no groups: leave them out of the case")
    core.check(msgspec.convert(case.parameters, core.Parameters), find(case.topology).hosts)
    check_kinds(case.faults, case.protocol, [message.__name__ for message in core.messages])
    check_known(case.faults, case.protocol, knows_membership=core.knows_membership)
