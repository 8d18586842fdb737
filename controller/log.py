"""The controller's log, one JSON object a line: `at_ns` (nanoseconds since 1970), `event`, and the fields of that event.

    listening     format of this log (runfiles.format), and host and port, or path
    switch_ready  switch, flows, took_ms: the switch has all its flows, `took_ms` after it connected
    switch_lost   switch: its connection ended; the switch keeps its flows and goes on forwarding
    port_down     switch, port, neighbour
    port_up       switch, port, neighbour
    rerouted      cause (port_down, port_up, switch_connected or groups_changed), switch, ports, flows_changed, switches, took_ms: from
                  the arrival of the cause to the answer of the last switch that its flows are changed
    failed        reason: the controller is about to end

A link has two ends, so a link that fails gives two port_down and two rerouted. The second of the two rerouted changes no flow, so it may
be written first. Each line is flushed, so a reader that follows the file sees it at once.
"""

import json
import time
from typing import TextIO


class Log:
    """Writes events to an open text stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, event: str, **fields: object) -> None:
        """Write one line."""
        self._stream.write(json.dumps({"at_ns": time.time_ns(), "event": event, **fields}) + "\n")
        self._stream.flush()
