"""Reads the event logs of a run while they are being written.

Only complete commits are read (`hostagent.contract.events`). A restart removes from a log only the incomplete commit of an agent that was
killed, so a log never gets shorter than the part that was read.
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
        """The events that are new since the last call: those of one host in the order of its log, those of several in the order of time."""
        news: list[tuple[int, str, Event]] = []
        for host, path in self._agents.event_logs():
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                added = committed(log.read())
            self._read[path] = self._read.get(path, 0) + added.length
            events = [msgspec.json.decode(line, type=Event) for line in added.lines]
            # After a clock was set back, events count as simultaneous until the clock has caught up.
            news += zip(accumulate((event.at_ns for event in events), max), repeat(host), events)
        return [(host, event) for _, host, event in sorted(news, key=lambda item: item[0])]
