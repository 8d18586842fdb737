"""The list and the groups that a host wants to be in, and the views that it has installed.

A host that is not in the list, or not in its groups as it wants to be, has a new list formed (`hostagent.parts.tokens.ring`). The list is
the view of everybody's group, and other groups' views are their members in the list.

A host that is not in the list is not among the destinations of what is broadcast then, as with any views. Messages that were for it before
that are kept until it is back: by all members, or by a majority, unless it has them already.

A host that leaves everybody's group stays in the list until no message for it can be under way any more: until the token has gone round
with nothing in it. While others keep broadcasting that does not happen, and it stays. It also stays if there were no majority without it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY
from hostagent.parts.tokens.places import places
from hostagent.protocols.counter.state import TokenState


class Membership(Part):
    """What one host wants, and what it has. `latest` is the newest token that this host knows."""

    def __init__(self, env: Environment, latest: Callable[[], TokenState]) -> None:
        super().__init__(env)
        self._latest = latest
        self._me = env.hosts.index(env.host)
        self._wishes = {group: env.host in members for group, members in env.groups.items()}
        self._views = dict.fromkeys(env.groups, 0)
        """The number of the view of each group that is installed."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the wishes."""
        self._wishes |= {int(key.removeprefix("wish/")): value for key, value in stored.items()}

    def wish(self, group: int, *, wants: bool) -> None:
        """The application wants to be in a group, or not to be in it."""
        self._wishes[group] = wants
        self.env.store(f"wish/{group}", wants)

    @property
    def is_member(self) -> bool:
        """Whether this host is in the list."""
        return bool(self._latest().members >> self._me & 1)

    @property
    def rides(self) -> bool:
        """Whether this host wants to be in the list."""
        state = self._latest()
        left = not self._wishes[EVERYBODY] and not self._group(EVERYBODY) >> self._me & 1
        return not (left and (state.is_idle or not self.is_member))

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups that this host wants to be in."""
        return tuple(group for group, wanted in sorted(self._wishes.items()) if wanted)

    @property
    def is_happy(self) -> bool:
        """Whether this host is in the list, and in its groups, as it wants to be."""
        state = self._latest()
        groups = all(bool(mask >> self._me & 1) == self._wishes.get(group, False) for group, mask, _ in state.groups)
        return groups and self.is_member == self.rides

    def install_views(self) -> None:
        """Install the views of the groups that have changed."""
        state = self._latest()
        for group, mask, version in state.groups:
            if group in self._views and self._views[group] != version:
                self._views[group] = version
                self.env.install(group, places(mask & state.members, self.env.hosts), version)

    def _group(self, number: int) -> int:
        return next((mask for group, mask, _ in self._latest().groups if group == number), 0)
