"""The controller's log of a run, as `controller.log` describes it, for readers that want to know when routes changed."""

from pathlib import Path

import msgspec


class ControllerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log; of the fields that only some events have, those that readers use."""

    at_ns: int
    event: str
    switch: str = ""
    ports: tuple[int, ...] = ()
    took_ms: float = 0.0


def read_controller_log(directory: Path) -> tuple[ControllerEvent, ...]:
    """What the controller of a run did. A simulated run has no log, and a controller that was killed may leave half a line."""
    path = directory / "controller.jsonl"
    if not path.exists():
        return ()
    events = []
    for line in path.read_bytes().splitlines():
        try:
            events.append(msgspec.json.decode(line, type=ControllerEvent))
        except msgspec.MsgspecError:
            continue
    return tuple(events)
