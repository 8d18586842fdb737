"""The table of what an order costs: its rows, and the systems that it is made for."""

from dataclasses import replace

import pytest

from analysis.figures.claims import MeasuredRun, evaluate
from analysis.job import analyse
from hostagent.protocols import PROTOCOLS
from runfiles.reading import load
from scenarios.catalogue import find
from scenarios.faults import Pause, Resume
from scenarios.ordered_multicast.order_costs import CLUSTERS, ROWS, Place, claims
from scenarios.scenario import ScenarioError
from testbed.running import simulated
from testbed.running.tasks import Task


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


def test_a_message_that_a_slow_token_site_numbers_late_needs_no_token_pass_of_its_own(crew, tmp_path):
    """The site that has the token after six messages is paused until the eighth is sent. The claim says so, and holds."""
    (variant,) = (v for v in find("order_costs").build({"hosts": "6", "messages": "12"}) if v.label == "token-site-unicast-6")
    slow = Pause(at_ms=550.0, host="h1"), Resume(at_ms=750.0, host="h1")
    asked = (
        replace(variant.scenario, faults=slow),
        {},
        variant.protocol,
        dict(variant.parameters),
        1,
        tmp_path / "run",
        variant.label,
    )
    simulated.run(Task("order_costs", *asked, medium="unicast", pack_ms=None), lambda *_: None)
    (summary,) = analyse([tmp_path / "run"], crew)
    (control,) = (
        claim for claim in evaluate(claims, [MeasuredRun(load(tmp_path / "run"), summary)]) if claim.number == "control"
    )
    assert control.holds
    assert control.figure.startswith("5.50 a message, 6.00 by theory; 1 of 12 messages were put into order only when")
