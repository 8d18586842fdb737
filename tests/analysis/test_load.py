"""What was offered, what was achieved, and what a run says when its sources fell behind."""

import pyarrow as pa
import pytest

from analysis.figures.load import Load, load
from analysis.judging.history import make

HOSTS = ("h1", "h2", "h3")
MS = 1_000_000


def measured(broadcasts, delivered, *, held_back=0, samples=(), unread=0):
    """`broadcasts` has the time and the lateness of each message in ms, `delivered` the host, number and time of each delivery."""
    events = [
        ("h1", n, at * MS, "broadcast", "h1", n, {"late_ms": late} if late else {}) for n, (at, late) in enumerate(broadcasts, 1)
    ]
    events += [(host, 100 + n, at * MS, "deliver", "h1", n, {}) for host, n, at in delivered]
    events += [(host, 200, at * MS, "sample", "", 0, {"sent": 0, "items": 0, "processor_ms": used}) for host, at, used in samples]
    if held_back:
        events.append(("h1", 300, 999_999 * MS, "held-back", "", 0, {"messages": held_back}))
    rows = [("h1", n, host, at * MS) for host, n, at in delivered]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, names=["origin", "sequence", "host", "delivered_ns"])
    return load(make(HOSTS, events, 1_000_000 * MS, ()), table, {"h1": {"overflowed": unread}, "h2": {}})


def everywhere(*times):
    return [(host, n, at) for n, at in enumerate(times, 1) for host in ("h2", "h3")]


def test_a_source_that_keeps_up_achieves_what_is_offered():
    found = measured([(0, 0), (10, 0), (20, 0)], everywhere(5, 15, 25))
    assert (found.offered_per_second, found.achieved_per_second) == (100, 100)
    assert (found.late_ms_p50, found.late_ms_p99, found.held_back, found.overruns) == (0, 0, 0, 0)
    assert found.remarks == ()


def test_a_source_that_falls_behind_says_so_and_what_it_was_offered():
    found = measured([(0, 0), (500, 490), (1000, 980)], everywhere(5, 505, 1005), held_back=7, unread=2)
    assert (found.offered_per_second, found.achieved_per_second) == (100, 2)
    (remark,) = found.remarks
    assert remark.startswith(
        "the sources fell behind: 100 messages a second offered, 2 achieved; messages left later than asked for"
    )
    assert "half of them more than 490 ms" in remark
    assert remark.endswith("7 messages were never broadcast; agents did not read 2 datagrams in time, which were lost")


def test_a_source_that_was_late_and_caught_up_has_not_fallen_behind():
    found = measured([(0, 0), (300, 290), (301, 281), (302, 272), (400, 0)], everywhere(5, 305, 306, 307, 405))
    assert (found.offered_per_second, found.achieved_per_second) == (10, 10)
    (remark,) = found.remarks
    assert remark == "messages left later than asked for: half of them more than 272 ms, 1 % more than 290 ms"


def test_only_messages_that_all_destinations_have_count_as_achieved():
    found = measured([(0, 0), (10, 0), (20, 0)], [*everywhere(5, 15), ("h2", 3, 25)])
    assert found.achieved_per_second == 100
    assert measured([(0, 0)], [("h2", 1, 25)]).achieved_per_second is None


def test_the_busiest_agent_is_the_one_that_used_most_between_the_first_broadcast_and_the_last_delivery():
    samples = [("h1", 0, 100), ("h1", 1000, 400), ("h2", 0, 50), ("h2", 1000, 950), ("h3", 0, 500), ("h3", 1000, 20)]
    found = measured([(100, 0), (200, 0)], everywhere(300, 900), samples=samples)
    assert (found.busiest_agent, found.busiest_agent_share) == ("h2", pytest.approx(0.9))


def test_a_simulated_run_has_no_busiest_agent():
    assert Load().busiest_agent_share is None
    assert measured([(0, 0), (10, 0)], everywhere(5, 15)).busiest_agent == ""


def test_a_run_says_that_agents_read_too_slowly_and_which_was_the_busiest():
    (sentence,) = Load(overruns=1234, busiest_agent="h3", busiest_agent_share=0.987).remarks
    assert (
        sentence == "agents did not read 1,234 datagrams in time, which were lost; the busiest agent, h3, used 99% of a processor"
    )
    assert not Load(busiest_agent="h3", busiest_agent_share=0.987).remarks
