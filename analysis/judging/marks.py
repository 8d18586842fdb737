"""What became of messages at hosts, in the order of each host's log: deliveries or commits, and what was taken back in between."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analysis.judging.connectivity import Connectivity
from analysis.judging.history import Delivery, MessageId

Life = tuple[str, int]
"""A host, and how often it had lost its storage: what it did before it lost its storage is judged apart."""


class Mark(NamedTuple):
    """A delivery or a commit, or the end of a delivery that was taken back."""

    delivery: Delivery
    is_taken_back: bool


def in_log_order(marked: Iterable[Delivery], taken_back: Iterable[Delivery]) -> Iterator[Mark]:
    """Deliveries and take-backs in the order of the log of each host. Without take-backs, that is the order in which they come."""
    undone = [Mark(one, is_taken_back=True) for one in taken_back]
    marks = (Mark(one, is_taken_back=False) for one in marked)
    return iter(sorted((*marks, *undone), key=lambda mark: mark.delivery.place)) if undone else marks


def second(
    marked: Iterable[Delivery], taken_back: Iterable[Delivery], connectivity: Connectivity
) -> tuple[Delivery, Delivery] | None:
    """The first delivery of a message that the same host had delivered before, in the same life, and had not taken back; and that one."""
    standing: dict[tuple[str, int, MessageId], Delivery] = {}
    for one, is_taken_back in in_log_order(marked, taken_back):
        key = one.host, connectivity.life(one.host, one.at_ns), one.message
        if is_taken_back:
            standing.pop(key, None)
        elif standing.setdefault(key, one) is not one:
            return standing[key], one
    return None
