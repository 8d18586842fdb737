"""What a mutant is, and the search for a schedule that catches it."""

import re
from dataclasses import dataclass, field
from typing import Any

from hostagent.contract.core import Core
from simulator.cases import run
from simulator.shrink import broken
from simulator.swarm import draw_case

# Schedules in which a mutant must be caught.
MOST_SCHEDULES = 1000


@dataclass(frozen=True)
class Mutant:
    """A protocol with one thing broken."""

    core: type[Core]
    wrong: str
    """What is wrong with it, in a sentence."""
    harmless: str = ""
    """Why it breaks no promise, where that is so."""
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        """The protocol that it was made from."""
        return self.core.name

    @property
    def name(self) -> str:
        """The name of its class, in words, and the parameters it is tried with."""
        words = re.sub("(?<=.)([A-Z])", lambda letter: f" {letter[0].lower()}", self.core.__name__).lower()
        return " ".join([words, *(f"({value})" for value in self.parameters.values())])

    def breaks(self, seed: int) -> frozenset[str]:
        """The promises that it breaks in the schedule of a seed; none in one that holds what the protocol does not claim to survive."""
        case, _ = draw_case(self.protocol, seed, self.parameters)
        return frozenset() if case.beyond else broken(run(case, self.core).judgement)

    def search(self) -> tuple[int, frozenset[str]] | None:
        """The first schedule that catches it, and the promises broken there."""
        tried = ((seed, self.breaks(seed)) for seed in range(1, MOST_SCHEDULES + 1))
        return next(((seed, promises) for seed, promises in tried if promises), None)
