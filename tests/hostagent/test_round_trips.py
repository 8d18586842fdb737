"""How long an answer is awaited."""

from hostagent.parts.round_trips import RoundTrips


def test_a_question_that_is_repeated_for_ever_waits_the_longest_time_and_no_longer():
    trips = RoundTrips(10.0, 0.5)
    assert [trips.wait_s("h1", repetition) for repetition in (0, 1, 2, 10, 5000)] == [0.5, 1.0, 2.0, 10.0, 10.0]
