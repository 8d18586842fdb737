"""The fast checkers of order against their definitions, taken word by word, on small random histories; and on a large one."""

from itertools import combinations, permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.judging.connectivity import Connectivity
from analysis.judging.history import BroadcastEvent, Delivery, History
from analysis.judging.judge import Verdict, check_of
from hostagent.contract.messages import LISTED
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from runfiles.format import FaultRecord
from tests.analysis.cast import CAUSAL, MULTIPLE_GROUP, MULTIPLE_SOURCE, SINGLE_SOURCE
from tests.analysis.stage import promise, star

HOSTS = ("h1", "h2", "h3", "h4")
NETWORK = Connectivity(star(4))


@st.composite
def histories(draw) -> History:
    """Up to six messages of two groups, broadcast and delivered at any times, each host with its own selection and order."""
    origins = draw(st.lists(st.sampled_from(HOSTS[:3]), min_size=1, max_size=6))
    broadcasts = [
        BroadcastEvent(10 * number, origin, origins[: number + 1].count(origin), draw(st.integers(0, 1)), 20 * number)
        for number, origin in enumerate(origins)
    ]
    deliveries = []
    for host in HOSTS:
        chosen = draw(st.permutations(broadcasts))[: draw(st.integers(0, len(broadcasts)))]
        if draw(st.booleans()):
            chosen = sorted(chosen)
        times = sorted(draw(st.lists(st.integers(0, 80), min_size=len(chosen), max_size=len(chosen))))
        deliveries += [_delivery(draw, host, at_ns, one, broadcasts) for at_ns, one in zip(times, chosen, strict=True)]
    return History(HOSTS, tuple(broadcasts), tuple(sorted(deliveries, key=lambda one: one.at_ns)), 100)


def _delivery(draw, host: str, at_ns: int, one: BroadcastEvent, broadcasts: list[BroadcastEvent]) -> Delivery:
    """A log has two lines for every nanosecond: at the instant of its own broadcast, a host may deliver before it or after it."""
    now = next((broadcast for broadcast in broadcasts if broadcast.at_ns == at_ns), None)
    if now and now.origin != host:
        at_ns += 1  # Nothing arrives at the instant at which another host sends it.
    line = 2 * at_ns + (1 if now == one else draw(st.sampled_from((-1, 1))))
    return Delivery(at_ns, host, one.origin, one.sequence, one.group, line)


def orders(history: History) -> dict[str, list]:
    return {host: [one.message for one in history.deliveries if one.host == host] for host in HOSTS}


def in_order(log: list, one, two) -> bool | None:
    return log.index(one) < log.index(two) if one in log and two in log else None


def disagree(history: History, together) -> bool:
    """Two hosts, two messages that belong together, two orders."""
    logs, messages = orders(history), [one.message for one in history.broadcasts]
    return any(
        {in_order(logs[a], one, two), in_order(logs[b], one, two)} == {True, False}
        for a, b in combinations(HOSTS, 2)
        for one, two in combinations(messages, 2)
        if together(one, two)
    )


def happened_before(history: History) -> set:
    """Lamport's relation between messages, closed step by step."""
    pairs = set()
    for one, two in permutations(history.broadcasts, 2):
        delivered = any(
            d.host == two.origin and d.message == one.message and d.position < two.position and d.at_ns >= one.at_ns
            for d in history.deliveries
        )
        if delivered or (one.origin == two.origin and one.sequence < two.sequence):
            pairs.add((one.message, two.message))
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs |= more
    return pairs


def judged(order, history: History) -> tuple[Verdict, int]:
    finding = check_of(order)(history, promise(), NETWORK)
    return finding.verdict, finding.cases


def expected(broken: bool, cases: int) -> tuple[Verdict, int]:
    return Verdict.VIOLATED if broken else Verdict.HOLDS if cases else Verdict.NOT_TESTED, cases


def comparable(history: History, groups) -> int:
    """Pairs of hosts that delivered the same two messages, in each group of messages."""
    logs = orders(history)
    return sum(len(group & {*logs[a]} & {*logs[b]}) >= 2 for group in groups for a, b in combinations(HOSTS, 2))


