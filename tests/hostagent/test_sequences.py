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


def state(of: SequenceSet):
    return of.prefix, of.beyond


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
    again = SequenceSet(ours.prefix, ours.beyond)
    assert state(again) == state(ours)
    assert (again.add(more), state(again)) == (ours.add(more), state(ours))


@unhurried
@given(st.integers(0, 100).flatmap(lambda size: st.permutations(range(1, size + 1))))
def test_a_stream_without_gaps_costs_one_integer_whatever_its_order(numbers):
    assert state(filled(numbers)) == (len(numbers), ())


def test_numbers_below_one_count_as_had():
    assert not SequenceSet().add(0)


def test_a_number_far_ahead_costs_one_entry():
    assert state(filled([2**32 - 1])) == (0, ((2**32 - 1, 2**32 - 1),))


@unhurried
@given(NUMBERS, st.integers(0, 60))
def test_all_up_to_a_number_can_be_added_at_once(numbers, up_to):
    ours, plain = filled(numbers), {*numbers, *range(1, up_to + 1)}
    above = set(numbers) - set(range(1, ours.prefix + 1))
    absorbed = ours.add_up_to(up_to)
    assert state(ours) == state(filled(plain))
    assert absorbed == sorted(number for number in above if number <= ours.prefix)


RANGES = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)).map(lambda it: (it[0], it[0] + it[1])), max_size=8)


@unhurried
@given(st.integers(0, 20), RANGES, st.integers(0, 20), RANGES)
def test_ranges_in_any_order_make_a_set_and_what_another_lacks_comes_in_order(prefix, beyond, other_prefix, other_beyond):
    plain, other = (
        {*range(1, up_to + 1), *(number for first, last in ranges for number in range(first, last + 1))}
        for up_to, ranges in ((prefix, beyond), (other_prefix, other_beyond))
    )
    ours, others = SequenceSet(prefix, beyond), SequenceSet(other_prefix, other_beyond)
    assert state(ours) == state(filled(plain))
    assert (ours.highest, len(ours)) == (max(plain, default=0), len(plain))
    assert list(ours.lacking(others)) == sorted(plain - other)


def test_a_huge_range_costs_two_integers_and_no_time():
    huge = SequenceSet(3, [(10, 2**60)])
    assert (state(huge), huge.highest, 2**59 in huge) == ((3, ((10, 2**60),)), 2**60, True)
    assert next(huge.lacking(SequenceSet(2**58))) == 2**58 + 1
    assert list(SequenceSet(0, [(1, 2**60)]).lacking(SequenceSet(2**60 - 1))) == [2**60]
    assert (huge.add(2**60 + 1), huge.add_up_to(8), huge.prefix) == (True, [], 8)
