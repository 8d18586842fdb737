"""A world in which every step can be looked at."""

from dataclasses import dataclass, field

import pytest

from hostagent.contract.messages import EVERYBODY
from scenarios.faults import Fault
from simulator.faults import FaultPlayer
from simulator.world import World
from tests.simulator.scripted import Scripted
from topologies import find

MS = 1_000_000


@dataclass
class Stage:
    """A world, what its hosts log, and the faults that are played in it."""

    world: World
    logged: list[tuple[int, str, str, str, int, dict]] = field(default_factory=list)
    player: FaultPlayer | None = None

    def play(self, *faults: Fault) -> None:
        self.player = FaultPlayer(self.world, faults)

    def start(self) -> None:
        for name, host in self.world.hosts.items():
            if name not in self.player.absent:
                host.start()

    def tell(self, host: str, script: str = "", at_ms: float = 0, to: int = EVERYBODY) -> None:
        """Have a host broadcast a script, some time from now."""
        there = self.world.hosts[host]
        self.world.after(round(at_ms * MS), there.do, there.broadcast, script.encode(), to)

    def run(self, until_ms: float) -> None:
        self.world.run(round(until_ms * MS))

    def events(self, host: str, *kinds: str) -> list[tuple[int, str]]:
        """When which of these events happened at a host."""
        return [(at_ns, event) for at_ns, where, event, *_ in self.logged if where == host and event in kinds]

    def details(self, host: str, event: str) -> list[dict]:
        return [details for _, where, kind, _, _, details in self.logged if (where, kind) == (host, event)]

    def received(self, host: str) -> list[tuple[str, int]]:
        """Sender and sequence of every message that the core of a host was given."""
        return [(seen["sender"], seen["sequence"]) for seen in self.details(host, "message")]

    def timers(self, host: str) -> list[tuple[float, str]]:
        """When which timer fired, in milliseconds."""
        return [
            (at_ns / MS, details["name"])
            for at_ns, where, event, _, _, details in self.logged
            if where == host and event == "timer"
        ]


@pytest.fixture
def stage():
    """Makes a stage with a network, by its name on the command line, and a core."""

    def make(
        topology="clusters:k=2,size=2,shape=line,delay=10ms",
        core=Scripted,
        seed=1,
        parameters=None,
        network=None,
        **options,
    ):
        made = Stage(World(network or find(topology), core, parameters or core.Parameters(), seed, **options))
        made.world.on_log = lambda host, event: made.logged.append(
            (event.at_ns, host, event.event, event.origin, event.sequence, event.details)
        )
        return made

    return make


@pytest.fixture
def started(stage):
    """The same, with all hosts started."""

    def make(*arguments, faults=(), **options):
        made = stage(*arguments, **options)
        made.play(*faults)
        made.start()
        return made

    return make