@settings(max_examples=400, deadline=None)
@given(histories())
def test_single_source_order_is_what_its_definition_says(history):
    group = {one.message: one.group for one in history.broadcasts}
    broken = any(
        in_order(log, (origin, late), (origin, early)) and group[origin, late] == group[origin, early]
        for log in orders(history).values()
        for origin in HOSTS
        for early in range(1, 7)
        for late in range(early + 1, 7)
    )
    cases = sum(
        any(group[before] == group[one] and before[0] == one[0] for before in log[:place])
        for log in orders(history).values()
        for place, one in enumerate(log)
    )
    assert judged(SINGLE_SOURCE, history) == expected(broken, cases)


@settings(max_examples=400, deadline=None)
@given(histories())
def test_multiple_source_order_is_what_its_definition_says(history):
    group = {one.message: one.group for one in history.broadcasts}
    broken = disagree(history, lambda one, two: group[one] == group[two])
    cases = comparable(history, [{message for message in group if group[message] == number} for number in (0, 1)])
    assert judged(MULTIPLE_SOURCE, history) == expected(broken, cases)


@settings(max_examples=400, deadline=None)
@given(histories())
def test_multiple_group_order_is_what_its_definition_says(history):
    cases = comparable(history, [{one.message for one in history.broadcasts}])
    assert judged(MULTIPLE_GROUP, history) == expected(disagree(history, lambda _one, _two: True), cases)


@settings(max_examples=400, deadline=None)
@given(histories())
def test_causal_order_is_what_its_definition_says(history):
    before = happened_before(history)
    broken = any(in_order(log, effect, cause) for log in orders(history).values() for cause, effect in before)
    cases = sum(any((cause, effect) in before for cause in log) for log in orders(history).values() for effect in log)
    assert judged(CAUSAL, history) == expected(broken, cases)


def failing(seed: int) -> tuple[History, dict[str, tuple[int, bool]]]:
    """Four messages, each host with its own order and times; when each host that crashes does so, and whether it comes back at once."""
    random = Random(seed)
    sent = [BroadcastEvent(0, host, number, random.randrange(2)) for host in HOSTS[:2] for number in (1, 2)]
    deliveries = []
    for host in HOSTS[:3]:
        begin = random.choice((0, 20, 40))
        at = sorted(random.sample(range(begin, begin + 40), 4))
        order = random.sample(sent, 4) if random.random() < 0.5 else sent
        deliveries += [Delivery(at_ns, host, *one.message) for at_ns, one in zip(at, order, strict=True)]
    history = History(HOSTS, tuple(sent), tuple(sorted(deliveries)), 100)
    return history, {
        host: (random.randrange(80), random.random() < 0.5) for host in random.sample(HOSTS[:3], random.randrange(3))
    }


def crashing(crashed: dict[str, tuple[int, bool]]) -> Connectivity:
    faults = []
    for host, (at_ns, returns) in crashed.items():
        faults.append(FaultRecord(fault="crash", target=host, asked_ns=at_ns, applied_ns=at_ns))
        if returns:
            faults.append(FaultRecord(fault="restart", target=host, asked_ns=at_ns + 1, applied_ns=at_ns + 1))
    return Connectivity(star(4), faults, 100)


def forgiven(strength, crashed) -> dict[str, int]:
    """The crashes that count. Without patience, a host that is back has recovered."""
    counts = {Strength.STRICT: (), Strength.OPERATIONAL: (True, False), Strength.ROLLBACK: (False,)}[strength]
    return {host: at_ns for host, (at_ns, returns) in crashed.items() if returns in counts}


def times(history: History) -> dict:
    return {(one.host, one.message): one.at_ns for one in history.deliveries}


@pytest.mark.parametrize("one_group", [True, False])
@pytest.mark.parametrize("strength", Strength)
def test_hosts_that_crash_are_forgiven_what_the_third_paper_says(strength, one_group):
    """R1, R2 and R3 of section 6.3, taken word by word."""
    order = Order(Scope.MULTIPLE_SOURCE if one_group else Scope.MULTIPLE_GROUP, strength)
    broken = {seed: disorder(*failing(seed), strength, one_group) for seed in range(150)}
    assert {True, False} == {*broken.values()}
    for seed, expected_verdict in broken.items():
        history, crashed = failing(seed)
        found = check_of(order)(history, promise(0.0), crashing(crashed)).verdict is Verdict.VIOLATED
        assert found == expected_verdict, seed


