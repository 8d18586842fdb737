"""Quantities as people write them: `10mbit`, `20ms`, `5%`.

Inside Castbed a bandwidth is a number of Mbit/s, a time a number of milliseconds and a share a number from 0 to 1.
These functions are the only way from text to those numbers and back, so every file and every option takes the same units.
Units are powers of ten and the arithmetic is decimal: `7%` is the float 0.07, not 7 * 0.01, so what is written reads back the same.
"""

import math
import re
from decimal import Decimal

_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]{1,3})?)\s*([a-z%]*)\s*", re.IGNORECASE | re.ASCII)
# The power of ten that each unit stands for.
_MBIT = {"bit": -6, "kbit": -3, "mbit": 0, "gbit": 3}
_MILLISECONDS = {"us": -3, "ms": 0, "s": 3}
_SHARE = {"%": -2, "": 0}


def bandwidth_mbit(text: str) -> float:
    """Mbit/s from text such as `10mbit` or `500kbit`."""
    value = _parse("bandwidth", text, _MBIT)
    if value <= 0:
        raise ValueError(f"bandwidth {text!r} must be above zero")
    return value


def time_ms(text: str) -> float:
    """Milliseconds from text such as `20ms`, `1.5s` or `300us`."""
    return _parse("time", text, _MILLISECONDS)


def share(text: str) -> float:
    """A number from 0 to 1 from text such as `10%` or `0.1`."""
    value = _parse("share", text, _SHARE)
    if value > 1:
        raise ValueError(f"share {text!r} must be between 0 and 1, or 0% and 100%")
    return value


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
    value = float(Decimal(match[1]).scaleb(units[match[2].lower()]))
    if value == math.inf:
        raise ValueError(f"{quantity} {text!r} is too large")
    return value


def _plain(number: float, shift: int = 0) -> str:
    """The shortest digits that stand for exactly this float times 10 ** shift, without an exponent."""
    return f"{Decimal(repr(float(number))).scaleb(shift).normalize():f}"
