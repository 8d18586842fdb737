"""Sets of sequence numbers against plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from hostagent.parts.sequences import SequenceSet
from tests.hostagent.arbitrary import unhurried

NUMBERS = st.lists(st.integers(1, 40) | st.integers(1, 2**32 - 1))


def filled(numbers) -> SequenceSet:
    made = SequenceSet()
    for number in numbers:
        made.add(number)
    return made


@unhurried
@given(NUMBERS)
def test_it_is_a_set(numbers):
    ours, plain = SequenceSet(), set()
    for number in numbers:
        assert ours.add(number) == (number not in plain)
        plain.add(number)
    assert list(ours) == sorted(plain)
    assert len(ours) == len(plain)
    assert all((number in ours) == (number in plain) for number in range(1, 45))


@unhurried
@given(NUMBERS, st.integers(1, 45))
def test_its_state_makes_an_equal_set_that_goes_on(numbers, more):
    ours = filled(numbers)
    again = SequenceSet(*ours.state())
    assert again.state() == ours.state()
    assert (again.add(more), again.state()) == (ours.add(more), ours.state())


@unhurried
@given(st.integers(0, 100).flatmap(lambda size: st.permutations(range(1, size + 1))))
def test_a_stream_without_gaps_costs_one_integer_whatever_its_order(numbers):
    assert filled(numbers).state() == (len(numbers), [])


def test_numbers_below_one_count_as_had():
    assert not SequenceSet().add(0)


def test_a_number_far_ahead_costs_one_entry():
    assert filled([2**32 - 1]).state() == (0, [2**32 - 1])


@unhurried
@given(NUMBERS, st.integers(0, 60))
def test_all_up_to_a_number_can_be_added_at_once(numbers, up_to):
    ours, plain = filled(numbers), {*numbers, *range(1, up_to + 1)}
    above = set(ours.state()[1])
    absorbed = ours.add_up_to(up_to)
    assert ours.state() == filled(plain).state()
    assert absorbed == sorted(above - set(ours.state()[1]))
