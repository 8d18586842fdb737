"""Text to quantities and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import units

BANDWIDTHS = st.floats(units.SLOWEST_MBIT, units.FASTEST_MBIT)
TIMES = st.just(0.0) | st.floats(units.SHORTEST_MS, units.LONGEST_MS)
SHARES = st.just(0.0) | st.floats(units.SMALLEST_SHARE, 1)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.bandwidth_mbit, "10mbit", 10.0),
        (units.bandwidth_mbit, " 500 Kbit ", 0.5),
        (units.bandwidth_mbit, "2gbit", 2000.0),
        (units.bandwidth_mbit, "1e+3bit", 0.001),
        (units.time_ms, "20ms", 20.0),
        (units.time_ms, "1.5s", 1500.0),
        (units.time_ms, "300us", 0.3),
        (units.time_ms, "0ms", 0.0),
        (units.share, "7%", 0.07),
        (units.share, ".5", 0.5),
        (units.share, "100%", 1.0),
    ],
)
def test_quantities_are_read_as_people_write_them(read, text, value):
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "sentence"),
    [
        (units.bandwidth_mbit, "10", "'10' is not a bandwidth: write a number and a unit, one of bit, kbit, mbit, gbit"),
        (units.bandwidth_mbit, "0mbit", "bandwidth '0mbit' must be between 0.001mbit and 32000mbit"),
        (units.bandwidth_mbit, "1e999gbit", "bandwidth '1e999gbit' must be between 0.001mbit and 32000mbit"),
        (units.bandwidth_mbit, "1e-9kbit", "bandwidth '1e-9kbit' must be between 0.001mbit and 32000mbit"),
        (units.time_ms, "1e-300ms", "time '1e-300ms' must be 0ms, or between 0.000001ms and 1000000000ms"),
        (units.time_ms, "1e9s", "time '1e9s' must be 0ms, or between 0.000001ms and 1000000000ms"),
        (units.time_ms, "infs", "'infs' is not a time: write a number and a unit, one of us, ms, s"),
        (units.share, "1e-300", "share '1e-300' must be 0, or between 0.0000001% and 100%"),
        (units.time_ms, "-1ms", "'-1ms' is not a time: write a number and a unit, one of us, ms, s"),
        (units.time_ms, "", "'' is not a time: write a number and a unit, one of us, ms, s"),
        (units.time_ms, "nanms", "'nanms' is not a time: write a number and a unit, one of us, ms, s"),
        (units.share, "5", "share '5' must be 0, or between 0.0000001% and 100%"),
        (units.share, "1ms", "'1ms' is not a share: write a number and a unit, one of %, a plain number"),
    ],
)
def test_bad_quantities_are_refused_with_a_sentence(read, text, sentence):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        read(text)
    assert str(error.value) == sentence


def test_round_numbers_are_written_without_a_fraction():
    assert units.format_bandwidth(10.0) == "10mbit"
    assert units.format_time(0.3) == "0.3ms"
    assert units.format_share(0.07) == "7%"
    assert units.format_share(1) == "100%"


@given(BANDWIDTHS)
@settings(deadline=None)
def test_every_bandwidth_reads_back_the_same(mbit):
    assert units.bandwidth_mbit(units.format_bandwidth(mbit)) == mbit


@given(TIMES)
@settings(deadline=None)
def test_every_time_reads_back_the_same(milliseconds):
    assert units.time_ms(units.format_time(milliseconds)) == milliseconds


@given(SHARES)
@settings(deadline=None)
def test_every_share_reads_back_the_same(share):
    assert units.share(units.format_share(share)) == share
