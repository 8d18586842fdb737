#!./castbed run
"""A lost message is found out within two cycles, and nothing but the token is needed for it (fourth paper, sections 1 and 2.3).

Six hosts on a LAN that loses packets send at random times. The token names what a host sent before its turn; whoever hears it and lacks a
message asks for it. So between the broadcast and the first request lie at most two cycles of the token: one until its source adds it, and
less than one more if the first tokens that name it are lost, too.
"""

from collections.abc import Iterator
from itertools import pairwise

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee
from scenarios import Scenario, Share, Variant, Workload
from topologies import lan


def scenario(loss: Share = 0.03, owner_ms: float = 10.0) -> list[Variant]:
    """A LAN of six hosts, on both media.

    loss: the share of packets that each link loses
    owner_ms: milliseconds that an owner keeps the token
    """
    network = lan(6, loss=loss)
    stream = Workload(messages=600, interval=10.0, arrivals="poisson", settle=3000.0)
    asked = Scenario(network=network, sources=network.hosts, workload=stream)
    return [Variant("counter", asked, "counter", {"token_owner_ms": owner_ms})]


def claims(runs: Runs) -> Iterator[Claim]:
    """How long after its broadcast a message that a host lacked was asked for."""
    for run in runs:
        yield _detected(run)
        yield kept("2.3", run, Guarantee.PROGRESS, expected=True)


def _detected(run: MeasuredRun) -> Claim:
    began = {broadcast.message: broadcast.at_ns for broadcast in run.broadcasts}
    cycles_ns = _cycles_ns(run)
    took: list[float] = []
    found: set[tuple[str, str, int]] = set()
    for line in run.logged("request"):
        for first, last in line.details["missing"]:
            for number in range(first, last + 1):
                message = line.message[0], number
                if (line.host, *message) not in found and message in began:
                    found.add((line.host, *message))
                    took.append(_in_cycles(began[message], line.at_ns, cycles_ns))
    text = "a lost message is asked for within two cycles of its broadcast"
    if not took:
        return Claim("2.3", text, None, "no message was lost")
    figure = f"{len(took)} were lost; {sum(took) / len(took):.2f} cycles on average, {max(took):.2f} at most"
    return Claim("2.3", text, max(took) <= 2.0, figure)


def _cycles_ns(run: MeasuredRun) -> list[int]:
    """The times at which the first host got the token: a cycle is the time from one to the next."""
    first = run.network.hosts[0]
    return sorted(line.at_ns for line in run.logged("token") if line.host == first and line.details["held"])


def _in_cycles(start_ns: int, end_ns: int, cycles_ns: list[int]) -> float:
    """A time in cycles: each part of it in units of the cycle that it lies in."""
    inside = [start_ns, *(at_ns for at_ns in cycles_ns if start_ns < at_ns < end_ns), end_ns]
    found = 0.0
    for begins_ns, ends_ns in pairwise(inside):
        before = max((at_ns for at_ns in cycles_ns if at_ns <= begins_ns), default=begins_ns)
        after = min((at_ns for at_ns in cycles_ns if at_ns >= ends_ns), default=ends_ns)
        found += (ends_ns - begins_ns) / max(after - before, 1)
    return found
