"""The event logs of a run while they are being written.

Only whole commits are read (`hostagent.contract.events`). A restart cuts off what an agent had written of a commit when it was killed, and
nothing else, so a log never gets shorter than what was read of it.
"""

from itertools import accumulate, repeat
from pathlib import Path

import msgspec

from hostagent.contract.events import Event, committed
from testbed.running.agents import Agents


class EventLogs:
    """Reads each event once."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._read: dict[Path, int] = {}

    def news(self) -> list[tuple[str, Event]]:
        """What was added since the last look, by host: that of one host in the order of its log, that of several in the order of time."""
        news: list[tuple[int, str, Event]] = []
        for host, path in self._agents.event_logs():
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                added = committed(log.read())
            self._read[path] = self._read.get(path, 0) + added.length
            events = [msgspec.json.decode(line, type=Event) for line in added.lines]
            # A clock that was set back stands still until it has caught up.
            news += zip(accumulate((event.at_ns for event in events), max), repeat(host), events)
        return [(host, event) for _, host, event in sorted(news, key=lambda item: item[0])]
