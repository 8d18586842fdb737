"""Runs the application in this process until a signal or an error ends it.

Ryu catches every exception of a handler or a connection, logs it as an error and goes on, with flows that may be wrong. Here an error in
Ryu's log ends the process. It ends by `os._exit`, since Ryu would catch a `SystemExit` as well. Nothing is lost by that: each line of the
controller's log is flushed, and switches keep their flows.
"""

import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import controller.eventlet_ready  # noqa: F401 - has to come before Ryu

# isort: split

import eventlet
from ryu.base.app_manager import AppManager, RyuApp
from ryu.controller.controller import datapath_connection_factory
from ryu.controller.ofp_handler import OFPHandler
from ryu.lib import hub

from controller.address import Address
from controller.app import Routing
from controller.log import Log
from controller.routes import Groups
from runfiles.format import FORMAT
from topologies.network import Network

# The backlog of the listener: all switches of a large network may connect at the same moment.
MOST_WAITING_CONNECTIONS = 1024


class EndOnError(logging.Handler):
    """Ends the process at the first error that Ryu logs, and says why."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> NoReturn:
        """Write the reason to the log and to standard error, and end the process."""
        error = sys.exc_info()[1]
        reason = str(error) if error else record.getMessage()
        self._log.write("failed", reason=reason)
        print(f"The controller ends: {reason}", file=sys.stderr)
        traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(1)


def run(network: Network, address: Address, log: Log, read_groups: Callable[[], Groups] = dict) -> NoReturn:
    """Control the switches that connect to this address, for ever. Port 0 is any free port. On SIGHUP, groups are read again."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    logging.getLogger().addHandler(EndOnError(log))
    listener = _listen_at_path(address) if isinstance(address, Path) else _listen_at_port(address)
    routing = _start_applications(network, read_groups(), log)
    _call_on_hang_up(lambda: routing.regroup(read_groups()))
    bound = listener.getsockname()
    log.write(
        "listening",
        format=FORMAT,
        **({"path": bound} if isinstance(address, Path) else dict(zip(("host", "port"), bound, strict=True))),
    )
    while True:
        connection, peer = listener.accept()
        if isinstance(address, Path):
            # Ryu sets a TCP option on every connection, which a Unix socket refuses.
            connection.setsockopt = lambda *_: None
        hub.spawn(datapath_connection_factory, connection, peer)


def _call_on_hang_up(call: Callable[[], None]) -> None:
    """Make a call for each SIGHUP. The signal is sent on as a byte to a socket: eventlet sleeps through a signal until a switch speaks."""
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGHUP, lambda *_: None)

    def wait(reader: Any, _kept_open: socket.socket) -> None:
        while reader.recv(1):
            call()

    hub.spawn(wait, eventlet.greenio.GreenSocket(woken), waker)


def _listen_at_port(address: tuple[str, int]) -> Any:
    """Listen at a port alone. By default eventlet shares a port, and two controllers would each get half of the switches."""
    return eventlet.listen(address, backlog=MOST_WAITING_CONNECTIONS, reuse_port=False)


def _listen_at_path(path: Path) -> Any:
    """Listen at a socket that only this user and root can connect to. A controller that was killed may have left a socket there."""
    path.unlink(missing_ok=True)
    others = os.umask(0o177)
    try:
        return eventlet.listen(str(path), family=socket.AF_UNIX, backlog=MOST_WAITING_CONNECTIONS, reuse_port=False)
    finally:
        os.umask(others)


def _start_applications(network: Network, groups: Groups, log: Log) -> Routing:
    """Start our application and Ryu's OpenFlow handler, without Ryu's own listener, which cannot tell which free port it got."""
    manager = AppManager.get_instance()
    routing: Routing = manager.instantiate(Routing, network, groups, log)
    for application in (manager.instantiate(OFPHandler), routing):
        RyuApp.start(application)
    return routing