def disorder(history, crashed, strength, one_group) -> bool:
    """Whether two hosts disagree, and neither lost one of the messages in a crash."""
    logs, at, failed = orders(history), times(history), forgiven(strength, crashed)
    group = {one.message: one.group for one in history.broadcasts}

    def lost(host, other, message):
        return host in failed and at[host, message] <= failed[host] < at[other, message]

    return any(
        in_order(logs[a], m, n) and in_order(logs[b], n, m) and not lost(b, a, m) and not lost(a, b, n)
        for a, b in permutations(HOSTS, 2)
        for m, n in permutations(group, 2)
        if not one_group or group[m] == group[n]
    )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("strength", Strength)
def test_what_comes_too_late_is_forgiven_if_its_host_crashed_before_anybody_else_had_it(strength, causal):
    order = Order(Scope.CAUSAL if causal else Scope.SINGLE_SOURCE, strength)
    broken = {seed: late(*failing(seed), strength, causal) for seed in range(150)}
    assert {True, False} == {*broken.values()}
    for seed, expected_verdict in broken.items():
        history, crashed = failing(seed)
        found = check_of(order)(history, promise(0.0), crashing(crashed)).verdict is Verdict.VIOLATED
        assert found == expected_verdict, seed


def late(history, crashed, strength, causal) -> bool:
    """Whether a host delivers a message too late, and did not lose it in a crash."""
    logs, at, failed = orders(history), times(history), forgiven(strength, crashed)
    group = {one.message: one.group for one in history.broadcasts}
    fifo = {(a, b) for a, b in permutations(group, 2) if a[0] == b[0] and a[1] < b[1] and group[a] == group[b]}

    def lost(host, message):
        elsewhere = [at[other, message] for other in HOSTS if other != host and (other, message) in at]
        return host in failed and at[host, message] <= failed[host] < min(elsewhere, default=100)

    return any(
        in_order(log, later, earlier) and not lost(host, earlier)
        for host, log in logs.items()
        for earlier, later in (happened_before(history) if causal else fifo)
    )


@settings(max_examples=60, deadline=None)
@given(histories())
def test_one_global_order_is_what_its_definition_says_and_its_circle_is_the_shortest(history):
    logs = orders(history)
    before = {(one, two) for log in logs.values() for one, two in combinations(log, 2)}
    ways, length = set(before), 1
    while ways and not any(one == two for one, two in ways) and length <= 6:
        ways, length = {(a, d) for a, b in ways for c, d in before if b == c}, length + 1
    circle = any(one == two for one, two in ways)
    finding = check_of(Guarantee.ACYCLIC_ORDER)(history, promise(), NETWORK)
    assert (finding.verdict is Verdict.VIOLATED, len(finding.events)) == (circle, 2 * length if circle else 0)


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_no_gaps_is_what_its_definition_says(history, data):
    to = st.lists(st.sampled_from(HOSTS), min_size=1, unique=True).map(tuple)
    history = history._replace(broadcasts=tuple(one._replace(to=data.draw(to)) for one in history.broadcasts))
    logs, group = orders(history), {one.message: one.group for one in history.broadcasts}
    broken = any(
        in_order(logs[other], a, b) and host in history.destinations[a] and host in history.destinations[b]
        and b in logs[host] and not in_order(logs[host], a, b)
        for host, other in permutations(HOSTS, 2)
        for a, b in permutations(group, 2)
        if group[a] == group[b]
    )  # fmt: skip
    assert (check_of(Guarantee.NO_GAPS)(history, promise(), NETWORK).verdict is Verdict.VIOLATED) == broken


def log(host: str, *messages: str) -> list[Delivery]:
    return [Delivery(at_ns, host, message, 1) for at_ns, message in enumerate(messages)]


def test_three_hosts_in_a_circle_do_not_disagree_as_no_two_share_two_messages():
    deliveries = (*log("h1", "h1", "h2"), *log("h2", "h2", "h3"), *log("h3", "h3", "h1"))
    circle = History(HOSTS, tuple(BroadcastEvent(0, host, 1) for host in HOSTS[:3]), deliveries, 100)
    assert judged(MULTIPLE_GROUP, circle) == (Verdict.NOT_TESTED, 0)
    assert judged(Guarantee.ACYCLIC_ORDER, circle) == (Verdict.VIOLATED, 3)


