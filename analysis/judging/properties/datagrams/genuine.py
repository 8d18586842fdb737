"""Genuine: only the origin of a message and its destinations send and receive datagrams about it (Guerraoui and Schiper; fifth paper).

So a message to a group costs the hosts outside it nothing. Datagrams are what captures show: of a pack the one message that its header
names. On a network that multicasts, a copy that a switch carries to a host outside breaks the promise too.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, name, violated, without_transits
from analysis.judging.history import History, Transit
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, _connectivity: Connectivity) -> Finding:
    """Look at both ends of each datagram. A case is a datagram about a message that is not for all hosts."""
    if stop := without_transits(history):
        return stop
    everybody = frozenset(history.hosts)
    inside = {message: frozenset((message[0], *to)) for message, to in history.destinations.items()}
    cases = 0
    for transit in history.transits or ():
        allowed = inside.get((transit.origin, transit.sequence), everybody)
        if len(allowed) == len(everybody):
            continue
        cases += 1
        if transit.sender not in allowed or transit.to not in allowed:
            return violated(cases, _sentence(transit, history), transit)
    return kept(history, cases, "no datagram was about a message that is not for all hosts")


def _sentence(transit: Transit, history: History) -> str:
    time, message = Clock(history), (transit.origin, transit.sequence)
    to = ", ".join(history.destinations[message])
    arrived = f"which arrived at {time(transit.arrived_ns)}" if transit.arrived_ns is not None else "which was lost"
    return (
        f"{transit.sender} sent {transit.to} a datagram about {name(message)} at {time(transit.left_ns)}, {arrived}, "
        f"but the message is for {to} only"
    )
