"""PySyncObj at one host: a replicated method, which every host calls with each message in the order of the log.

Settings are the library's own, but for a journal on disk, so that a host that restarts knows what it has voted for and what it has.
"""

import sys
import threading
import time
from importlib import import_module
from typing import Any

from hostagent.runtime.guests.surroundings import GuestHost, Surroundings

_PORT = 4321
_LOOK_S = 0.01
_AGAIN_S = 0.1


def start(host: Surroundings) -> GuestHost:
    """Start the object, and wait until it knows a leader and all that the leader has committed."""
    sys.path.insert(0, str(host.installed))
    pysyncobj: Any = import_module("pysyncobj")
    reasons: Any = import_module("pysyncobj.config").FAIL_REASON
    # After other failures, as when the leader has changed, a message may be in the log, and a second one would be delivered twice.
    not_appended = {reasons.QUEUE_FULL, reasons.MISSING_LEADER, reasons.DISCARDED, reasons.NOT_LEADER, reasons.REQUEST_DENIED}

    nodes = [f"{address}:{_PORT}" for address in host.addresses]
    settings = pysyncobj.SyncObjConf(journalFile=str(host.private / "journal"))

    class Log(pysyncobj.SyncObj):  # type: ignore[misc]
        """The object that all hosts have."""

        @pysyncobj.replicated  # type: ignore[untyped-decorator]
        def append(self, message: bytes) -> None:
            """Called at every host, in the same order."""
            host.deliver(message)

        def broadcast(self, message: bytes) -> None:
            """Have every host append a message."""
            self.append(message, callback=lambda _, error: self.again(message) if error in not_appended else None)

        def again(self, message: bytes) -> None:
            """Try again in a while."""
            threading.Timer(_AGAIN_S, self.broadcast, (message,)).start()

    own = nodes[host.number - 1]
    log: Any = Log(own, [node for node in nodes if node != own], settings)
    while not log.isReady():
        time.sleep(_LOOK_S)
    found: GuestHost = log
    return found
