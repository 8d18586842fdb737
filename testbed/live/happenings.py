"""What happened in a network that is up, in words: faults, and what hosts log besides messages and samples.

Several hosts that say the same within a second are told together, and of the way of a token only where it is now.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from hostagent.contract.events import Event
from runfiles.format import FaultRecord
from testbed.live.snapshot import Happening

# More than fit on any screen, so that a watcher who looks every few seconds misses none.
MOST: Final = 200
# What happens to every message, or again and again: the tables of `watch` count it.
_OF_MESSAGES = ("broadcast", "receive", "deliver", "commit", "decided", "pre-acknowledged", "held-back", "request")
UNTOLD: Final = frozenset((*_OF_MESSAGES, "sample", "transit-times"))
FAULT: Final = "fault"
GOES_ROUND: Final = "token"
# What hosts say within this time is told together.
TOGETHER_S: Final = 1.0
WORDS: Final = {
    "start": "starts again",
    "stop": "stops",
    "token": "has the token, generation {generation}",
    "suspect": "suspects {host}",
    "trust": "trusts {host} again",
    "parent": "has the parent {parent} in the tree of {source}",
    "reform": "re-forms the list of hosts, generation {generation}",
    "list": "has the list {members}, version {version}",
    "view": "installs view {view} of group {group}: {members}",
    "excluded": "leaves {host} out, from number {graph} on",
}
"""What is said of an event after the name of its host."""


class Happenings:
    """The latest happenings, the oldest first."""

    def __init__(self, began_ns: int) -> None:
        self._began_ns = began_ns
        self._latest: deque[Happening] = deque(maxlen=MOST)
        self._number = 0
        self._started: set[str] = set()

    @property
    def latest(self) -> tuple[Happening, ...]:
        """The happenings that are still known."""
        return tuple(self._latest)

    def add(self, events: Iterable[tuple[str, Event]], faults: Iterable[FaultRecord]) -> None:
        """Add what is new, by time."""
        told = [(fault.applied_ns, FAULT, FAULT, f"{fault.fault} {fault.target}".strip()) for fault in faults]
        told += [(event.at_ns, event.event, host, in_words(event)) for host, event in events if self._is_told(host, event)]
        for at_ns, kind, who, what in sorted(told, key=lambda one: one[0]):
            self._add(at_ns, kind, who, what)

    def _is_told(self, host: str, event: Event) -> bool:
        """Whether an event is worth a line: a token that is handed on is told when it arrives, and a start from the second one on."""
        if event.event == "start" and host not in self._started:
            self._started.add(host)
            return False
        return event.event not in UNTOLD and not (event.event == GOES_ROUND and event.details.get("held") is False)

    def _add(self, at_ns: int, kind: str, who: str, what: str) -> None:
        self._number += 1
        at_s = (at_ns - self._began_ns) / 1e9
        for place in range(len(self._latest) - 1, -1, -1):
            before = self._latest[place]
            if kind == GOES_ROUND and before.kind == GOES_ROUND:
                del self._latest[place]
                break
            if kind not in {FAULT, GOES_ROUND} and before.what == what and at_s - before.at_s <= TOGETHER_S:
                hosts = ", ".join(dict.fromkeys((*before.who.split(", "), who)))
                self._latest[place] = Happening(self._number, before.at_s, kind, hosts, what)
                return
        self._latest.append(Happening(self._number, at_s, kind, who, what))


def in_words(event: Event) -> str:
    """What a host did, said after its name."""
    details = {name: ", ".join(map(str, value)) if isinstance(value, list) else value for name, value in event.details.items()}
    if event.event == "parent" and details.get("parent") == "":
        return f"has no parent in the tree of {details['source']}"
    try:
        return WORDS[event.event].format(**details)
    except KeyError:
        # Not one of ours, or one of a user's protocol that has other details.
        about = f" {event.origin}:{event.sequence}" if event.origin else ""
        more = "; ".join(f"{name} {value}" for name, value in details.items())
        return f"{event.event}{about}{f': {more}' if more else ''}"
