#!./castbed run
"""A site fails and the others go on: Figures 7.1 to 7.4 replayed, with non-atomic delivery in the propagation graph (third paper, 7.1.1).

h1 to h5 are the paper's a to e; h6 sends and is in no group. c passes messages on to d and e. The last messages do not get through to d and
e: e has alpha-1 and alpha-2, d has beta-1 too (Figure 7.1). c delivers beta-2, alpha-3 and beta-3, and fails. The others form a graph
without c (Figure 7.2) and deliver what one of them has (Figure 7.3); then h6 submits beta-2 and beta-3 again (Figure 7.4).

c comes back after alpha-4. As a new member it starts over; with rollback it takes back what it delivered in the wrong place.

In a third run c fails while h6 sends all the time, to measure how long the others wait: P2 and Q1 for one failure (section 7.2.2).
"""

from collections.abc import Iterator
from itertools import combinations

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from scenarios.faults import Crash, LinkChange, Restart, Trigger
from scenarios.scenario import Broadcast
from topologies import clusters

GROUPS = (Group("alpha", ("h1", "h2", "h3", "h4", "h5")), Group("beta", ("h3", "h4", "h5")), Group("gamma", ("h1", "h2")))
MessageId = tuple[str, int]
SOURCE, FAILS = "h6", "h3"
STEP_MS = 400.0
# Longer than d and e hear nothing.
WATCH = {"period_ms": 500.0, "timeout_ms": 3000.0, "longest_timeout_ms": 6000.0}
PROCESS_MS, NETWORK_MS = 20.0, 150.0
SENT = ("gamma-1", "alpha-1", "alpha-2", "beta-1", "beta-2", "alpha-3", "beta-3", "alpha-4", "alpha-5")
"""What h6 sends; the number of a message at h6 is its place here, from 1."""
AT_MS = {name: place * STEP_MS for place, name in enumerate(SENT[:7])} | {"alpha-4": 9000.0, "alpha-5": 17_000.0}
TAIL = ["beta-2", "alpha-3", "beta-3"]
FIGURE_7_1 = {
    "h1": ["gamma-1", "alpha-1", "alpha-2", "alpha-3"],
    "h2": ["gamma-1", "alpha-1", "alpha-2", "alpha-3"],
    FAILS: ["alpha-1", "alpha-2", "beta-1", *TAIL],
    "h4": ["alpha-1", "alpha-2", "beta-1"],
    "h5": ["alpha-1", "alpha-2"],
}
FIGURE_7_4 = ["alpha-1", "alpha-2", "beta-1", "alpha-3", "beta-2", "beta-3"]
STRICT, OPERATIONAL, ROLLBACK = (
    Order(Scope.MULTIPLE_GROUP, strength) for strength in (Strength.STRICT, Strength.OPERATIONAL, Strength.ROLLBACK)
)


