"""The parameters of the propagation graph."""

from typing import Annotated, Literal

import msgspec

from hostagent.contract.core import Milliseconds
from hostagent.contract.promises import TimeBound, Timing
from hostagent.parts.streams import StreamParameters
from hostagent.protocols.propagation_graph.generator import Method


class FailureParameters(StreamParameters, frozen=True, kw_only=True):
    """What happens when hosts fail."""

    manager: str = ""
    """The host that numbers the graphs, or forms new ones; the first host if empty."""
    failures: Literal["atomic", "non-atomic"] = "atomic"
    """What happens when a host fails: those below wait for it, or the others form a new graph."""
    recover: Literal["new-member", "rollback"] = "new-member"
    """With non-atomic failures: a host that was left out starts over, or takes back what it delivered in the wrong place."""
    period_ms: Milliseconds = 500.0
    """With non-atomic failures: the time between two questions to a host that is watched, and between two looks of the manager."""
    timeout_ms: Milliseconds = 1000.0
    """No host is suspected before it was silent for so long; how long an answer may take follows the round trips that were seen."""
    longest_timeout_ms: Milliseconds = 3000.0
    """A host that was silent for so long is suspected, however slow its answers were before."""

    @property
    def detection_ms(self) -> float:
        """The longest time until a silent host is suspected by a host that watches it."""
        return self.longest_timeout_ms + 2 * self.period_ms

    @property
    def rolls_back(self) -> bool:
        """Whether hosts that were left out take back what they delivered in the wrong place."""
        return self.recover == "rollback"


class PropagationGraphParameters(FailureParameters, frozen=True, kw_only=True):
    """How the forest is built, and what happens when hosts fail."""

    graph: Method = "heuristic-1"
    """How the forest is built: see `generator`."""
    children: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """The most children of a host, where that costs no extra hosts: less load for more depth (section 4.1.2); 0 for any number."""
    independent: bool = False
    """Whether messages to a group bypass hosts that are not in it, where one order can still be kept (section 3.5)."""
    advice: str = ""
    """For the methods that look at the network, the distances between hosts (see `distances`). Castbed works them out."""

    def edge_bound(self, timing: Timing) -> TimeBound:
        """Within delta + 4 phi_P + 3 phi_N a message goes over an edge: see `protocol`."""
        return self.time_bound(timing, self.silence_ms + 4 * self.process_ms + 3 * self.network_ms, self.silence_ms)

    def check(self) -> None:
        """Raise a `ValueError` with a sentence if the parameters contradict each other."""
        if self.failures == "atomic":
            if self.rolls_back:
                raise ValueError(
                    "recover=rollback needs failures=non-atomic: with atomic failures no host delivers anything in the wrong place"
                )
            return
        if not self.period_ms <= self.timeout_ms <= self.longest_timeout_ms:
            raise ValueError(
                f"timeout_ms={self.timeout_ms:g} must be between period_ms={self.period_ms:g}, as a host is asked once in a period, "
                f"and longest_timeout_ms={self.longest_timeout_ms:g}"
            )
        if self.independent:
            raise ValueError(
                "independent=true needs failures=atomic: in a graph that is formed after a failure, messages to former members are under "
                "way for which no edges past other hosts were planned"
            )
