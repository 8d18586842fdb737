"""PySyncObj at one host: a replicated method, which every host calls with each message in the order of the log.

Settings are the library's own, but for a journal on disk, so that a host that restarts knows what it has voted for and what it has; the log
is never compacted, so a restart begins with the whole log. What was on its way to a leader that dies is lost, so a message that is not in
the log after a while is sent again, and hosts skip what is in the log twice (Ongaro and Ousterhout, *In Search of an Understandable
Consensus Algorithm*, 2014, section 8).
"""

import queue
import sys
import threading
import time
from importlib import import_module
from typing import Any, Final

from hostagent.runtime.guests.surroundings import GuestHost, Surroundings

_PORT: Final = 4321
_LOOK_S: Final = 0.01
# Longer than an election, which takes up to 1.4 s.
_AGAIN_S: Final = 2.0
_NEVER: Final = 1 << 40


def start(host: Surroundings) -> GuestHost:
    """Start the object, and wait until it knows a leader and all that the leader has committed."""
    sys.path.insert(0, str(host.installed))
    pysyncobj: Any = import_module("pysyncobj")
    nodes = [f"{address}:{_PORT}" for address in host.addresses]
    journal = str(host.private / "journal")
    settings = pysyncobj.SyncObjConf(journalFile=journal, logCompactionMinEntries=_NEVER, logCompactionMinTime=_NEVER)
    seen = set[bytes]()
    sent: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    class Log(pysyncobj.SyncObj):  # type: ignore[misc]
        """The object that all hosts have."""

        @pysyncobj.replicated  # type: ignore[untyped-decorator]
        def append(self, message: bytes) -> None:
            """Called at every host, in the same order."""
            if message not in seen:
                seen.add(message)
                host.deliver(message)

        def broadcast(self, message: bytes) -> None:
            """Have every host append a message."""
            self.append(message)
            sent.put((time.monotonic() + _AGAIN_S, message))

        def repeat(self) -> None:
            """Send again what is not in the log after a while."""
            while True:
                due_s, message = sent.get()
                time.sleep(max(0.0, due_s - time.monotonic()))
                if message not in seen:
                    self.broadcast(message)

    own = nodes[host.number - 1]
    log: Any = Log(own, [node for node in nodes if node != own], settings)
    while not log.isReady():
        time.sleep(_LOOK_S)
    threading.Thread(target=log.repeat, daemon=True).start()
    found: GuestHost = log
    return found
