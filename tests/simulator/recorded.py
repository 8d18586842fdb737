"""What a core asks for in each call, written down by whichever driver calls it; run as `hostagent.runtime.launcher` is, for agents."""

import sys
from functools import wraps
from pathlib import Path

import msgspec

from hostagent.contract.environment import Effects
from hostagent.protocols import PROTOCOLS
from hostagent.runtime import launcher
from hostagent.runtime.life import Life
from tests.simulator.scripted import Scripted

CALLS = ("start", "broadcast", "receive", "fire")


def row(name, life, effects):
    """One call and what it asked for, without the times, which differ: of a core's own clock only how far it is ahead."""
    events = []
    for event in effects.events:
        details = dict(event.details)
        if "now_s" in details:
            details["now_s"] = round(details["now_s"] - event.at_ns / 1e9)
        events.append([event.event, event.origin, event.sequence, details])
    return msgspec.to_builtins(
        {
            "call": name,
            "life": life.incarnation,
            "sends": [(to, part.kind, part.purpose, part.body) for to, part in effects.sends],
            "stored": sorted(effects.stored.items()),
            "events": events,
            "deliveries": effects.deliveries,
            "timers": sorted((timer, due_ns is not None) for timer, due_ns in effects.timers.items()),
        }
    )


def recording(name, call, write):
    """The call, which hands `write` its host and its row."""

    @wraps(call)
    def recorded(life, *arguments, **options):
        effects = life.effects
        before = {kind: getattr(effects, kind) for kind in Effects.__slots__ if kind != "datagrams"}
        for kind, container in before.items():
            setattr(effects, kind, type(container)())
        life._seen = 0
        result = call(life, *arguments, **options)
        write(life._env.host, row(name, life, effects))
        for kind, container in before.items():
            asked = getattr(effects, kind)
            (container.update if isinstance(container, dict) else container.extend)(asked)
            setattr(effects, kind, container)
        life._seen = len(effects.events)
        return result

    return recorded


def record(patch, write):
    """Have every life of this process write down its calls; `patch(owner, name, value)` sets an attribute."""
    for name in CALLS:
        patch(Life, name, recording(name, getattr(Life, name), write))


def rows_of(folder: Path, host: str) -> list[dict]:
    path = folder / f"{host}.rows"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [msgspec.json.decode(line) for line in lines]


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1]).parent

    def append(host, written):
        with (FOLDER / f"{host}.rows").open("ab") as file:
            file.write(msgspec.json.encode(written) + b"\n")

    record(setattr, append)
    PROTOCOLS["scripted"] = Scripted
    launcher.main()
