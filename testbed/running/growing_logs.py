"""The event logs of a run while they are being written."""

from pathlib import Path

import msgspec

from hostagent.contract.events import Event
from testbed.running.agents import Agents


class EventLogs:
    """Reads each event once."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._read: dict[Path, int] = {}

    def news(self) -> list[tuple[str, Event]]:
        """What was added since the last look, by host, in the order of time."""
        news = []
        for host, path in self._agents.event_logs():
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                lines = log.read()
            complete = lines[: lines.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(complete)
            news += [(host, msgspec.json.decode(line, type=Event)) for line in complete.splitlines()]
        return sorted(news, key=lambda item: item[1].at_ns)