def scenario() -> list[Variant]:
    """The same failure twice: c recovers as a new member, and with rollback."""
    script = tuple(Broadcast(at_ms=AT_MS[name], source=SOURCE, to=name.partition("-")[0]) for name in SENT)
    faults = (
        # Nothing reaches e after alpha-2 and d after beta-1, until c has failed.
        LinkChange(at_ms=AT_MS["beta-1"] - STEP_MS / 2, link="s1-s5", towards="s5", loss=1.0),
        LinkChange(at_ms=AT_MS["beta-2"] - STEP_MS / 2, link="s1-s4", towards="s4", loss=1.0),
        Crash(host=FAILS, when=Trigger("deliver", host=FAILS, origin=SOURCE, sequence=SENT.index("beta-3") + 1)),
        LinkChange(at_ms=AT_MS["beta-3"] + STEP_MS / 2, link="s1-s4", towards="s4", loss=0.0),
        LinkChange(at_ms=AT_MS["beta-3"] + STEP_MS / 2, link="s1-s5", towards="s5", loss=0.0),
        Restart(at_ms=10_000.0, host=FAILS),
    )
    figure = Scenario(
        network=clusters(6, 1, "star"), script=script, groups=GROUPS, faults=faults, workload=Workload(settle=6000.0)
    )
    settings = {"failures": "non-atomic", **WATCH}
    stream = Scenario(
        network=clusters(6, 1, "star"),
        sources=(SOURCE,),
        groups=GROUPS,
        faults=(Crash(at_ms=1000.0, host=FAILS),),
        workload=Workload(messages=60, interval=50.0, settle=8000.0),
    )
    return [
        *(
            Variant(recover, figure, "propagation-graph", {**settings, "recover": recover})
            for recover in ("new-member", "rollback")
        ),
        Variant("stream", stream, "propagation-graph", settings),
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """The histories of the figures, which order holds, who is involved, and what c does when it is back."""
    for run in runs:
        if run.label == "stream":
            yield from _waits(run)
            continue
        failed_s = run.faults("crash")[0][0]
        yield _same(
            "Figure 7.1",
            f"{run.label}: the histories when c fails",
            FIGURE_7_1,
            {host: _log(run, host, until_s=failed_s) for host in FIGURE_7_1},
        )
        later = {host: _log(run, host, until_s=(AT_MS["alpha-4"] - STEP_MS) / 1000) for host in ("h4", "h5")}
        yield _same(
            "Figure 7.4", f"{run.label}: d and e deliver beta-2 and beta-3 after alpha-3", dict.fromkeys(later, FIGURE_7_4), later
        )
        yield kept("R1", run, STRICT, expected=False)
        yield kept("R2", run, OPERATIONAL, expected=True)
        yield _only_c(run)
        taken_back = [_name(one.message) for one in run.history.taken_back]
        log = _log(run, FAILS)
        if run.label == "rollback":
            yield kept("R3", run, ROLLBACK, expected=True)
            text = "rollback: c takes back beta-3, alpha-3 and beta-2, and has in the end what d has"
            yield Claim(
                "7.1.1", text, taken_back == TAIL[::-1] and log == _log(run, "h4"), f"{', '.join(taken_back)}; {', '.join(log)}"
            )
        else:
            text = "new-member: c takes nothing back, and starts over with alpha-5"
            yield Claim("7.1.1", text, not taken_back and log == [*FIGURE_7_1[FAILS], "alpha-5"], ", ".join(log))


def _waits(run: MeasuredRun) -> Iterator[Claim]:
    """P2 and Q1 for one failure. All hosts but c are up and reach each other all the time.

    Somebody notices the failure after the time-out and two periods at most, five messages in a row form a graph, and a message that only c
    had enters it and passes n hosts, each of which takes phi_P + phi_N.
    """
    n, detection_ms = len(GROUPS[0].members), WATCH["timeout_ms"] + 2 * WATCH["period_ms"]
    bound_ms = detection_ms + (5 + n) * (PROCESS_MS + NETWORK_MS) + PROCESS_MS
    delivered: dict[MessageId, list[int]] = {}
    for one in run.history.deliveries:
        if one.host != FAILS:
            delivered.setdefault(one.message, []).append(one.at_ns)
    sent, destinations = run.history.broadcast_at, run.history.destinations
    lost = sum(
        len(delivered.get(message, ())) < len([host for host in destinations[message] if host != FAILS]) for message in sent
    )
    since_broadcast = max((at_ns[-1] - sent[message]) / 1e6 for message, at_ns in delivered.items())
    since_first = max((at_ns[-1] - at_ns[0]) / 1e6 for at_ns in delivered.values())
    for name, longest_ms in (("P2", since_broadcast), ("Q1", since_first)):
        text = f"{name} for one failure: every host but c delivers within {bound_ms:g} ms"
        yield Claim("7.2.2", text, not lost and longest_ms <= bound_ms, f"{longest_ms:.0f} ms at most, {lost} messages missing")


def _name(message: MessageId) -> str:
    return SENT[message[1] - 1]


def _log(run: MeasuredRun, host: str, until_s: float = float("inf")) -> list[str]:
    """What stands at a host at some time, in order."""
    marks = [(mark.place, mark, True) for mark in run.history.taken_back if mark.host == host]
    marks += [(mark.place, mark, False) for mark in run.history.deliveries if mark.host == host]
    log: list[str] = []
    for _, mark, is_taken_back in sorted(marks, key=lambda item: item[0]):
        if run.at_s(mark.at_ns) <= until_s:
            log = [name for name in log if name != _name(mark.message)]
            log += [] if is_taken_back else [_name(mark.message)]
    return log


def _same(number: str, text: str, expected: dict[str, list[str]], found: dict[str, list[str]]) -> Claim:
    wrong = next((host for host in expected if found[host] != expected[host]), "")
    host = wrong or next(iter(expected))
    return Claim(number, text, not wrong, f"{host}: {', '.join(found[host])}")


def _only_c(run: MeasuredRun) -> Claim:
    """Whether all hosts that delivered two messages in different orders, at their first delivery, include c."""
    logs: dict[str, list[MessageId]] = {}
    for delivery in run.history.deliveries:
        log = logs.setdefault(delivery.host, [])
        if delivery.message not in log:
            log.append(delivery.message)
    disagree = [pair for pair in combinations(logs, 2) if _differ(logs[pair[0]], logs[pair[1]])]
    text = f"{run.label}: only c is involved"
    figure = ", ".join(" and ".join(pair) for pair in disagree) or "nobody disagrees"
    return Claim("7.1.1", text, bool(disagree) and all(FAILS in pair for pair in disagree), figure)


def _differ(one: list[MessageId], other: list[MessageId]) -> bool:
    return [message for message in one if message in other] != [message for message in other if message in one]
