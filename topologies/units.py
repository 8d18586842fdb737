"""Quantities as people write them: `10mbit`, `20ms`, `5%`.

Inside Castbed a bandwidth is a number of Mbit/s, a time a number of milliseconds and a share a number from 0 to 1.
These functions are the only way from text to those numbers and back, so every file and every option takes the same units.
"""

import re

_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*([a-z%]*)\s*", re.IGNORECASE)
_MBIT = {"bit": 1e-6, "kbit": 1e-3, "mbit": 1.0, "gbit": 1e3}
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_SHARE = {"%": 0.01, "": 1.0}


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
    return f"{mbit!r}mbit"


def format_time(milliseconds: float) -> str:
    """The text that `time_ms` reads back as the same number."""
    return f"{milliseconds!r}ms"


def _parse(quantity: str, text: str, units: dict[str, float]) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2].lower() not in units:
        known = ", ".join(unit or "a plain number" for unit in units)
        raise ValueError(f"{text!r} is not a {quantity}: write a number and a unit, one of {known}")
    return float(match[1]) * units[match[2].lower()]
