"""Checks that the network is ready: every host sends a probe to every other, and the cost bit on arrival is compared with the path.

Probes are datagrams to a port of their own, so captures of the agents' port do not hold them. This process sends them, from a socket in
each host's namespace, so no process is started. A probe that does not arrive is repeated, since links may lose packets by design.
"""

import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hostagent.contract.wire import COST_TOS
from hostagent.runtime.namespace import inside
from testbed.errors import CannotRun
from testbed.network.plan import Plan
from topologies.paths import path

PORT = 47001
# In a larger network each host probes at most so many others, evenly spread: the time for all pairs grows with the square of the hosts.
MOST_PROBED = 64
# The probes that are sent before arrivals are read: few enough for the queue of a slow link.
_AT_ONCE = 200
_ROUND_S = 0.2


def reach_everybody(plan: Plan, patience_s: float = 30.0) -> int:
    """Wait until all probed pairs reach each other with the right cost bit. Returns the number of pairs."""
    with _sockets(plan) as sockets, selectors.DefaultSelector() as selector:
        for host, probe in sockets.items():
            selector.register(probe, selectors.EVENT_READ, host)
        missing = dict.fromkeys(pairs(plan.network.hosts))
        probed = len(missing)
        deadline = time.monotonic() + patience_s
        while missing:
            if time.monotonic() > deadline:
                sender, receiver = next(iter(missing))
                raise CannotRun(
                    f"{len(missing)} of {probed} pairs of hosts do not reach each other, {sender} -> {receiver} among them"
                )
            _round(plan, sockets, selector, missing)
    return probed


def pairs(hosts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The pairs of sender and receiver to probe. Both change with each pair, so that no link gets a burst."""
    others = len(hosts) - 1
    step = max(1, -(-others // MOST_PROBED))
    for distance in range(1, others + 1, step):
        for number, host in enumerate(hosts):
            yield host, hosts[(number + distance) % len(hosts)]


def _round(
    plan: Plan, sockets: dict[str, socket.socket], selector: selectors.BaseSelector, missing: dict[tuple[str, str], None]
) -> None:
    """Send a probe for every missing pair, and remove the pairs whose probes arrive."""
    for number, (sender, receiver) in enumerate(list(missing), start=1):
        sockets[sender].sendto(sender.encode(), (plan.network.addresses[receiver], PORT))
        if number % _AT_ONCE == 0:
            _receive(plan, selector, missing, wait_s=0)
    quiet_until = time.monotonic() + _ROUND_S
    while missing and time.monotonic() < quiet_until:
        if _receive(plan, selector, missing, wait_s=_ROUND_S):
            quiet_until = time.monotonic() + _ROUND_S


def _receive(plan: Plan, selector: selectors.BaseSelector, missing: dict[tuple[str, str], None], wait_s: float) -> bool:
    """Remove every missing pair whose probe has arrived. Returns whether any probe had."""
    ready = selector.select(wait_s)
    for key, _ in ready:
        for sender, expensive in _drain(key.fileobj):
            _compare(plan, sender, key.data, expensive=expensive)
            missing.pop((sender, key.data), None)
    return bool(ready)


def _drain(probe: Any) -> Iterator[tuple[str, bool]]:
    """The sender and the cost bit of each probe that waits in a socket."""
    while True:
        try:
            sender, ancillary, _, _ = probe.recvmsg(64, socket.CMSG_SPACE(1))
        except BlockingIOError:
            return
        yield sender.decode(), ancillary[0][2][0] & 0xFC == COST_TOS


def _compare(plan: Plan, sender: str, receiver: str, *, expensive: bool) -> None:
    """Raise an error if the cost bit of a probe does not agree with its path."""
    crossed = [link.name for link in path(plan.network, sender, receiver) if link.expensive]
    if expensive != bool(crossed):
        raise CannotRun(
            f"a packet from {sender} to {receiver} arrived with the cost bit {'set' if expensive else 'clear'}, "
            f"but its path crosses {', '.join(crossed) or 'no expensive link'}"
        )


@contextmanager
def _sockets(plan: Plan) -> Iterator[dict[str, socket.socket]]:
    """A socket in each host's namespace."""
    with ExitStack() as stack:
        sockets = {}
        for host in plan.network.hosts:
            with inside(plan.namespace_path(host)):
                probe = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            probe.setblocking(False)
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
            probe.bind(("", PORT))
            sockets[host] = probe
        yield sockets
