#!./castbed run
"""A slow receiver: flow control keeps its buffer from overflowing, where without it messages are lost (fourth paper, section 3.2).

Four of five hosts send much faster than the fifth can receive: its link to the switch is narrow, and the queue in front of the link is
short. That queue is its buffer. Without flow control the queue overflows, and what is lost must be asked for and sent again over the same
link. With it, hosts send few messages between two turns, and none to a host that says that it has or lacks too many.
"""

from collections.abc import Iterator
from dataclasses import replace

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Scenario, Variant, Workload
from topologies import lan

SLOW = "h5"
FLOW = {"window": 3, "buffer": 40, "overload": 200}
"""Four hosts that send three messages each fit into a queue of twenty packets, beside the tokens."""


def scenario(bandwidth_mbit: float = 1.0, queue: int = 20) -> list[Variant]:
    """The same stream with and without flow control.

    bandwidth_mbit: Mbit/s of the slow receiver's link
    queue: packets that its link holds before it drops some
    """
    network = lan(5)
    links = tuple(
        replace(link, bandwidth_mbit=bandwidth_mbit, queue_packets=queue) if SLOW in (link.a, link.b) else link
        for link in network.links
    )
    network = replace(network, links=links)
    stream = Workload(messages=1200, interval=1.0, payload=256, settle=8000.0)
    asked = Scenario(network=network, sources=tuple(host for host in network.hosts if host != SLOW), workload=stream)
    return [
        Variant("flow-control", asked, "counter", {"flow_control": True, **FLOW}),
        Variant("none", asked, "counter", {"flow_control": False, **FLOW}),
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """What was lost and sent again, and how long it took until everybody had everything."""
    with_it, without = runs["flow-control"], runs["none"]
    lost = {run.label: run.packets_for("repair") for run in (with_it, without)}
    text = "without flow control messages are lost at the slow receiver, and with it few or none"
    figure = f"sent again: {lost['flow-control']} with it, {lost['none']} without it, of {len(with_it.broadcasts)} messages"
    yield Claim("3.2", text, lost["none"] > 100 and 10 * lost["flow-control"] <= lost["none"], figure)
    rates = {run.label: _throughput(run) for run in (with_it, without)}
    figure = f"{rates['flow-control']:.0f} messages a second with it, {rates['none']:.0f} without it"
    yield Claim("3.2", "flow control costs less than half of the throughput", 2 * rates["flow-control"] >= rates["none"], figure)
    for run in runs:
        yield kept("3.2", run, Guarantee.PROGRESS, expected=True)
        yield kept("3.2", run, Order(Scope.MULTIPLE_SOURCE, Strength.STRICT), expected=True)


def _throughput(run: MeasuredRun) -> float:
    """Messages a second that all hosts committed, from the first broadcast to the last delivery."""
    last_s = max(run.at_s(delivery.at_ns) for delivery in run.history.deliveries)
    return len(run.broadcasts) / last_s
