"""Three LANs of two hosts far apart: what a message costs in expensive packets, beside production systems that were measured there."""

from collections.abc import Iterator
from statistics import median

import msgspec
import pytest

from hostagent.protocols import PROTOCOLS
from scenarios.counter_tokens.three_lans import (
    COROSYNC,
    IDLE,
    IDLE_PER_SECOND,
    PARAMETERS,
    SETTLED_S,
    SPREAD,
    WARM_UP_S,
    scenario,
)
from simulator.engine import Outcome, simulate

PACK_MS = 25.0


def delays_ms(outcome: Outcome) -> Iterator[float]:
    """How long each message took to each host but its source."""
    sent = {(host, event.sequence): event.at_ns for host, event in outcome.events if event.event == "broadcast"}
    for host, event in outcome.events:
        if event.event == "deliver" and host != event.origin:
            yield (event.at_ns - sent[event.origin, event.sequence]) / 1e6


@pytest.mark.parametrize(("protocol", "is_in_time"), [("totem", True), ("sequencer", True), ("counter", False)])
def test_at_200_messages_a_second_all_are_ahead_in_packets_and_all_but_the_safe_one_in_delay(protocol, is_in_time):
    (variant,) = (variant for variant in scenario(part=0.2) if variant.label == f"{protocol}-200")
    core, crossed = PROTOCOLS[protocol], []
    outcome = simulate(
        variant.scenario,
        core,
        msgspec.convert(PARAMETERS[protocol], core.Parameters),
        seed=1,
        pack_ms=PACK_MS,
        on_crossing=lambda at_ns, pipe, packet: crossed.append(packet) if pipe.expensive and at_ns >= WARM_UP_S * 1e9 else None,
    )
    took = list(delays_ms(outcome))
    assert len(took) == 5 * variant.scenario.workload.messages
    assert len(crossed) / variant.scenario.workload.messages < min(SPREAD["200"].packets, COROSYNC["200"].packets)
    assert (median(took) < min(SPREAD["200"].delay_ms, COROSYNC["200"].delay_ms)) is is_in_time


@pytest.mark.parametrize("protocol", ["totem", "optimistic", "counter"])
def test_an_idle_ring_costs_less_than_spreads_by_default(protocol):
    (variant,) = (variant for variant in scenario() if variant.label == "totem-idle")
    core, crossed_s = PROTOCOLS[protocol], []
    simulate(
        variant.scenario,
        core,
        core.Parameters(),
        seed=1,
        on_crossing=lambda at_ns, pipe, _: crossed_s.append(at_ns / 1e9) if pipe.expensive else None,
    )
    begin_s, end_s = WARM_UP_S + SETTLED_S, WARM_UP_S + IDLE[1] / 1000
    per_second = sum(begin_s <= at_s < end_s for at_s in crossed_s) / (end_s - begin_s)
    assert 0.1 < per_second < IDLE_PER_SECOND
