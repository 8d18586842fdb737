"""The properties of links besides ends and cost, and how each property is written as text.

Files and the command line share this table, so `delay=20ms` after a builder and `"delay": "20ms"` in a file mean the same.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from topologies import units

N = TypeVar("N", int, float)


class Expensive(TypedDict, total=False):
    """Properties of the expensive links of a built network, as keyword arguments. The defaults are 10 Mbit/s and those of `Link`."""

    bandwidth_mbit: float | None
    delay_ms: float
    jitter_ms: float
    loss: float
    burst: float
    duplicate: float
    reorder: float
    queue_packets: int | None


@dataclass(frozen=True)
class Property:
    """A field of `Link`, the functions from text to its value and back, and what it means."""

    field: str
    parse: Callable[[str], Any]
    format: Callable[[Any], str]
    meaning: str


def whole(text: str) -> int:
    """A whole number from text such as `100`."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a whole number")
    return _bounded(int, text, "a whole number")


def number(text: str) -> float:
    """A number from text such as `2.5`."""
    return _bounded(float, text, "a number")


def signed_whole(text: str) -> int:
    """A whole number from text such as `-100`."""
    return _bounded(int, text, "a whole number")


def _bounded(read: Callable[[str], N], text: str, what: str) -> N:
    try:
        value = read(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not {what}") from None
    if not abs(value) <= units.LARGEST_NUMBER:
        raise ValueError(f"{text[:40]!r} is out of bounds: numbers go up to {units.LARGEST_NUMBER:,.0f}")
    return value


PROPERTIES = {
    "bandwidth": Property(
        "bandwidth_mbit", units.bandwidth_mbit, units.format_bandwidth, "what a link carries in each direction"
    ),
    "delay": Property("delay_ms", units.time_ms, units.format_time, "how long a packet takes over a link"),
    "jitter": Property("jitter_ms", units.time_ms, units.format_time, "by how much the delay varies, up and down"),
    "loss": Property("loss", units.share, units.format_share, "the share of packets that are lost"),
    "burst": Property("burst", number, repr, "the mean number of packets that are lost in a row"),
    "duplicate": Property("duplicate", units.share, units.format_share, "the share of packets that arrive twice"),
    "reorder": Property(
        "reorder", units.share, units.format_share, "the share of packets that are not delayed, and overtake others"
    ),
    "queue": Property("queue_packets", whole, str, "packets that wait for a link before it drops some"),
}


def described(link: object, plain: object) -> str:
    """The properties in which a link differs from another one, in the words of the command line; empty if it does not differ."""
    return told(link, [known.field for known in PROPERTIES.values() if getattr(link, known.field) != getattr(plain, known.field)])


def told(link: object, fields: Collection[str]) -> str:
    """Some properties of a link, in the words of the command line."""
    chosen = {name: known for name, known in PROPERTIES.items() if known.field in fields}
    values = {name: getattr(link, known.field) for name, known in chosen.items()}
    return ", ".join(f"{name} {'any' if value is None else chosen[name].format(value)}" for name, value in values.items())
