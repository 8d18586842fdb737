"""One history through all three drivers: the agent on real sockets, the host in virtual time, and the world of the tests.

Each step is taken by all of them, and what the core asked for in each call must be the same.
"""

import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.delivery import Copy
from hostagent.parts.links import Acknowledgement, Letter
from hostagent.protocols import PROTOCOLS
from hostagent.protocols.basic import Ack
from hostagent.runtime.control import AtDoor, CrashWhen, SetClock
from simulator.world import World as VirtualWorld
from tests.hostagent.conftest import HOSTS, lan, launch, stranger
from tests.hostagent.world import World
from tests.simulator.recorded import record, rows_of
from tests.simulator.scripted import Scripted
from topologies import Link, Network

__all__ = ["lan", "launch", "stranger"]

LAN = Network("lan", HOSTS, ("s1",), tuple(Link(host, "s1") for host in HOSTS))
PROGRAM = (str(Path(__file__).with_name("recorded.py")),)
AHEAD_NS = 3600 * 10**9
# No timer of a protocol expires while a step is waited for.
NEVER = {"retry_ms": 1e7, "longest_retry_ms": 1e7}
WATCHFUL = NEVER | {"period_ms": 1e7, "timeout_ms": 2e7, "longest_timeout_ms": 3e7}
PATIENT_TREE = {f"{name}_ms": 1e7 for name in ("eic", "ein", "epp", "gfc", "gfn", "gfx", "np1", "np2")} | {
    "pa_ms": 2e7,
    "mode": "literal",
}


class Plain:
    """The host h1 of the test world; the others only say what the history has them say."""

    def __init__(self, core, parameters):
        self.world = World(core, len(HOSTS), 1, **parameters)
        self.host = self.world["h1"]

    def broadcast(self, payload):
        self.world.broadcast("h1", payload)

    def receive(self, message):
        self.host.life.receive("h3", [message], expensive=False)
        self.host.carry_out()

    def at_door(self, fault):
        self.host.life.fault_at_door(fault)

    def set_clock(self):
        self.host.clock.put_off(AHEAD_NS, 1.0, 0)

    def expire(self):
        name = min(self.host.timers, key=self.host.timers.get)
        self.world.now_s = self.host.timers.pop(name)
        self.host.life.fire(name)
        self.host.carry_out()

    def crash(self):
        self.host.life = None

    def restart(self, *crashes, lost=False):
        if lost:
            self.host.storage.clear()
        self.host.start(crashes)

    def pause(self):
        self.waiting = self.receive
        self.receive = lambda message: setattr(self, "late", message)

    def resume(self):
        self.receive = self.waiting
        self.receive(self.late)

    def leaves(self):
        return len([packet for packet in self.world.sent if packet.sender == "h1"])


class Virtual:
    """The host h1 in virtual time."""

    def __init__(self, core, parameters):
        self.world = VirtualWorld(LAN, core, msgspec.convert(parameters, core.Parameters), 1, pack_ms=None)
        self.host = self.world.hosts["h1"]
        self.host.start()

    def broadcast(self, payload):
        self.host.do(self.host.broadcast, payload)

    def receive(self, message):
        self.host.do(self.host.receive, "h3", (self.world.codec.part(message, Purpose.DATA),), False)

    def at_door(self, fault):
        self.host.life.fault_at_door(fault)

    def set_clock(self):
        self.host.set_clock(AHEAD_NS, 1.0)

    def expire(self):
        self.world.run(self.world.now_ns + 10**8)

    def crash(self):
        self.host.crash()

    def restart(self, *crashes, lost=False):
        if lost:
            self.host.lose_storage()
        self.host.crashes = crashes
        self.host.start()

    def pause(self):
        self.host.pause()

    def resume(self):
        self.host.resume()

    def leaves(self):
        return self.host.counters["sent"]


class Real:
    """The agent of h1, in a namespace."""

    def __init__(self, agents, sender):
        self.agents, self.sender = agents, sender
        self.incarnation, self.clock, self.packet = 1, None, 0
        agents.start("h1")

    def broadcast(self, payload):
        self.agents.broadcast("h1", payload)

    def receive(self, message):
        self.packet += 1
        self.sender.send("h1", self.sender.codec.encode(3, self.packet, message, Purpose.DATA, 0))

    def at_door(self, fault):
        self.agents.ask("h1", fault)

    def set_clock(self):
        self.clock = SetClock(AHEAD_NS, 1.0, time.time_ns())
        self.agents.ask("h1", self.clock)

    def expire(self):
        """A timer expires by itself."""

    def crash(self):
        self.agents.kill("h1")

    def restart(self, *crashes, lost=False):
        if lost:
            self.agents.setting.storage("h1").unlink()
        self.incarnation += 1
        self.agents.start("h1", incarnation=self.incarnation, clock=self.clock, crashes=crashes)

    def pause(self):
        os.kill(self.agents.pids["h1"], signal.SIGSTOP)

    def resume(self):
        os.kill(self.agents.pids["h1"], signal.SIGCONT)

    def leaves(self):
        return self.agents.counters("h1")["sent"]


