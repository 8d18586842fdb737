"""The two environments are one: the same script gives the same event logs and counters under the agent and in virtual time."""

from collections import Counter
from pathlib import Path

import pytest

from hostagent.runtime.control import AtDoor
from scenarios.faults import Crash, DropMessage, DuplicateMessage, Restart
from tests.hostagent.conftest import HOSTS, lan, launch
from tests.simulator.scripted import Scripted
from topologies import Link, Network

__all__ = ["lan", "launch"]

LAN = Network("lan", HOSTS, ("s1",), tuple(Link(host, "s1") for host in HOSTS))
PROGRAM = (str(Path(__file__).with_name("scripted.py")),)

SCRIPTS = {
    "timers": (
        "timer late 0.04\ntimer early 0.02\ntimer gone 0.01\ncancel gone\ncancel never\ntimer moved 0.005\ntimer moved 0.06",
    ),
    "answers": ("send h2 answer\nsend h2 answer\nsend h2\ntrace first", "send h2 answer\ntrace second"),
    "storage": ("store a 1\nstore b 2\nstore c 3\nstore b 0\nsend h2", "store a 0"),
    "delivery": ("send h2\ndeliver\ntrace after", "deliver"),
}
# The least that each script leaves in the logs of h1 and h2, so that the last of it can be waited for.
LAST = {"timers": 4, "answers": 7, "storage": 2, "delivery": 5}


def seen(events):
    """What a log says besides when."""
    return [(e.event, e.origin, e.sequence, e.details) for e in events if e.event != "sample"]


class Virtual:
    """Virtual hosts, spoken to as real ones are."""

    def __init__(self, made):
        self.stage = made

    def broadcast(self, host, script):
        self.stage.tell(host, script)
        self.stage.world.run(self.stage.world.now_ns + 1_000_000_000)

    def log(self, host):
        return [tuple(line[2:]) for line in self.stage.logged if line[1] == host]

    def counters(self, host):
        return +Counter(self.stage.world.hosts[host].counters)


@pytest.fixture(params=[None, 0.0, 40.0], ids=["unpacked", "packed", "packed after a wait"])
def both(request, launch, started):
    """Real agents and virtual hosts with the same core, on the same hosts, that pack in the same way."""
    agents = launch("scripted", PROGRAM, pack_ms=request.param)
    agents.start("h1", "h2")
    virtual = Virtual(started(network=LAN, pack_ms=request.param))
    # Nobody listens at h3 in either.
    virtual.stage.world.hosts["h3"].crash()
    return agents, virtual


def same(agents, virtual):
    """Whether both have logged and counted the same at both hosts."""
    return all(
        seen(agents.events(host)) == virtual.log(host) and agents.counters(host) == virtual.counters(host)
        for host in ("h1", "h2")
    )


@pytest.mark.root
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_script_gives_the_same_logs_and_counters(both, name):
    agents, virtual = both
    for script in SCRIPTS[name]:
        virtual.broadcast("h1", script)
        agents.broadcast("h1", script.encode())
        agents.until(lambda: same(agents, virtual))
    assert len(virtual.log("h1")) + len(virtual.log("h2")) >= LAST[name] + 4


@pytest.mark.root
def test_a_restart_gives_both_the_same(both):
    agents, virtual = both
    for host in ("h1", "h2"):
        virtual.broadcast(host, "store a 1\nstore b 2")
        agents.broadcast(host, b"store a 1\nstore b 2")
    agents.until(lambda: same(agents, virtual))
    agents.kill("h1")
    agents.start("h1", incarnation=2)
    virtual.stage.player.inject(Crash(host="h1"))
    virtual.stage.player.inject(Restart(host="h1"))
    virtual.broadcast("h1", "send h2 answer")
    agents.broadcast("h1", b"send h2 answer")
    agents.until(lambda: same(agents, virtual))
    assert ("started", "", 0, {"keys": ["a", "b"]}) in virtual.log("h1")
    assert ("broadcast", "h1", 2, {}) in virtual.log("h1")


@pytest.mark.root
@pytest.mark.parametrize(("fault", "copies"), [(DropMessage, 0), (DuplicateMessage, 2)])
def test_the_door_counts_the_same(both, fault, copies):
    agents, virtual = both
    agents.ask("h2", AtDoor("Copy", 2, copies))
    virtual.stage.player.inject(fault(host="h2", kind="Copy", nth=2))
    # What h2 does after this request it does with the fault at its door.
    virtual.broadcast("h2", "trace waiting")
    agents.broadcast("h2", b"trace waiting")
    agents.until(lambda: same(agents, virtual))
    for _ in range(3):
        virtual.broadcast("h1", "send h2")
        agents.broadcast("h1", b"send h2")
        # One after the other, as in virtual time, or they could be packed.
        agents.until(lambda: same(agents, virtual))
    assert virtual.counters("h2")["received"] == (2 if fault is DropMessage else 3)


def test_calls_come_one_at_a_time_and_effects_in_the_order_of_the_contract(started):
    """A core that is called while it is being called would find its own half-done work."""
    stage = started(network=LAN)
    busy = []

    class Watched(Scripted):
        def on_message(self, sender, message, expensive):
            assert not busy
            busy.append(self)
            super().on_message(sender, message, expensive)
            busy.pop()

    life = stage.world.hosts["h2"].life
    life.core = Watched(life.core.env, None)
    stage.tell("h1", "send h2 answer\nsend h2 answer\nsend h3 answer")
    stage.run(100)
    assert stage.received("h2") == [("h1", 1), ("h1", 1)]
    assert stage.received("h1") == [("h2", 1), ("h2", 1), ("h3", 1)]
