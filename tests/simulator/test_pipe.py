"""One direction of a link: times by hand, shares by counting."""

from itertools import groupby
from random import Random

import pytest

from simulator.pipe import HEADERS_BYTES, Pipe
from topologies import Link

# With its headers a packet of 125 bytes, which takes a millisecond at 1 Mbit/s.
SIZE = 125 - HEADERS_BYTES
MS = 1_000_000


def pipe(**properties) -> Pipe:
    return Pipe(Link("s1", "s2", **properties), "s1", Random(1))


def fates(link: Pipe, count: int) -> list[bool]:
    """Whether each of many packets was lost."""
    return [not link.offer(0, SIZE) for _ in range(count)]


def test_a_link_without_properties_is_crossed_at_once():
    assert pipe().offer(5, SIZE) == (5,)


def test_a_packet_takes_its_bits_over_the_bandwidth_and_then_the_delay():
    assert pipe(bandwidth_mbit=1.0, delay_ms=20.0).offer(0, SIZE) == (21 * MS,)


def test_a_packet_waits_for_those_before_it():
    link = pipe(bandwidth_mbit=1.0)
    assert [link.offer(at, SIZE) for at in (0, 0, MS // 2, 10 * MS)] == [(MS,), (2 * MS,), (3 * MS,), (11 * MS,)]


def test_a_longer_packet_takes_longer():
    assert pipe(bandwidth_mbit=1.0).offer(0, 2 * 125 - HEADERS_BYTES) == (2 * MS,)


def test_a_queue_holds_its_packets_beside_the_one_that_is_being_sent():
    link = pipe(bandwidth_mbit=1.0, queue_packets=2)
    arrivals = []
    for _ in range(5):
        arrivals += link.offer(0, SIZE)
        link.dropped = None
    assert arrivals == [MS, 2 * MS, 3 * MS, 3 * MS, 3 * MS]
    assert (link.counts.carried, link.counts.overflowed, link.counts.lost) == (3, 2, 0)


def test_a_full_queue_drops_its_oldest_packet_and_what_is_behind_it_leaves_earlier():
    """As `pfifo_head_drop` does. The packet that is being sent is not in the queue."""
    link = pipe(bandwidth_mbit=1.0, queue_packets=2)
    sizes = [SIZE, 3 * 125 - HEADERS_BYTES, SIZE, 2 * 125 - HEADERS_BYTES]
    assert [link.offer(0, size) for size in sizes[:3]] == [(MS,), (4 * MS,), (5 * MS,)]
    oldest, behind = link.waiting
    assert link.offer(0, sizes[3]) == (4 * MS,)
    assert link.dropped is oldest
    assert behind.arrivals == (2 * MS,)
    assert [turn.arrivals for turn in link.waiting] == [(2 * MS,), (4 * MS,)]


def test_a_full_queue_has_room_again_when_a_packet_has_left():
    link = pipe(bandwidth_mbit=1.0, queue_packets=2)
    for _ in range(3):
        link.offer(0, SIZE)
    assert link.offer(MS, SIZE) == (4 * MS,)
    assert link.dropped is None
    assert link.offer(2 * MS - 1, SIZE) == (4 * MS,)
    assert link.counts.overflowed == 1


@pytest.mark.parametrize("loss", [0.01, 0.3, 0.9])
def test_loss_is_the_share_that_was_asked_for(loss):
    lost = fates(pipe(loss=loss), 20_000)
    assert sum(lost) / len(lost) == pytest.approx(loss, abs=0.01)


@pytest.mark.parametrize(("loss", "burst"), [(0.1, 5.0), (0.3, 3.0), (0.05, 10.0)])
def test_bursts_keep_the_mean_loss_and_have_the_mean_length(loss, burst):
    lost = fates(pipe(loss=loss, burst=burst), 200_000)
    lengths = [len(list(run)) for bad, run in groupby(lost) if bad]
    assert sum(lost) / len(lost) == pytest.approx(loss, rel=0.05)
    assert sum(lengths) / len(lengths) == pytest.approx(burst, rel=0.05)


def test_loss_too_high_for_short_bursts_is_kept_by_longer_ones():
    lost = fates(pipe(loss=0.9, burst=3.0), 50_000)
    assert sum(lost) / len(lost) == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("burst", [1.0, 4.0])
def test_a_link_that_loses_everything_loses_everything(burst):
    assert all(fates(pipe(loss=1.0, burst=burst), 1000))


def test_what_is_lost_takes_no_bandwidth():
    link = pipe(bandwidth_mbit=1.0, loss=1.0)
    link.offer(0, SIZE)
    link.change(Link("s1", "s2", bandwidth_mbit=1.0))
    assert link.offer(0, SIZE) == (MS,)


def test_duplicates_arrive_twice_and_are_sent_once():
    link = pipe(bandwidth_mbit=1.0, delay_ms=1.0, duplicate=1.0)
    assert link.offer(0, SIZE) == (2 * MS, 2 * MS)
    assert link.offer(0, SIZE) == (3 * MS, 3 * MS)


def test_the_share_of_duplicates_is_the_one_asked_for():
    link = pipe(duplicate=0.2)
    assert sum(len(link.offer(0, SIZE)) for _ in range(20_000)) / 20_000 == pytest.approx(1.2, abs=0.01)


def test_a_share_of_packets_is_not_delayed_and_so_overtakes():
    link = pipe(delay_ms=10.0, reorder=0.25)
    arrivals = [link.offer(0, SIZE)[0] for _ in range(20_000)]
    assert set(arrivals) == {0, 10 * MS}
    assert arrivals.count(0) / len(arrivals) == pytest.approx(0.25, abs=0.01)


def test_jitter_spreads_the_delay_evenly_over_its_bounds():
    link = pipe(delay_ms=10.0, jitter_ms=4.0)
    arrivals = [link.offer(0, SIZE)[0] for _ in range(20_000)]
    assert 6 * MS <= min(arrivals) < 6.01 * MS
    assert 13.99 * MS < max(arrivals) <= 14 * MS
    assert sum(arrivals) / len(arrivals) == pytest.approx(10 * MS, rel=0.01)


def test_jitter_alone_makes_a_link_late_and_never_early():
    link = pipe(jitter_ms=4.0)
    arrivals = [link.offer(0, SIZE)[0] for _ in range(1000)]
    assert min(arrivals) == 0
    assert max(arrivals) > 3 * MS


def test_a_pulled_link_carries_nothing_and_forgets_its_queue():
    link = pipe(bandwidth_mbit=1.0)
    link.offer(0, SIZE)
    link.pull()
    assert link.offer(0, SIZE) == ()
    link.up = True
    assert link.offer(0, SIZE) == (MS,)
    assert link.counts.cut == 1
