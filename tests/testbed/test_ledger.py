"""What `watch` counts of a network that is up, from event logs that grow."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from hostagent.contract.events import Event, commit
from testbed.live import views
from testbed.live.ledger import Ledger
from topologies import lan

MS = 1_000_000


@pytest.fixture
def snapshot(tmp_path):
    """What is known after more events: host, milliseconds, event, and the rest of its fields."""
    network = lan(3)
    logs = {host: tmp_path / f"{host}.jsonl" for host in network.hosts}
    for log in logs.values():
        log.touch()
    agents = SimpleNamespace(event_logs=lambda: list(logs.items()), running=network.hosts, absent=(), is_paused=lambda _: False)
    task = SimpleNamespace(scenario=SimpleNamespace(members={}), protocol="totem", output=Path("nowhere"))
    injector = SimpleNamespace(groups={}, records=[])
    emulation = SimpleNamespace(network=network)
    ledger = Ledger(
        SimpleNamespace(emulation=emulation, agents=agents, task=task, injector=injector, captures=SimpleNamespace(planned=()))
    )

    def after(*events):
        for host, at_ms, name, fields in events:
            with logs[host].open("ab") as log:
                log.write(commit([Event(at_ns=at_ms * MS, event=name, **fields)]))
        return ledger.snapshot("lab", 0.0, ())

    return after


@pytest.fixture
def watched(snapshot):
    """What the line about the token says after more events."""

    def told(*events):
        return next(
            (line for line in views.status(snapshot(*events)).splitlines() if "token:" in line or "committed" in line), ""
        )

    return told


def test_a_delivery_that_is_known_before_its_broadcast_is_no_negative_number_of_missing_messages(snapshot):
    now = snapshot(("h2", 2, "deliver", {"origin": "h1", "sequence": 1}))
    assert [host.missing for host in now.hosts] == [0, 0, 0]
    now = snapshot(("h1", 1, "broadcast", {"origin": "h1", "sequence": 1}))
    assert [host.missing for host in now.hosts] == [1, 0, 1]


def token(host, at_ms, generation, held):
    return host, at_ms, "token", {"details": {"generation": generation, "held": held}}


def committed(host, at_ms, origin, sequence):
    return host, at_ms, "commit", {"origin": origin, "sequence": sequence}


def test_watch_says_who_has_the_token_its_generation_and_that_it_is_on_its_way(watched):
    assert watched() == ""
    assert watched(token("h2", 1, 1, True)) == "token: h2, generation 1"
    assert watched(token("h2", 2, 1, False)) == "token: on its way, generation 1"
    assert watched(token("h3", 3, 2, True)) == "token: h3, generation 2"
    # A host that was cut off lets go of the token of an older generation.
    assert watched(token("h2", 4, 1, True), token("h2", 5, 1, False)) == "token: h3, generation 2"


def test_watch_says_up_to_which_message_each_host_has_committed(watched):
    assert watched(committed("h1", 1, "h3", 7), committed("h2", 1, "h3", 7)) == "committed up to h3:7 (h1 h2)"
    assert watched(committed("h1", 2, "h1", 1), token("h1", 3, 4, True)) == (
        "token: h1, generation 4; committed up to h1:1 (h1), h3:7 (h2)"
    )
