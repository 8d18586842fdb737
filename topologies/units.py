"""Quantities as text: `10mbit`, `20ms`, `5%`.

Inside Castbed a bandwidth is a number of Mbit/s, a time a number of milliseconds and a share a number from 0 to 1.
These functions are the only way from text to those numbers and back, so every file and every option takes the same units.
What is smaller or larger than anything that can be run is refused; the bounds are stated here, for text and for numbers alike.
Units are powers of ten and the arithmetic is decimal: `7%` is the float 0.07, not 7 * 0.01, so text that was written reads back the same.
"""

import re
from decimal import Decimal
from typing import Final

_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]{1,3})?)\s*([a-z%]*)\s*", re.IGNORECASE | re.ASCII)
# The power of ten that each unit stands for.
_MBIT = {"bit": -6, "kbit": -3, "mbit": 0, "gbit": 3}
_MILLISECONDS = {"us": -3, "ms": 0, "s": 3}
_SHARE = {"%": -2, "": 0}

SLOWEST_MBIT: Final = 0.001
"""A full packet takes twelve seconds."""
FASTEST_MBIT: Final = 32_000.0
"""What the kernel can be asked for: 32 bits of bytes a second."""
SHORTEST_MS: Final = 1e-6
"""A nanosecond: what the kernel and the simulator count in."""
LONGEST_MS: Final = 1e9
"""Eleven days."""
SMALLEST_SHARE: Final = 1e-9
"""What the kernel draws has 32 bits."""
LONGEST_BURST: Final = 1e6
LONGEST_QUEUE: Final = 1_000_000
MOST_MESSAGES: Final = 1_000_000
MOST_TIMES: Final = 10_000
"""How often a link may flap."""
LARGEST_NUMBER: Final = 1e12
"""Of numbers without a unit."""


def bandwidth_mbit(text: str) -> float:
    """Mbit/s from text such as `10mbit` or `500kbit`."""
    value = _parse("bandwidth", text, _MBIT)
    if not is_bandwidth(value):
        slowest, fastest = format_bandwidth(SLOWEST_MBIT), format_bandwidth(FASTEST_MBIT)
        raise ValueError(f"bandwidth {text!r} must be between {slowest} and {fastest}")
    return value


def time_ms(text: str) -> float:
    """Milliseconds from text such as `20ms`, `1.5s` or `300us`."""
    value = _parse("time", text, _MILLISECONDS)
    if not is_time(value):
        shortest, longest = format_time(SHORTEST_MS), format_time(LONGEST_MS)
        raise ValueError(f"time {text!r} must be 0ms, or between {shortest} and {longest}")
    return value


def share(text: str) -> float:
    """A number from 0 to 1 from text such as `10%` or `0.1`."""
    value = _parse("share", text, _SHARE)
    if not is_share(value):
        raise ValueError(f"share {text!r} must be 0, or between {format_share(SMALLEST_SHARE)} and 100%")
    return value


def is_bandwidth(mbit: float) -> bool:
    """Whether a link can have this bandwidth."""
    return SLOWEST_MBIT <= mbit <= FASTEST_MBIT


def is_time(milliseconds: float) -> bool:
    """Whether something can take so long."""
    return milliseconds == 0 or SHORTEST_MS <= milliseconds <= LONGEST_MS


def is_share(share_of_one: float) -> bool:
    """Whether this is a share that can be told from none."""
    return share_of_one == 0 or SMALLEST_SHARE <= share_of_one <= 1


def format_bandwidth(mbit: float) -> str:
    """The text that `bandwidth_mbit` reads back as the same number."""
    return f"{_plain(mbit)}mbit"


def format_time(milliseconds: float) -> str:
    """The text that `time_ms` reads back as the same number."""
    return f"{_plain(milliseconds)}ms"


def format_share(share_of_one: float) -> str:
    """The text that `share` reads back as the same number."""
    return f"{_plain(share_of_one, 2)}%"


def _parse(quantity: str, text: str, units: dict[str, int]) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2].lower() not in units:
        known = ", ".join(unit or "a plain number" for unit in units)
        raise ValueError(f"{text!r} is not a {quantity}: write a number and a unit, one of {known}")
    return float(Decimal(match[1]).scaleb(units[match[2].lower()]))


def _plain(number: float, shift: int = 0) -> str:
    """The shortest digits for exactly this float times 10 ** shift, without an exponent."""
    return f"{Decimal(repr(float(number))).scaleb(shift).normalize():f}"
