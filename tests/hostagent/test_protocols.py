"""What every protocol owes the world, whatever it does."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import hostagent
from hostagent.contract.core import Core, Parameters
from hostagent.contract.messages import Message
from hostagent.protocols import PROTOCOLS
from simulator.swarm import troubles

ROOM = Path(hostagent.__file__).parent
CORES = sorted(file for place in ("contract", "parts", "protocols") for file in (ROOM / place).rglob("*.py"))
# Whatever reads a clock, waits, talks, or draws from anything but the generator that the environment gives.
FORBIDDEN = {"time", "datetime", "random", "secrets", "uuid", "socket", "asyncio", "threading", "logging", "os", "sys"}


@pytest.fixture(params=PROTOCOLS.values(), ids=PROTOCOLS)
def core(request) -> type[Core]:
    return request.param


def test_it_says_what_it_is(core):
    assert all(getattr(core, name) for name in ("name", "summary", "assumes", "messages"))
    assert "\n" not in core.summary + core.assumes
    assert 0 < core.number < 256
    promise = core.promise(core.Parameters(), hosts=5)
    assert promise.guarantees
    assert promise.patience_ms >= 0
    assert core.beyond <= set(troubles(core, promise))
    assert issubclass(core.Parameters, Parameters)
    assert sys.modules[core.__module__].__doc__


def test_its_parameters_have_defaults_and_refuse_unknown_names(core):
    assert msgspec.convert({}, core.Parameters) == core.Parameters()
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"no such parameter": 1}, core.Parameters)


def test_its_messages_are_frozen(core):
    assert core.messages
    for kind in core.messages:
        assert issubclass(kind, Message)
        assert kind.__struct_config__.frozen


def test_it_is_told_of_a_timer_that_it_never_set(core):
    with pytest.raises((LookupError, ValueError)):
        core.on_timer(object.__new__(core), "no such timer")


def test_names_and_numbers_are_unique():
    assert all(name == core.name for name, core in PROTOCOLS.items())
    assert len({core.number for core in PROTOCOLS.values()}) == len(PROTOCOLS)


def imported(file: Path) -> set[str]:
    """The modules a file imports; the `Random` type alone is no source of randomness."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                found |= {name.name.split(".")[0] for name in names}
            case ast.ImportFrom(module="random", names=[ast.alias(name="Random")]):
                pass
            case ast.ImportFrom(module=module):
                found.add(str(module).split(".")[0])
    return found


@pytest.mark.parametrize("file", CORES, ids=lambda file: str(file.relative_to(ROOM)))
def test_a_core_imports_no_clock_no_randomness_and_no_input_or_output(file):
    assert not imported(file) & FORBIDDEN


def test_the_check_on_imports_can_fail(tmp_path):
    (tmp_path / "core.py").write_text("import os.path\nfrom random import Random, choice\nfrom time import monotonic")
    assert imported(tmp_path / "core.py") == {"os", "random", "time"}


TRACE = """
from random import Random
from hostagent.protocols import PROTOCOLS
from world import World
for core in PROTOCOLS.values():
    random, world = Random({seed}), World(core, 5, seed={seed})
    for _ in range(200):
        world.broadcast(random.choice(world.hosts)) if random.random() < 0.1 else None
        world.hand_over(random.randrange) if world.in_flight else None
        world.lose(random.choice(world.hosts)) if random.random() < 0.1 else None
        world.expire() if world.timers() and random.random() < 0.3 else None
        world.restart(random.choice(world.hosts)) if random.random() < 0.05 else None
    print(world.now_s, world.sent, [world[host].delivered for host in world.hosts])
"""


def trace(seed: int, hash_seed: int) -> bytes:
    command = [sys.executable, "-c", TRACE.format(seed=seed)]
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": f"{ROOM.parent}:{here}"}
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout


def test_the_same_seed_gives_the_same_trace_under_any_hash_seed():
    assert trace(seed=1, hash_seed=1) == trace(seed=1, hash_seed=2) != trace(seed=2, hash_seed=1)
