#!./castbed run
"""What a message costs with Totem, and how long it takes, when its token takes M messages along in each rotation.

n hosts in k clusters of s, any two of them joined by an expensive link with a delay L; every host sends in turn, steadily. Theory: n - 1
packets, or one to the group, and n / M for the token; n - s and k / M of them are expensive. With agreed delivery the last host has a
message half a rotation and L after its broadcast on average, with safe delivery up to two rotations later. A packet to the group may cross
two expensive links, so times are compared on unicast only. Run it with --pack off:

    ./castbed run rotation --on simulator --pack off
"""

from collections.abc import Iterator
from typing import NamedTuple

from analysis.figures.claims import Claim, MeasuredRun, Runs
from runfiles.format import Medium
from scenarios import Scenario, Time, Variant, Workload
from topologies import clusters

MEDIA: tuple[Medium, ...] = ("unicast", "multicast")
CLUSTERS, SIZE = 3, 2
FORMED_S = 2.0
"""The ring is formed by then, and the token goes round."""
NEAR = 0.1
"""A figure is as theory says if it differs by less than this share: a token may be under way at either end of the interval."""


class Turns(NamedTuple):
    """The rotations of the token while messages were sent."""

    messages: frozenset[tuple[str, int]]
    per_rotation: float
    """M."""
    rotation_ms: float


def scenario(delay: Time = 20.0, interval: Time = 5.0) -> list[Variant]:
    """A steady stream, on either medium with agreed delivery, and with safe delivery.

    delay: the delay of expensive links, L
    interval: the time between two broadcasts
    """
    network = clusters(CLUSTERS, SIZE, "mesh", delay_ms=delay)
    messages = round(2 * FORMED_S * 1000 / interval)
    asked = Scenario(
        network=network, sources=network.hosts, workload=Workload(messages=messages, interval=interval, settle=3000.0)
    )
    kinds = ((f"agreed-{medium}", medium, "agreed") for medium in MEDIA)
    return [
        Variant(label, asked, "totem", {"delivery": delivery}, medium=medium)
        for label, medium, delivery in (*kinds, ("safe-unicast", "unicast", "safe"))
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """Packets and delay of each run, with M measured."""
    found = {run.label: _turns(run) for run in runs}
    for run in runs:
        turns = found[run.label]
        if turns is None:
            yield Claim("totem", f"{run.label}: the token goes round while messages are sent", None, "it was not seen")
            continue
        yield from _costs(run, turns)
        if run.summary.medium == "unicast":
            yield _delay(run, turns)


def _turns(run: MeasuredRun) -> Turns | None:
    """How often the first host had the token once the ring was formed."""
    first = run.network.hosts[0]
    held_s = [
        run.at_s(line.at_ns)
        for line in run.logged("token")
        if line.host == first and line.details["held"] and FORMED_S <= run.at_s(line.at_ns) <= run.stream_end_s
    ]
    if len(held_s) < 2:
        return None
    messages = frozenset(b.message for b in run.broadcasts if held_s[0] <= run.at_s(b.at_ns) < held_s[-1])
    rotations = len(held_s) - 1
    return Turns(messages, len(messages) / rotations, 1000 * (held_s[-1] - held_s[0]) / rotations)


def _costs(run: MeasuredRun, turns: Turns) -> Iterator[Claim]:
    """Packets of each message and of the token, from the packets themselves."""
    n, k, m = len(run.network.hosts), len(run.network.clusters), turns.per_rotation
    alone = run.summary.medium == "unicast"
    sent = run.data_packets()
    each = sum(sent[message] for message in turns.messages) / len(turns.messages)
    tokens = run.packets_for("control", run.stream_end_s) - run.packets_for("control", FORMED_S)
    during = sum(FORMED_S <= run.at_s(b.at_ns) <= run.stream_end_s for b in run.broadcasts)
    packets, theory = each + tokens / during, (n - 1 if alone else 1) + n / m
    text = f"{run.label}: packets with each message: {'(n - 1)' if alone else '1'} + n/M"
    yield Claim(
        "totem", text, abs(packets - theory) <= NEAR * n / m, f"{packets:.3f} a message, {theory:.3f} by theory; M = {m:.1f}"
    )
    if alone:
        data = run.expensive_packets(turns.messages)["data"] / len(turns.messages)
        tokens = run.expensive_between(FORMED_S, run.stream_end_s)["control"]
        packets, theory = data + tokens / during, n - n // k + k / m
        text = f"{run.label}: expensive ones: (n - s) + k/M"
        yield Claim("totem", text, abs(packets - theory) <= NEAR * k / m, f"{packets:.3f} a message, {theory:.3f} by theory")


def _delay(run: MeasuredRun, turns: Turns) -> Claim:
    """The mean time until the last host delivers."""
    latency_ms = max(link.delay_ms for link in run.network.links)
    took = run.last_ms()
    mean = sum(took[message] for message in turns.messages) / len(turns.messages)
    half = turns.rotation_ms / 2 + latency_ms
    told = f"{mean:.1f} ms on average, with rotations of {turns.rotation_ms:.1f} ms and L = {latency_ms:g} ms"
    if run.label.startswith("safe"):
        text = f"{run.label}: the last host delivers within half a rotation, L, and two rotations more"
        return Claim("totem", text, half < mean <= half + 2 * turns.rotation_ms, told)
    text = f"{run.label}: the last host delivers after half a rotation and L on average, within a tenth"
    return Claim("totem", text, abs(mean - half) <= NEAR * half, told)
