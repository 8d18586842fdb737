"""What one host has passed on and delivered since a graph began, and which of its own messages are not known to be part of the order.

What is kept is forgotten when the message is *settled*: all hosts that it is for have it, and a majority of all hosts knows. Then every
later plan counts the message as part of the order, though nobody can show it any more. A host that has to take it back, because it
delivered before it what has lost its place, delivers it again out of its own journal. Each source settles its own messages (`Settling`):

    source   in every period, to all other hosts of the graph, for each flow with messages that are not settled: the last one that all its
             destinations have, and the last one that is settled (`Mark`)
    host     notes both, forgets what is settled, and says which message of the flow it passed on or noted last (`Has`)

With `recover=rollback` a message is kept as long as a host that it is for is down, or one before it is kept: a plan that still names a
message which others have forgotten must know that it comes before all that they report.
"""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Protocol

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Purpose, hosts_in
from hostagent.protocols.propagation_graph.items import Has, Mark
from hostagent.protocols.propagation_graph.reconciling import Entry, Flow, Passed, Plan, diverges_at, rightful


class Journal(Part):
    """The journal of a host, on stable storage. With `rolls_back`, what was delivered in the wrong place is taken back."""

    def __init__(self, env: Environment, *, rolls_back: bool) -> None:
        super().__init__(env)
        self._rolls_back = rolls_back
        self._entries: dict[int, Entry] = {}
        """What was passed on in the graph that was opened last, after what its plan says, in order."""
        self._places = count(1)
        self._passed: Passed = {}
        self._delivered: Passed = {}
        """For each flow, the last message that was delivered here, or was given up as missed."""
        self.settled: Passed = {}
        """For each flow, the last message that is settled, as far as this host knows."""
        self.own: dict[int, Entry] = {}
        """Messages of this host that are not known to be part of the order, by their numbers."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore everything."""
        self._passed, self._delivered = _under(stored, "passed"), _under(stored, "delivered")
        self.settled = _under(stored, "settled")
        self._entries = {place: msgspec.convert(value, Entry) for place, value in numbered(stored, "entry")}
        self._places = count(max(self._entries, default=0) + 1)
        self.own = {sequence: msgspec.convert(value, Entry) for sequence, value in numbered(stored, "own")}
        for entry in self._entries.values():
            self._note(entry)

    @property
    def entries(self) -> list[Entry]:
        """What was passed on, in order."""
        return list(self._entries.values())

    @property
    def passed(self) -> Passed:
        """For each flow, the last message that is part of the order, as far as this host knows."""
        return dict(self._passed)

    def keep_own(self, entry: Entry) -> None:
        """Keep a message of this host until it is part of the order."""
        self.own[entry.sequence] = entry
        self.env.store(f"own/{entry.sequence}", entry)

    def pass_on(self, entry: Entry) -> None:
        """Deliver a message that is passed on here, and write it down."""
        self._deliver(entry)
        self._write(entry)

    def is_due(self, entry: Entry) -> bool:
        """Whether a message is for this host, and was not delivered here."""
        return self._is_mine(entry) and self._delivered.get(entry.flow, 0) < entry.sequence

    def follow(self, plan: Plan, *, starts_over: bool) -> None:
        """Bring the deliveries of this host into the order of a plan, and begin anew with it.

        A host that starts over delivers nothing: it gives up what it missed.
        """
        passed = flows(plan.passed)
        if not starts_over:
            self._catch_up(plan, passed)
        for flow, sequence in passed.items():
            self._delivered[flow] = max(sequence, self._delivered.get(flow, 0))
        self._passed = passed
        for place in self._entries:
            self.env.store(f"entry/{place}", None)
        self._entries.clear()
        for entry in plan.order:
            self._write(entry)
        kept = {entry.message for entry in plan.order}
        self._forget_own(entry for entry in self.own.values() if self.is_passed(entry) and entry.message not in kept)
        for flow in self._delivered:
            self._store(flow)
        self._forget()

    def is_passed(self, entry: Entry) -> bool:
        """Whether a message is part of the order, as far as this host knows."""
        return entry.sequence <= self._passed.get(entry.flow, 0)

    def note(self, flow: Flow, complete: int, settled: int) -> int:
        """All hosts have a flow up to `complete`, and know it up to `settled`. Returns the last message that is part of the order."""
        self._forget_own(entry for entry in self.own.values() if entry.flow == flow and entry.sequence <= settled)
        if complete > self._passed.get(flow, 0) or settled > self.settled.get(flow, 0):
            self._passed[flow] = max(complete, self._passed.get(flow, 0))
            self.settled[flow] = max(settled, self.settled.get(flow, 0))
            self._store(flow)
            self._forget()
        return self._passed.get(flow, 0)

    def _forget(self) -> None:
        """Forget what is settled; where hosts roll back, only what nothing else stands before."""
        gone = []
        for place, entry in self._entries.items():
            if entry.sequence <= self.settled.get(entry.flow, 0):
                gone.append(place)
            elif self._rolls_back:
                break
        for place in gone:
            del self._entries[place]
            self.env.store(f"entry/{place}", None)

    def _forget_own(self, entries: Iterable[Entry]) -> None:
        for entry in list(entries):
            del self.own[entry.sequence]
            self.env.store(f"own/{entry.sequence}", None)

    def _store(self, flow: Flow) -> None:
        origin, group, listed = flow
        for kind, numbers in (("passed", self._passed), ("delivered", self._delivered), ("settled", self.settled)):
            self.env.store(f"{kind}/{origin}/{group}/{listed.hex()}", numbers.get(flow))

    def _catch_up(self, plan: Plan, passed: Passed) -> None:
        """Take back what stands in the wrong place, and deliver what is missing."""
        mine = [entry for entry in self._entries.values() if self._is_mine(entry)]
        here = {entry.message for entry in mine}
        due = [entry for entry in plan.order if self._is_mine(entry) and (entry.message in here or self.is_due(entry))]
        right = rightful(self.env.host, mine, due, passed, self.env.hosts)
        if self._rolls_back:
            for entry in reversed(mine[diverges_at(mine, right) :]):
                self.env.take_back(*entry.message)
                self._delivered[entry.flow] = entry.sequence - 1
        for entry in right:
            self._deliver(entry)

    def _deliver(self, entry: Entry) -> None:
        if self.is_due(entry):
            self._delivered[entry.flow] = entry.sequence
            self.env.deliver(entry.origin, entry.sequence, entry.payload or b"")

    def _write(self, entry: Entry) -> None:
        place = next(self._places)
        self._entries[place] = entry
        self.env.store(f"entry/{place}", entry)
        self._note(entry)

    def _note(self, entry: Entry) -> None:
        """What stands in the journal is part of the order, and was delivered, or given up, if it is for this host."""
        self._passed[entry.flow] = max(entry.sequence, self._passed.get(entry.flow, 0))
        if self._is_mine(entry):
            self._delivered[entry.flow] = max(entry.sequence, self._delivered.get(entry.flow, 0))

    def _is_mine(self, entry: Entry) -> bool:
        return self.env.host in hosts_in(entry.to, self.env.hosts)