def test_a_strict_order_forbids_a_take_back_and_a_looser_one_forgets_what_was_taken_back():
    """h1 delivers the messages of h1 and h2, h2 the other way round; h2 takes one back, and may deliver it again."""
    sent = tuple(BroadcastEvent(0, host, 1) for host in HOSTS[:2])
    wrong = Delivery(0, "h2", "h2", 1, position=1)
    both = (*log("h1", "h1", "h2"), wrong, Delivery(1, "h2", "h1", 1, position=2))
    taken_back = History(HOSTS, sent, both, 100, taken_back=(wrong._replace(at_ns=2, position=3),))
    again = taken_back._replace(deliveries=(*both, wrong._replace(at_ns=3, position=4)))
    for history, looser in ((taken_back, Verdict.NOT_TESTED), (again, Verdict.HOLDS)):
        for strength in (Strength.OPERATIONAL, Strength.ROLLBACK):
            assert judged(Order(Scope.MULTIPLE_SOURCE, strength), history)[0] is looser
        assert judged(MULTIPLE_SOURCE, history)[0] is Verdict.VIOLATED
    alone = taken_back._replace(deliveries=(wrong,))
    assert check_of(SINGLE_SOURCE)(alone, promise(), NETWORK).reason == (
        "h2 took back message 1 of h2 at 0.000 s, which strict order forbids"
    )


def test_a_host_that_has_just_come_back_may_still_take_back_what_it_delivered():
    crashed = {"h2": (5, True)}
    deliveries = (*log("h2", "h2", "h1"), *(one._replace(at_ns=10) for one in log("h1", "h1", "h2")))
    history = History(HOSTS, tuple(BroadcastEvent(0, host, 1) for host in HOSTS[:2]), deliveries, 100)
    order = Order(Scope.MULTIPLE_SOURCE, Strength.ROLLBACK)
    finding = check_of(order)(history, promise(patience_ms=1.0), crashing(crashed))
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.reason.endswith(": too soon to tell")
    assert check_of(order)(history, promise(patience_ms=0.0), crashing(crashed)).verdict is Verdict.VIOLATED


def test_messages_to_listed_hosts_are_in_one_group_if_they_are_for_the_same_hosts():
    for lists, verdict in (((HOSTS[:2], HOSTS[:2]), Verdict.VIOLATED), ((HOSTS[:2], HOSTS[:3]), Verdict.NOT_TESTED)):
        sent = tuple(BroadcastEvent(0, host, 1, LISTED, 0, to) for host, to in zip(HOSTS[:2], lists, strict=True))
        history = History(HOSTS, sent, (*log("h1", "h1", "h2"), *log("h2", "h2", "h1")), 100)
        assert judged(MULTIPLE_SOURCE, history)[0] is verdict
        assert judged(MULTIPLE_GROUP, history)[0] is Verdict.VIOLATED


def big(hosts: int, messages: int) -> History:
    """Half of the hosts broadcast twice, and every host delivers every message in one order, each with a few missing."""
    random = Random(1)
    names = tuple(f"h{n}" for n in range(1, hosts + 1))
    broadcasts = tuple(BroadcastEvent(n, names[n % (hosts // 2)], n // (hosts // 2) + 1) for n in range(messages))
    missing = {host: random.randrange(messages) for host in names}
    deliveries = tuple(
        Delivery(messages + n, host, one.origin, one.sequence)
        for n, one in enumerate(broadcasts)
        for host in names
        if missing[host] != n
    )
    return History(names, broadcasts, deliveries, 3 * messages)


def test_in_a_large_run_one_delivery_out_of_place_is_found():
    """`benchmarks/checkers.py` measures how long a run of 600,000 deliveries takes."""
    history, network = big(200, 200), Connectivity(star(200))
    last = history.deliveries[-1]
    swapped = history._replace(deliveries=(last._replace(at_ns=history.deliveries[0].at_ns), *history.deliveries[:-1]))
    for order in (SINGLE_SOURCE, MULTIPLE_SOURCE, MULTIPLE_GROUP, CAUSAL):
        assert check_of(order)(history, promise(), network).verdict is Verdict.HOLDS
    assert check_of(MULTIPLE_GROUP)(swapped, promise(), network).verdict is Verdict.VIOLATED
