"""The table of what an order costs: its rows, and the systems that it is made for."""

import pytest

from hostagent.protocols import PROTOCOLS
from scenarios.catalogue import find
from scenarios.ordered_multicast.order_costs import CLUSTERS, ROWS, Place
from scenarios.scenario import ScenarioError


def test_every_protocol_is_run_on_both_media_with_every_number_of_hosts():
    variants = find("order_costs").build({})
    assert len({variant.label for variant in variants}) == len(variants) == 2 * len(CLUSTERS) * len(ROWS)
    assert {variant.protocol for variant in variants} == set(ROWS) <= set(PROTOCOLS)


def test_another_number_of_hosts_is_refused():
    with pytest.raises(ScenarioError, match="hosts=7: choose from 6, 12"):
        find("order_costs").build({"hosts": "7"})


def test_no_row_is_below_the_least_that_any_protocol_needs():
    for n, k in CLUSTERS.items():
        for is_central, is_near in ((True, True), (False, True), (False, False)):
            place = Place(n, k, n // k, is_central, is_near)
            for row in ROWS.values():
                assert row.packets[1](place) >= n - 1
                assert row.expensive[1](place) >= k - 1
                assert row.to_group[1](place) >= 1
                assert row.latencies is None or row.latencies[1](place) >= 1