@pytest.fixture
def drivers(launch, stranger, monkeypatch, tmp_path):
    """Makes the three drivers of a protocol, and says what each has written down."""
    written = []
    record(monkeypatch.setattr, lambda host, row: host == "h1" and written.append(msgspec.json.decode(msgspec.json.encode(row))))

    def make(core, **parameters):
        agents = launch(core.name, PROGRAM, pack_ms=None, **parameters)
        sender = stranger(core.number)
        sender.codec = type(sender.codec)(core.number, core.messages, agents.setting.run, {h: n for n, h in enumerate(HOSTS, 1)})
        made = []
        for kind in (Plain, Virtual):
            start = len(written)
            driver = kind(core, parameters)
            made.append((driver, written[start:]))
            del written[start:]
        real = Real(agents, sender)

        def take(step, *arguments, **options):
            """Let all take a step; what the core was called with and asked for is the same in all."""
            for driver, driven in made:
                getattr(driver, step)(*arguments, **options)
                driven.extend(written)
                written.clear()
            (tested, expected), (virtual, rows) = made
            assert rows == expected
            getattr(real, step)(*arguments, **options)
            agents.until(lambda: len(rows_of(tmp_path, "h1")) >= len(expected))
            assert rows_of(tmp_path, "h1") == expected
            assert virtual.leaves() == tested.leaves()
            agents.until(lambda: real.leaves() == tested.leaves())
            return expected[-1]

        assert made[0][1] == made[1][1]
        return take, agents

    return make


@pytest.mark.root
def test_one_history_gives_the_same_effects_under_all_drivers(drivers):
    take, agents = drivers(Scripted)
    assert (
        take("broadcast", b"store a 1\nsend h2\nsend h3\ntrace x\ndeliver\ntimer gone 9\ncancel gone")["events"][0][0]
        == "broadcast"
    )
    take("broadcast", b"timer t 0.03")
    assert take("expire")["call"] == "fire"
    take("receive", Copy(0, "h3", 1, b"answer"))
    take("set_clock")
    assert take("broadcast", b"clock")["events"][-1] == ["clock", "", 0, {"now_s": 3600}]
    take("at_door", AtDoor("Copy", 1, copies=0))
    # Broadcast after the request, which the agent reads in its order.
    take("broadcast", b"trace waiting")
    assert not take("receive", Copy(0, "h3", 2, b"answer"))["events"]
    take("at_door", AtDoor("Copy", 1, copies=2))
    take("broadcast", b"trace waiting")
    assert len(take("receive", Copy(0, "h3", 3, b"answer"))["sends"]) == 2
    take("pause")
    take("receive", Copy(0, "h3", 9, b""))
    assert take("resume")["events"]
    take("at_door", AtDoor("Copy", 1, copies=0))
    take("crash")
    take("restart", CrashWhen("send", nth=1))
    # The fault at the door has ended with the agent, the fault of the clock has not.
    assert take("broadcast", b"store b 2\nclock\nsend h2\nsend h3\nstore c 3")["events"][-1][3] == {"now_s": 3600}
    assert agents.report("died", "h1") == "-9"
    assert take("restart")["events"][-1] == ["started", "", 0, {"keys": ["a", "b", "c"]}]
    assert take("receive", Copy(0, "h3", 4, b"answer"))["sends"]
    assert take("broadcast", b"")["events"][0] == ["broadcast", "h1", 7, {}]
    take("crash")
    take("restart", CrashWhen("x"), lost=True)
    take("broadcast", b"send h2\ntrace x\nstore d 4")
    assert agents.report("died", "h1") == "-9"
    assert take("restart")["events"][-1] == ["started", "", 0, {"keys": ["d"]}]
    assert take("broadcast", b"clock")["events"] == [["broadcast", "h1", 2, {}], ["clock", "", 0, {"now_s": 3600}]]


MESSAGES = {
    "basic": (Copy(0, "h3", 1, b"x"), Ack(0, "h1", 1), Copy(0, "h3", 3, b"x")),
    "best-effort": (Letter(0, "h3", 1, 1, 1, b"x"), Acknowledgement(0, "h1", 1, 1)),
    "eager-reliable": (Letter(0, "h3", 1, 1, 1, b"x"), Acknowledgement(0, "h1", 1, 1), Letter(0, "h3", 2, 4, 3, b"y")),
    "lazy-reliable": (Letter(0, "h3", 1, 1, 1, b"x"), Acknowledgement(0, "h1", 1, 1), Letter(0, "h3", 2, 4, 3, b"y")),
    "uniform": (Letter(0, "h3", 1, 1, 1, b"x"), Acknowledgement(0, "h1", 1, 1), Letter(0, "h1", 1, 2, 1, b"y")),
    "cluster-tree": (Copy(0, "h3", 1, b"x"), Copy(0, "h1", 2, b"x")),
}
PARAMETERS = {"lazy-reliable": WATCHFUL, "uniform": WATCHFUL, "cluster-tree": PATIENT_TREE}


@pytest.mark.root
@pytest.mark.parametrize("name", MESSAGES)
def test_a_protocol_asks_for_the_same_under_all_drivers(drivers, name):
    take, _ = drivers(PROTOCOLS[name], **PARAMETERS.get(name, NEVER))
    take("broadcast", b"first")
    for message in MESSAGES[name]:
        take("receive", message)
    take("broadcast", b"second")
    take("crash")
    assert take("restart")["call"] == "start"
    take("broadcast", b"third")
    take("crash")
    take("restart", lost=True)
    take("broadcast", b"fourth")
