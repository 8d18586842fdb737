"""The experiments: small scripts to read, run and copy."""

from scenarios.groups import Group
from scenarios.scenario import Bandwidth, Broadcast, Scenario, ScenarioError, Share, Time, Variant, Workload, pulled

__all__ = ["Bandwidth", "Broadcast", "Group", "Scenario", "ScenarioError", "Share", "Time", "Variant", "Workload", "pulled"]
