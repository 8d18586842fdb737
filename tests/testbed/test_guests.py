"""Guests run beside our protocols on the same networks, and are measured by the same captures."""

import json

import pytest

from hostagent.runtime.guests.catalogue import GUESTS
from tests.testbed.conftest import castbed

SMALL = ("--set", "k=2", "--set", "size=2", "--set", "messages=20", "--set", "settle=3s")
ORDERS = {"single-source": "single-source order (strict)", "multiple-group": "multiple-group order (strict)"}


@pytest.fixture
def installed(request) -> str:
    """The guest of this name, if it is installed."""
    if not GUESTS[request.param].is_installed:
        pytest.skip(f"the guest {request.param} is not installed: ./castbed guests {request.param} does that")
    return str(request.param)


@pytest.mark.root
@pytest.mark.parametrize("installed", list(GUESTS), indirect=True)
def test_a_guest_is_in_one_table_with_a_protocol_and_its_order_is_judged(installed, tmp_path, nothing_left_behind):  # noqa: ARG001 - watches
    done = castbed(
        "run",
        "clusters",
        *SMALL,
        "--protocol",
        "sequencer",
        "--protocol",
        f"guest:{installed}",
        "--out",
        tmp_path / "made",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    ours, guest = json.loads(done.stdout)["runs"]
    assert (ours["protocol"], guest["protocol"]) == ("sequencer", installed)
    assert (guest["verdict"], guest["delivered_share"], guest["balanced"]) == ("holds", 1.0, True)
    judged = {name for name, found in guest["checks"].items() if found["verdict"] == "holds"}
    assert {ORDERS[order.scope] for order in GUESTS[installed].orders} <= judged
    assert guest["cost"]["expensive_packets_per_message"] >= 1.0
    assert guest["cost"]["expensive_data_packets_per_message"] is None
    assert any("not told apart by message, and their journeys are not followed" in reason for reason in guest["verdict_reasons"])
    assert {cost["purpose"] for cost in guest["link_costs"]} == {"guest", "guest-outside"}
    assert guest["load_max"] > 0
    assert "guest" in (tmp_path / "made" / "report.html").read_text()


@pytest.mark.parametrize("installed", list(GUESTS), indirect=True)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "clusters", "--on", "simulator"), "is a program, which does not run in virtual time: run it --on mininet"),
        (("campaign",), "is a program, which does not run in virtual time: run it with ./castbed run"),
    ],
)
def test_guests_are_refused_in_virtual_time(installed, words, sentence):
    done = castbed(*words, "--protocol", f"guest:{installed}")
    assert done.returncode == 2
    assert f"protocol {installed} {sentence}" in done.stderr


def test_the_command_lists_all_guests_and_refuses_others():
    done = castbed("guests")
    assert done.returncode == 0
    assert all(name in done.stdout for name in GUESTS)
    refused = castbed("guests", "spread")
    assert (refused.returncode, refused.stderr) == (
        2,
        "castbed: there is no guest 'spread': there are corosync, pysyncobj, etcd, nats\n",
    )
