"""A network that is up until a user ends it, with a steady stream of broadcasts; users do everything else by verbs.

A thread makes the broadcasts of the stream and checks agents, controller and faults. Verbs come from the command line of this process and
over a socket from other terminals; a lock allows one verb at a time.
"""

import math
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Self

import msgspec

from hostagent.contract.promises import Guarantee, Promise
from hostagent.protocols import PROTOCOLS
from hostagent.runtime.failures import CoreFailed
from scenarios import Broadcast, Scenario, ScenarioError
from scenarios.faults import AnyFault, Arrive, Depart, FaultError, Join, Leave, check, name_of
from scenarios.groups import EVERYBODY, Group, check_groups, check_members
from scenarios.scenario import payload_of
from testbed.live import verbs
from testbed.live.ledger import Ledger
from testbed.live.snapshot import Snapshot
from testbed.network import record
from testbed.network.memberships import refuse_impossible as refuse_groups
from testbed.running.faults import refuse_impossible
from testbed.running.runner import Stage
from testbed.running.tasks import check_messages
from topologies import Link, Network

# The period of the thread that checks the network.
TICK_S = 0.02
# Long enough for two samples of each agent, which show whether it is at rest.
REST_S = 1.2
# A ring that breaks forms again, and passes on what it has, in half of this.
STILL_S = 4.0


