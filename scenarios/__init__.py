"""The experiments: small scripts to read, run and copy."""

from scenarios.scenario import LinkFault, Scenario, ScenarioError, Time, Workload, pulled

__all__ = ["LinkFault", "Scenario", "ScenarioError", "Time", "Workload", "pulled"]
