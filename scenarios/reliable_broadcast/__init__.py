"""The second paper: "Reliable Broadcast", lecture slides (vanilladb.org); here its protocols as scenarios run them side by side."""

from scenarios.scenario import Scenario, Variant

LINKS = {"retry_ms": 50.0, "longest_retry_ms": 100.0}
DETECTOR = {"period_ms": 200.0, "timeout_ms": 500.0, "longest_timeout_ms": 1000.0}
IMPATIENT = {"best-effort": LINKS, "eager-reliable": LINKS, "lazy-reliable": LINKS | DETECTOR, "uniform": LINKS | DETECTOR}
"""Parameters with which everything that is going to happen has happened within some seconds, so that a short run can tell."""


def family(scenario: Scenario) -> list[Variant]:
    """The same experiment with each of them."""
    return [Variant(protocol, scenario, protocol, dict(parameters)) for protocol, parameters in IMPATIENT.items()]
