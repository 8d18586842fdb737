#!./castbed run
"""What each level of the fan gives up: one message is lost on its way to a host, and another host is down for a while (third paper).

The link to h3 is down when the fifth message is sent. h4 crashes when it has delivered the tenth message, and restarts when the fifteenth
is broadcast. Level 0 misses what is lost. Level 1 waits for the lost message for ever. Level 2 asks for it, and gives up what was sent
while it was down. Level 3 gives up nothing.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Order, Scope, Strength
from scenarios import Scenario, Variant, Workload
from scenarios.faults import Crash, Restart, Trigger
from scenarios.scenario import pulled
from topologies import clusters

SOURCE, LOSER, SLEEPER = "h1", "h3", "h4"
LOST, LAST_BEFORE, BACK_AT = 5, 10, 15
MESSAGES, INTERVAL_MS = 30, 200.0
IN_ORDER = Order(Scope.SINGLE_SOURCE, Strength.STRICT)


def scenario() -> list[Variant]:
    """A star of four hosts, once with each level."""
    lost_ms = (LOST - 1) * INTERVAL_MS
    faults = (
        *pulled("s1-s3", lost_ms - INTERVAL_MS / 2, lost_ms + INTERVAL_MS / 2),
        Crash(host=SLEEPER, when=Trigger("deliver", host=SLEEPER, sequence=LAST_BEFORE)),
        Restart(host=SLEEPER, when=Trigger("broadcast", host=SOURCE, sequence=BACK_AT)),
    )
    stream = Workload(messages=MESSAGES, interval=INTERVAL_MS, settle=3000.0)
    scenario = Scenario(network=clusters(4, 1, "star"), faults=faults, workload=stream)
    return [Variant(f"level-{level}", scenario, "fan", {"level": level}) for level in range(4)]


def claims(runs: Runs) -> Iterator[Claim]:
    """What the two hosts lack, level by level, that the order is kept from level 1 on, and the longest times against their bounds."""
    for run in runs:
        level = run.summary.parameters["level"]
        lost, missed = _lacking(run, LOSER), _lacking(run, SLEEPER)
        lacks = {0: [LOST], 1: list(range(LOST, MESSAGES + 1))}.get(level, [])
        yield Claim(f"level {level}", _said(run, LOSER, lacks), lost == lacks, _told(lost))
        if level == 3:
            yield Claim("level 3", f"{run.label}: {SLEEPER} has everything", not missed, _told(missed))
        else:
            text = f"{run.label}: {SLEEPER} lacks messages that were sent while it was down, and no others"
            yield Claim(f"level {level}", text, bool(missed) and _is_gap(missed), _told(missed))
        if level:
            yield kept(f"level {level}", run, IN_ORDER, expected=True)
        for bound in run.input.run.promise.time_bounds:
            yield kept("bounds", run, bound, expected=True)


def _lacking(run: MeasuredRun, host: str) -> list[int]:
    """The numbers of the messages that a host never delivered."""
    has = {sequence for _, sequence in run.delivered()[host]}
    return [number for number in range(1, MESSAGES + 1) if number not in has]


def _is_gap(numbers: list[int]) -> bool:
    """Whether these are all messages from the crash to some message soon after the restart."""
    first, last = LAST_BEFORE + 1, numbers[-1]
    return numbers == list(range(first, last + 1)) and BACK_AT - 1 <= last < BACK_AT + 5


def _said(run: MeasuredRun, host: str, lacks: list[int]) -> str:
    return f"{run.label}: {host} lacks {_told(lacks)}"


def _told(numbers: list[int]) -> str:
    if not numbers:
        return "nothing"
    return f"message {numbers[0]}" if len(numbers) == 1 else f"messages {numbers[0]} to {numbers[-1]} ({len(numbers)})"
