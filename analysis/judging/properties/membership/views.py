"""Which view of a group each host had when.

A host has the view that it installed last. Before its first one it is in the initial view, which has number 0; the members of the initial
view are those that the first broadcast to the group names, if its origin had not installed a view by then.
"""

from bisect import bisect_right
from collections import defaultdict

from analysis.judging.history import BroadcastEvent, Delivery, History, View
from hostagent.contract.messages import LISTED

Place = tuple[int, int]


class Views:
    """The views of all hosts, in the order of their logs. A host that installs the view that it has again changes nothing."""

    def __init__(self, history: History) -> None:
        self._hosts = history.hosts
        self._installed: dict[tuple[str, int], list[View]] = defaultdict(list)
        for view in history.views:
            installed = self._installed[view.host, view.group]
            if not installed or installed[-1].view != view.view:
                installed.append(view)
        self._places = {key: [view.place for view in views] for key, views in self._installed.items()}
        self.groups = frozenset(group for _, group in self._installed)
        """The groups of which any host installed a view."""
        self._initial: dict[int, tuple[str, ...]] = {}
        for broadcast in history.broadcasts:
            group = broadcast.group
            if group != LISTED and group not in self._initial and self._last(broadcast.origin, group, broadcast.place) is None:
                self._initial[group] = broadcast.destinations(history.hosts)

    def _last(self, host: str, group: int, place: Place) -> View | None:
        places = self._places.get((host, group))
        number = bisect_right(places, place) if places else 0
        return self._installed[host, group][number - 1] if number else None

    def initial(self, host: str, group: int) -> View:
        """The initial view of a group as a host has it."""
        return View(0, host, group, 0, self._initial.get(group, ()))

    def at(self, event: BroadcastEvent | Delivery, group: int) -> View:
        """The view of a group in which its host was when it logged an event."""
        host = event.origin if isinstance(event, BroadcastEvent) else event.host
        return self._last(host, group, event.place) or self.initial(host, group)

    def installed(self, host: str, group: int) -> list[View]:
        """The views that a host had one after another, the initial one included if the host was a member of it."""
        views, initial = self._installed.get((host, group), []), self.initial(host, group)
        return [initial, *views] if host in initial.members else views

    def latest(self, host: str, group: int) -> View | None:
        """The last view that a host had; None if the host was no initial member and never installed one."""
        views = self.installed(host, group)
        return views[-1] if views else None


def named(group: int) -> str:
    """A group in words."""
    return f"group {group}"
