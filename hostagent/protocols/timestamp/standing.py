"""What a host says that it has when it votes for a view of the timestamp protocol.

A view goes on from the messages that its voters have; so no voter may have less than it has told others, on which they relied when they
delivered. A host that installs a view has to get what it lacks up to the cut first, and may have to drop what it had: others may die
meanwhile, and the next view be made of such hosts alone. So a host is *of* a view when it has everything up to the cut of that view. Until
then it votes as one of the view that it was of before: with what it had there, which it lays aside instead of dropping it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.protocols.timestamp.messages import Have, Item

if TYPE_CHECKING:
    from hostagent.protocols.timestamp.protocol import Timestamp


class Standing(Part):
    """The view that this host is of, and what it had there. `core` is this host."""

    def __init__(self, env: Environment, core: "Timestamp") -> None:
        super().__init__(env)
        self._core = core
        self._view = 0
        """The last view up to whose cut this host had everything."""
        self._aside: list[Item] | None = None
        """What this host had there and has not delivered, if the view that it has installed does not go on from there."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore both."""
        self._view, aside = stored.get("standing", (0, None))
        self._aside = None if aside is None else [Item(*fields) for fields in aside]

    def vote(self) -> tuple[int, Have]:
        """The view that this host is of, and how many messages of each host it has there."""
        core, hosts = self._core, self.env.hosts
        if self._view == core.view:
            return self._view, core.all_here()
        if self._aside is None:
            return self._view, tuple(min(core.last[host], core.cut[host]) for host in hosts)
        numbers = {host: [item.number for item in self._aside if item.origin == host] for host in hosts}
        return self._view, tuple(max([core.passed[host], *numbers[host]]) for host in hosts)

    def enter(self, base: int) -> None:
        """A view was installed that goes on from the messages of the view `base`. Drop what is void, or lay aside what may still count."""
        core = self._core
        if self._aside is not None:
            self._drop_beyond(core.passed)
            for item in self._aside:
                self.keep(item)
        has_base = self._view == base
        dropped = self._drop_beyond(core.cut if has_base else core.passed)
        self._aside = None if has_base else dropped
        self._store()

    def keep(self, message: Item) -> None:
        """Have a message, the next in the stream of its source."""
        core, source, number = self._core, message.origin, message.number
        core.last[source] = number
        core.items[source, number] = message
        core.env.store(f"item/{source}/{number}", msgspec.structs.astuple(message))
        if source == self.env.host and message.sequence in core.waiting:
            # It was taken for void, and others have it.
            del core.waiting[message.sequence]
            core.env.store(f"waiting/{message.sequence}", None)

    def _drop_beyond(self, limits: Mapping[str, int]) -> list[Item]:
        """Drop and return messages that are not delivered, beyond these numbers. Those of this host wait to be sent anew."""
        core = self._core
        dropped = [item for item in core.items.values() if item.number > max(limits[item.origin], core.passed[item.origin])]
        for item in dropped:
            del core.items[item.origin, item.number]
            core.env.store(f"item/{item.origin}/{item.number}", None)
            if item.origin == self.env.host:
                core.waiting[item.sequence] = item
                core.env.store(f"waiting/{item.sequence}", msgspec.structs.astuple(item))
        for host in self.env.hosts:
            core.last[host] = max(core.passed[host], min(core.last[host], limits[host]))
        return dropped

    def complete(self) -> None:
        """This host has everything up to the cut of the view that it has installed."""
        if self._view != self._core.view:
            self._view, self._aside = self._core.view, None
            self._store()

    def _store(self) -> None:
        aside = None if self._aside is None else [msgspec.structs.astuple(item) for item in self._aside]
        self.env.store("standing", (self._view, aside))
