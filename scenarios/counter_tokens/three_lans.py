#!./castbed run
"""Three LANs of two hosts, round trip 40 ms: expensive packets and delay of `counter`, `totem` and `sequencer` beside Spread and Corosync.

One host sends messages of 64 bytes, 20 and 200 in a second and at full speed, and then hardly any. It begins when rings have had time to
form, as Spread and Corosync had when they were measured in the same situation. From then on every packet that crosses an expensive link
counts, tokens and requests included. *Ahead* says of each protocol and speed which of the two it is ahead of. `counter` is ahead in packets
alone: what it delivers is safe, so a message waits until the token has been round with it, and a round takes three delays of 20 ms at the
least. `sequencer` orders at the source of all messages; anywhere else in another LAN it would cost an expensive packet more. Spread and
Corosync pack small messages, so run it with

    ./castbed run three_lans --on simulator --pack 25ms
    sudo ./castbed vm run three_lans --pack 25ms          # the delay needs netem
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from analysis.figures.claims import Claim, Entry, MeasuredRun, Runs, Table, kept
from hostagent.contract.promises import Order, Scope, Strength
from scenarios import Scenario, Share, Time, Variant, Workload
from topologies import clusters


class Measured(NamedTuple):
    """A production system at one speed."""

    packets: float
    """Expensive packets for each message."""
    delay_ms: float | None
    """The mean delay, which was measured at the two lower speeds."""


SPREAD: Final = {"20": Measured(4.09, 54.0), "200": Measured(0.57, 54.0), "full": Measured(0.24, None)}
COROSYNC: Final = {"20": Measured(5.77, 53.0), "200": Measured(1.22, 53.0), "full": Measured(0.78, None)}
IDLE_PER_SECOND: Final = 2.7
"""Expensive packets a second of an idle ring of Spread."""
SPEEDS: Final = {"20": (600, 50.0), "200": (3000, 5.0), "full": (10_000, 0.4)}
"""The number of messages and the milliseconds between two of them. 2,500 in a second is more than `counter` and `totem` are made for."""
IDLE: Final = (2, 30_000.0)
WARM_UP_S: Final = 8.0
"""In a virtual machine hosts start one after the other, and rings of some of them merge for some seconds."""
SETTLED_S: Final = 8.0
"""After this long nothing of the first message is left to do."""
PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    # What one host may send in a visit of the token or between two: the others are silent. No delay is lost if messages are sent right
    # before the token, and a token that all hear costs four expensive packets and not two.
    "counter": {"window": 400, "heard_by": "neighbours", "sends": "in turn", "token_owner_ms": 12.0},
    "totem": {"max_messages": 400},
    # Destinations say what they have eight times in a history; with 40 ms, messages wait half as long as a round trip.
    "sequencer": {"history": 4096, "gather_ms": 40.0},
}
ENOUGH: Final = 0.2
"""With a smaller part of the messages, what they cost is mostly the end of the run: that is compared with nobody."""
ONE_ORDER: Final = Order(Scope.MULTIPLE_SOURCE, Strength.STRICT)


def scenario(round_trip: Time = 40.0, part: Share = 1.0) -> list[Variant]:
    """Each protocol at each speed, with a part of the messages, and idle.

    round_trip: the round trip between two LANs
    part: the share of the messages to send: less for a quick look
    """
    network = clusters(3, 2, "mesh", delay_ms=round_trip / 2)
    streams = {speed: (round(part * messages), ms) for speed, (messages, ms) in SPEEDS.items()} | {"idle": IDLE}
    return [
        Variant(
            f"{name}-{speed}",
            Scenario(
                network=network,
                workload=Workload(messages=messages, interval=ms, payload=64, settle=4000.0, warm_up=1000 * WARM_UP_S),
            ),
            name,
            parameters,
        )
        for name, parameters in PARAMETERS.items()
        for speed, (messages, ms) in streams.items()
        if speed != "idle" or name != "sequencer"
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """One order in each run, what idle rings cost, and whom each protocol is ahead of at each speed."""
    for run in runs:
        speed = run.label.rsplit("-", 1)[1]
        yield kept("order", run, ONE_ORDER, expected=True)
        if speed in SPEEDS and len(run.broadcasts) >= ENOUGH * SPEEDS[speed][0]:
            yield from _ahead(run, "Spread", SPREAD[speed])
            yield from _ahead(run, "Corosync", COROSYNC[speed])
        if speed == "idle":
            rate = _idle_per_second(run)
            text = f"{run.label}: fewer than {IDLE_PER_SECOND:g} expensive packets a second, as with Spread"
            yield Claim("idle", text, rate < IDLE_PER_SECOND, f"{rate:.2f} a second")


def _ahead(run: MeasuredRun, system: str, measured: Measured) -> Iterator[Claim]:
    """Whether a protocol is ahead of a production system: in packets and, where that was measured, not later.

    Nobody can tell if not everything was delivered: what is still under way costs packets too.
    """
    share = run.summary.delivered_share or 0.0
    is_whole, lacking = share == 1.0, "" if share == 1.0 else f"; {share:.1%} delivered"
    packets = _packets(run)
    text = f"{run.label}: fewer expensive packets for each message than {system}"
    figure = f"{packets:.3f}, {system} {measured.packets:g}{lacking}"
    yield Claim("ahead", text, packets < measured.packets if is_whole else None, figure)
    if measured.delay_ms is not None:
        delay_ms = _delay_ms(run)
        text = f"{run.label}: no later than {system}, on average"
        figure = f"{delay_ms:.1f} ms, {system} {measured.delay_ms:g} ms{lacking}"
        yield Claim("ahead", text, delay_ms <= measured.delay_ms if is_whole else None, figure)


def _packets(run: MeasuredRun) -> float:
    """Expensive packets for each message, whatever they are for, from the first message on."""
    return sum(run.expensive_between(0.0).values()) / max(len(run.broadcasts), 1)


def _delay_ms(run: MeasuredRun) -> float:
    """The mean delay at the hosts that a message is delivered at."""
    took = run.table("deliveries")["delay_ms"].to_pylist()
    return float(sum(took) / max(len(took), 1))


def _idle_per_second(run: MeasuredRun) -> float:
    """Expensive packets a second between the two messages."""
    until_s = run.stream_end_s - 1
    return sum(run.expensive_between(SETTLED_S, until_s).values()) / (until_s - SETTLED_S)


def tables(runs: Runs) -> Iterator[Table]:
    """All protocols at all speeds."""
    rows: dict[str, dict[str, Entry]] = {}
    for run in runs:
        name, speed = run.label.rsplit("-", 1)
        if speed in SPREAD:
            spread, corosync, row = SPREAD[speed], COROSYNC[speed], rows.setdefault(name, {})
            beside = f"Spread {spread.packets:g}, Corosync {corosync.packets:g}"
            row[f"packets, {speed}"] = Entry(beside, _packets(run), min(spread.packets, corosync.packets))
            row[f"delay ms, {speed}"] = Entry(_told(spread, corosync), _delay_ms(run), corosync.delay_ms)
    yield Table("Three LANs", "Expensive packets for each message and mean delay, beside Spread and Corosync", rows)


def _told(spread: Measured, corosync: Measured) -> str:
    return (
        f"Spread {spread.delay_ms:g}, Corosync {corosync.delay_ms:g}" if spread.delay_ms and corosync.delay_ms else "not measured"
    )
