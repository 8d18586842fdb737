"""The experiments: small scripts to read, run and copy."""

from scenarios.scenario import Scenario, ScenarioError, Time, Workload, pulled

__all__ = ["Scenario", "ScenarioError", "Time", "Workload", "pulled"]
