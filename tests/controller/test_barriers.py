"""An action follows the last answer of its group of barriers."""

import pytest

from controller.barriers import Barrier, Barriers


@pytest.fixture
def done() -> list[str]:
    return []


def test_an_action_waits_for_every_barrier_of_its_group(done):
    barriers = Barriers()
    barriers.after([Barrier("s1", 7), Barrier("s2", 7)], lambda: done.append("both"))
    barriers.after([Barrier("s2", 8)], lambda: done.append("one"))
    barriers.answered(Barrier("s2", 7))
    assert done == []
    barriers.answered(Barrier("s2", 8))
    barriers.answered(Barrier("s1", 7))
    assert done == ["one", "both"]


def test_nothing_to_wait_for_means_now_and_once(done):
    barriers = Barriers()
    barriers.after([], lambda: done.append("now"))
    barriers.answered(Barrier("s1", 1))
    assert done == ["now"]


def test_a_lost_switch_holds_nobody_up(done):
    barriers = Barriers()
    barriers.after([Barrier("s1", 1), Barrier("s2", 1)], lambda: done.append("both"))
    barriers.lost("s2")
    assert done == []
    barriers.answered(Barrier("s1", 1))
    assert done == ["both"]