class Live:
    """A network that is up for as long as the body of `with` runs."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self.name = name
        self.network: Network = stage.emulation.network
        self.problems = stage.problems
        workload = stage.task.scenario.workload
        self._payload = workload.payload
        self._sources = stage.task.scenario.sources
        self._interval_ms = workload.interval
        self._sent = 0
        self._began = self._next = time.monotonic()
        self._script: list[Broadcast] = []
        self._faults: list[AnyFault] = []
        self._groups = stage.task.scenario.groups
        self._ledger = Ledger(stage)
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="castbed-live", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def wait(self, seconds: float) -> None:
        """Wait for this time, or until no agent runs any more."""
        self._over.wait(seconds)

    def settle(self, promise: Promise) -> None:
        """End the stream, and wait until every running host has every message that the protocol owes it, and hosts are seen at rest."""
        self.stream(0.0)
        if self._over.wait(REST_S):
            return
        # With views, a host never gets what was sent in a view without it, so all that can be awaited is that nothing comes any more.
        still_s = STILL_S if Guarantee.VIEW_PROGRESS in promise.guarantees else math.inf
        since = began = time.monotonic()
        lacking = self._lacking()
        while any(lacking) and time.monotonic() < min(began + promise.patience_ms / 1000, since + still_s):
            if self._over.wait(0.2):
                return
            if (now := self._lacking()) != lacking:
                lacking, since = now, time.monotonic()

    def _lacking(self) -> list[int]:
        """How many messages each running host lacks."""
        return [host.missing for host in self.snapshot().hosts if host.state == "up"]

    def do(self, line: str) -> str:
        """Execute a line with a verb and return the answer."""
        if line.split()[:1] == ["sleep"]:
            # A verb that sleeps must not hold the lock.
            return verbs.do(self, line)
        with self._lock:
            return verbs.do(self, line)

    def inject(self, fault: AnyFault) -> str:
        """Inject a fault now. Returns what the machine shows of it."""
        check([fault], self.network, timed=False)
        check_messages(self._stage.task, [fault])
        refuse_impossible((fault,), self._stage.machine)
        timed = msgspec.structs.replace(fault, at_ms=self._now_ms())
        self._refuse_membership(timed)
        self._faults.append(timed)
        try:
            happened = self._stage.injector.inject(fault)
        except BaseException as failure:
            self._stage.problems.append(f"the fault {name_of(fault)} {fault.target} was injected only in part: {failure}")
            raise
        return "\n".join(f"{f'{record.fault} {record.target}'.strip()}: {record.observed or 'done'}" for record in happened)

    def _refuse_membership(self, fault: AnyFault) -> None:
        """Refuse a join, leave or departure that a replay of everything so far would refuse."""
        if isinstance(fault, Arrive):
            raise FaultError(f"{fault.host} is there already: a network that is up starts with all its hosts")
        if isinstance(fault, Join | Leave | Depart):
            try:
                replace(self.asked(), faults=(*self.asked().faults, fault))
            except ScenarioError as error:
                raise FaultError(str(error)) from None

    def make_group(self, name: str, members: tuple[str, ...]) -> None:
        """Make a new group of hosts that messages can be sent to."""
        self._require_groups()
        made = *self._groups, Group(name, members)
        check_groups(made, self.network.hosts)
        if self._stage.task.medium == "multicast":
            refuse_groups(range(len(made) + 1))
        self._stage.injector.make_group(name, members)
        self._groups = made

    def _require_groups(self) -> None:
        protocol = self._stage.task.protocol
        if not PROTOCOLS[protocol].knows_groups:
            raise FaultError(f"protocol {protocol} sends every message to everybody and knows no groups")

    def broadcast(self, host: str, payload: bytes, to: str = EVERYBODY) -> None:
        """Make a host broadcast, to a group or to hosts that are written h1,h2."""
        if host not in self.network.hosts:
            raise FaultError(f"network {self.network.name!r} has no host {host!r}")
        if host in self._stage.agents.absent:
            raise FaultError(f"{host} has departed, and does not come back")
        if host not in self._stage.agents.running:
            raise FaultError(f"{host} has crashed: restart it first")
        if to != EVERYBODY:
            self._require_groups()
        self._broadcast(host, payload, self._destination(to))

    def _destination(self, text: str) -> str | tuple[str, ...]:
        """A group by its name, or the hosts that are listed."""
        groups = self._stage.injector.groups
        if text in groups:
            return text
        hosts = tuple(text.split(","))
        if len(hosts) == 1 and text not in self.network.hosts:
            raise FaultError(f"there is no group and no host {text!r}: the groups are {', '.join(groups)}")
        check_members("the list of destinations", hosts, self.network.hosts)
        return hosts

    def _broadcast(self, host: str, payload: bytes, to: str | tuple[str, ...] = EVERYBODY) -> None:
        self._script.append(Broadcast(at_ms=self._now_ms(), source=host, payload=len(payload), to=to))
        self._stage.agents.broadcast(host, payload, to if isinstance(to, tuple) else self._stage.injector.groups[to])

    def _now_ms(self) -> float:
        return (time.monotonic() - self._began) * 1000

    def asked(self) -> Scenario:
        """A scenario with every broadcast, fault and group so far, so that the run can be repeated. Groups are there from its start."""
        scenario = self._stage.task.scenario
        return replace(scenario, script=tuple(self._script), faults=(*scenario.faults, *self._faults), groups=tuple(self._groups))

    def stream(self, interval_ms: float) -> None:
        """Set the interval of the stream; zero ends the stream."""
        self._interval_ms, self._next = interval_ms, time.monotonic()

    def snapshot(self) -> Snapshot:
        """The state of the network now."""
        with self._lock:
            return self._ledger.snapshot(self.name, self._interval_ms, self.problems)

    def captures(self, link: Link | None) -> str:
        """The files of a link, or all files. They have every packet so far."""
        captures, output = self._stage.captures, self._stage.task.output.absolute()
        wanted = [capture for capture in captures.planned if link is None or {capture.source, capture.target} == {link.a, link.b}]
        return "\n".join(str(output / capture.file) for capture in wanted)

    def interface(self, link: Link) -> str:
        """The interface that shows both directions of a link. It is the end that is never taken down."""
        return self._stage.emulation.plan.end(link.b, link.a).interface

    @property
    def private(self) -> Path:
        """The directory of the run that only its owner can read, and that is removed with the network."""
        return record.STATE / self._stage.emulation.plan.tag

    def _run(self) -> None:
        try:
            while not self._ended.wait(TICK_S if not self._is_due(TICK_S) else max(0.0, self._next - time.monotonic())):
                with self._lock:
                    self._tick()
        except BaseException as failure:  # noqa: BLE001 - raised again by __exit__
            self._failure = failure
            self._stage.problems.append(f"the stream and the checks have stopped: {type(failure).__name__}: {failure}")
            self._over.set()
            if isinstance(failure, CoreFailed):
                # The protocol is broken: end the command line too, which waits for the user in the main thread.
                os.kill(os.getpid(), signal.SIGTERM)

    def _is_due(self, within_s: float) -> bool:
        return self._interval_ms > 0 and self._next - time.monotonic() <= within_s

    def _tick(self) -> None:
        """Broadcast if it is time, and check everything that may have died."""
        if self._is_due(0):
            self._next = max(self._next + self._interval_ms / 1000, time.monotonic())
            source = self._sources[self._sent % len(self._sources)]
            self._sent += 1
            if source not in self._stage.agents.absent:
                self._broadcast(source, payload_of(self._sent, self._payload))
        self._stage.watch(0)
        if self._stage.agents.are_lost:
            self._over.set()
