"""What the controller did, one JSON object a line: `at_ns` (nanoseconds since 1970), `event`, and the fields of that event.

    listening     format of this log (runfiles.format), and host and port, or path
    switch_ready  switch, flows, took_ms: its flows are in place, `took_ms` after it connected
    switch_lost   switch: its connection ended; it keeps forwarding by the flows it has
    port_down     switch, port, neighbour
    port_up       switch, port, neighbour
    rerouted      cause (port_down, port_up or switch_connected), switch, ports, flows_changed, switches, took_ms: from the arrival
                  of the news to the last switch's word that its changes are in place
    failed        reason: the controller is about to end

A link has two ends, so breaking one gives two port_down and two rerouted, the second of which changes no flow and may be written
first. Each line is flushed, so a reader that follows the file is never behind.
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
