"""What a protocol may make advice of, in a scenario (`hostagent/contract/advice.py`)."""

from hostagent.contract.advice import Surroundings
from scenarios.scenario import Scenario
from topologies.paths import distance


def surroundings(scenario: Scenario) -> Surroundings:
    """The hosts, groups and distances of a scenario, with all its links up."""
    network = scenario.network
    return Surroundings(network.hosts, scenario.members, lambda one, other: distance(network, one, other))