class Graph(Protocol):
    """What settling asks of the host that it is on."""

    opened: int
    members: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Whether messages are passed on here."""


class Settling(Part):
    """The messages of this host that are not settled in the graph that is open, and what others say about them."""

    def __init__(self, env: Environment, graph: Graph, journal: Journal, period_s: float, *, keeps_for_all: bool) -> None:
        super().__init__(env)
        self._core, self._journal = graph, journal
        self._period_s = period_s
        self._keeps_for_all = keeps_for_all
        self._settled: Passed = {}
        self._has: dict[Flow, dict[str, int]] = {}
        """For each flow and host, the last message that the host has passed on or noted in this graph."""
        self._done: dict[Flow, dict[str, int]] = {}
        """For each flow and host, the last message that the host knows to be settled."""
        self._turn = 0
        self._is_awake = False

    def begin(self, flows: Iterable[Flow]) -> None:
        """A graph was opened here, or this host has started: nothing is known about others. They are told what is settled of `flows`."""
        self._has.clear()
        self._done.clear()
        settled = self._journal.settled
        self._settled = {flow: settled[flow] for flow in flows if flow[0] == self.env.host and flow in settled}
        self.wake()

    def wake(self) -> None:
        """There may be something to tell."""
        if not self._is_awake:
            self._is_awake = True
            self.env.set_timer("tell", self._period_s * self.env.random.uniform(1, 1.2))

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """Tell the others how far each flow is. If nobody need be told, nothing changes before a new message or a new graph."""
        self._turn += 1
        flows = dict.fromkeys([*(entry.flow for entry in self._journal.own.values()), *self._settled])
        told = [self._tell(flow) for flow in flows] if self._core.is_open else []
        self._is_awake = False
        if any(told):
            self.wake()

    def _tell(self, flow: Flow) -> bool:
        """Tell those others how far a flow is that do not know it yet. Returns whether there are any."""
        complete, is_stuck = self._complete(flow)
        settled = self._settled[flow] = max(self._known(flow, complete), self._settled.get(flow, 0))
        self._journal.note(flow, complete, settled)
        origin, group, listed = flow
        waits = not is_stuck and any(entry.flow == flow for entry in self._journal.own.values())
        # Of a burst that is longer than a queue always the same places are dropped, so each burst begins with another host.
        start = self._turn % len(self._core.members)
        members = self._core.members[start:] + self._core.members[:start]
        done = self._done.get(flow, {})
        told = [host for host in members if host != self.env.host and (waits or done.get(host, 0) < settled)]
        for host in told:
            self.env.send(host, Mark(group, origin, complete, self._core.opened, settled, listed), Purpose.CONTROL)
        return bool(told)

    def _complete(self, flow: Flow) -> tuple[int, bool]:
        """Up to which message all hosts that a flow is for have everything; and whether the next one waits for a host that is out."""
        complete, has = self._settled.get(flow, 0), {**self._has.get(flow, {}), self.env.host: self._journal.passed.get(flow, 0)}
        for entry in self._journal.own.values():
            if entry.flow != flow:
                continue
            to = hosts_in(entry.to, self.env.hosts)
            needed = to if self._keeps_for_all else [host for host in to if host in self._core.members]
            if not needed or any(host not in self._core.members for host in needed):
                return complete, True
            if any(has.get(host, 0) < entry.sequence for host in needed):
                return complete, False
            complete = entry.sequence
        return complete, False

    def _known(self, flow: Flow, complete: int) -> int:
        """The last message of a flow that a majority of all hosts knows to be part of the order, up to `complete`."""
        has = self._has.get(flow, {})
        marks = sorted((complete if host == self.env.host else has.get(host, 0) for host in self.env.hosts), reverse=True)
        return min(complete, marks[len(marks) // 2])

    def on_message(self, sender: str, message: Mark | Has, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A source says how far one of its flows is, or a host answers."""
        if message.graph != self._core.opened or not self._core.is_open:
            return
        flow = message.origin, message.group, message.listed
        if isinstance(message, Mark) and message.origin == sender:
            passed = self._journal.note(flow, message.sequence, message.settled)
            answer = Has(message.group, sender, passed, message.graph, message.settled, message.listed)
            self.env.send(sender, answer, Purpose.CONTROL)
        elif isinstance(message, Has) and message.origin == self.env.host:
            for known, number in ((self._has, message.sequence), (self._done, message.settled)):
                of_flow = known.setdefault(flow, {})
                of_flow[sender] = max(number, of_flow.get(sender, 0))


def flows(stored: Iterable[Any]) -> Passed:
    """For each flow a number, as it was stored or sent."""
    return {(origin, group, listed): sequence for (origin, group, listed), sequence in stored}


def _under(stored: Mapping[str, Any], kind: str) -> Passed:
    """The numbers under keys such as `passed/h1/2/`."""
    found = {}
    for key, number in stored.items():
        if key.startswith(f"{kind}/"):
            _, origin, group, listed = key.split("/")
            found[origin, int(group), bytes.fromhex(listed)] = number
    return found


def numbered(stored: Mapping[str, Any], kind: str) -> list[tuple[int, Any]]:
    """The values under keys such as `entry/3`, in the order of their numbers."""
    keys = [key for key in stored if key.startswith(f"{kind}/")]
    return sorted(((int(key.partition("/")[2]), stored[key]) for key in keys), key=lambda entry: entry[0])
