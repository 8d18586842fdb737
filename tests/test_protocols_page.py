"""The protocol on the page about writing one is complete: it runs, keeps its promise in a campaign, and is caught when it is broken."""

import re
from pathlib import Path

import pytest

from hostagent.protocols import PROTOCOLS
from scenarios.catalogue import find
from simulator.cases import history_of, run
from simulator.engine import simulate
from simulator.shrink import broken
from simulator.swarm import draw_case

PAGE = Path(__file__).parents[1] / "docs" / "protocols.md"


@pytest.fixture
def echo(monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {"__name__": "hostagent.protocols.echo"}
    exec(compile(code, str(PAGE), "exec"), names)
    monkeypatch.setitem(PROTOCOLS, "echo", names["Echo"])
    return names["Echo"]


@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_the_example_delivers_messages_to_groups_at_their_destinations_only(echo, multicasts):
    (variant,) = [variant for variant in find("groups").build({"messages": "20"}) if variant.protocol == "basic"]
    history = history_of(simulate(variant.scenario, echo, echo.Parameters(), 1, multicasts=multicasts))
    delivered = {}
    for delivery in history.deliveries:
        delivered.setdefault(delivery.message, []).append(delivery.host)
    assert {message: sorted(hosts) for message, hosts in delivered.items()} == {
        message: sorted(to) for message, to in history.destinations.items()
    }


@pytest.mark.usefixtures("echo")
def test_the_example_keeps_its_promise_in_a_campaign_with_groups():
    cases = [draw_case("echo", seed)[0] for seed in range(1, 21)]
    assert any(case.groups for case in cases)
    assert sum(case.beyond for case in cases) < len(cases) / 2, "a campaign tests the example"
    assert {case.seed: broken(run(case).judgement) for case in cases if broken(run(case).judgement)} == {}


def test_the_example_without_its_memory_is_caught(echo):
    class Forgets(echo):
        def _deliver(self, copy):
            self.env.deliver(copy.origin, copy.sequence, copy.payload)

        def on_message(self, sender, message, expensive):  # noqa: ARG002 - a core has it so
            self._deliver(message)

    found = (broken(run(draw_case("echo", seed)[0], Forgets).judgement) for seed in range(1, 21))
    assert "no duplication" in next(promises for promises in found if promises)
