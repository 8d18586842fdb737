"""The experiments: small scripts to read, run and copy."""

from scenarios.scenario import Bandwidth, Scenario, ScenarioError, Share, Time, Variant, Workload, pulled

__all__ = ["Bandwidth", "Scenario", "ScenarioError", "Share", "Time", "Variant", "Workload", "pulled"]
