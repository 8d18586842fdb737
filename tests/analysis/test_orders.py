"""The fast checkers of order against their definitions, taken word by word, on small random histories; and how fast they are."""

from itertools import combinations, permutations
from random import Random
from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.judging.connectivity import Connectivity
from analysis.judging.history import BroadcastEvent, Delivery, History
from analysis.judging.judge import Verdict, check_of
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


def log(host: str, *messages: str) -> list[Delivery]:
    return [Delivery(at_ns, host, message, 1) for at_ns, message in enumerate(messages)]


def test_three_hosts_in_a_circle_do_not_disagree_as_no_two_share_two_messages():
    deliveries = (*log("h1", "h1", "h2"), *log("h2", "h2", "h3"), *log("h3", "h3", "h1"))
    circle = History(HOSTS, tuple(BroadcastEvent(0, host, 1) for host in HOSTS[:3]), deliveries, 100)
    assert judged(MULTIPLE_GROUP, circle) == (Verdict.NOT_TESTED, 0)


def big(hosts: int = 1000, messages: int = 1000) -> History:
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


def test_a_thousand_hosts_with_a_thousand_messages_are_checked_in_seconds():
    history, network = big(), Connectivity(star(1000))
    last = history.deliveries[-1]
    swapped = history._replace(deliveries=(last._replace(at_ns=history.deliveries[0].at_ns), *history.deliveries[:-1]))
    for order in (SINGLE_SOURCE, MULTIPLE_SOURCE, MULTIPLE_GROUP, CAUSAL):
        began = process_time()
        assert check_of(order)(history, promise(), network).verdict is Verdict.HOLDS
        assert process_time() - began < 30, order
    assert check_of(MULTIPLE_GROUP)(swapped, promise(), network).verdict is Verdict.VIOLATED
