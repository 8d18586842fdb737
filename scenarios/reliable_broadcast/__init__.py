"""The second paper: "Reliable Broadcast", lecture slides (vanilladb.org). Here are the parameters of its protocols in these scenarios."""

from scenarios.scenario import Scenario, Variant

LINKS = {"retry_ms": 50.0, "longest_retry_ms": 100.0}
DETECTOR = {"period_ms": 200.0, "timeout_ms": 500.0, "longest_timeout_ms": 1000.0}
IMPATIENT = {"best-effort": LINKS, "eager-reliable": LINKS, "lazy-reliable": LINKS | DETECTOR, "uniform": LINKS | DETECTOR}
"""Parameters with short timeouts, so that repairs and suspicions happen within a few seconds and a short run is enough."""


def family(scenario: Scenario) -> list[Variant]:
    """The same experiment with each protocol of the paper."""
    return [Variant(protocol, scenario, protocol, dict(parameters)) for protocol, parameters in IMPATIENT.items()]
