"""What one host has passed on and delivered since a graph began, and which of its own messages are not known to be part of the order."""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import hosts_in
from hostagent.protocols.propagation_graph.reconciling import Entry, Passed, Plan, diverges_at


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
        self.own: dict[int, Entry] = {}
        """Messages of this host that are not known to be part of the order, by their numbers."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore everything."""
        self._passed, self._delivered = flows(stored.get("passed", ())), flows(stored.get("delivered", ()))
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
        for sequence, entry in list(self.own.items()):
            if sequence <= passed.get(entry.flow, 0):
                del self.own[sequence]
                self.env.store(f"own/{sequence}", None)
        self.env.store("passed", list(self._passed.items()))
        self.env.store("delivered", list(self._delivered.items()))

    def _catch_up(self, plan: Plan, passed: Passed) -> None:
        """Take back what stands in the wrong place, and deliver what is missing."""
        mine = [entry for entry in self._entries.values() if self._is_mine(entry)]
        here = {entry.message for entry in mine}
        due = [entry for entry in plan.order if self._is_mine(entry) and (entry.message in here or self.is_due(entry))]
        wrong = mine[diverges_at(mine, due, passed) :]
        if self._rolls_back:
            for entry in reversed(wrong):
                self.env.take_back(*entry.message)
                self._delivered[entry.flow] = entry.sequence - 1
        for entry in due:
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


def flows(stored: Iterable[Any]) -> Passed:
    """For each flow a number, as it was stored or sent."""
    return {(origin, group, listed): sequence for (origin, group, listed), sequence in stored}


def numbered(stored: Mapping[str, Any], kind: str) -> list[tuple[int, Any]]:
    """The values under keys such as `entry/3`, in the order of their numbers."""
    keys = [key for key in stored if key.startswith(f"{kind}/")]
    return sorted(((int(key.partition("/")[2]), stored[key]) for key in keys), key=lambda entry: entry[0])
