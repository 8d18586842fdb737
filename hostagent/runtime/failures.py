"""Exceptions in protocols: which line raised them, at which host, at which event. They end a run at once, on both engines."""

import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec

from hostagent.contract.environment import NS_PER_S

USERS_FAULT: Final = (Exception, SystemExit)
"""What a user's file may raise. Without SystemExit here, a protocol that calls sys.exit(0) would end as if all were well."""
_ROOT: Final = Path(__file__).parents[2]


class ProtocolError(Exception):
    """A protocol that cannot be used, in a sentence."""


class Place(msgspec.Struct, frozen=True):
    """A line of a file."""

    file: str
    line: int
    """0 for the file as a whole."""
    function: str
    text: str


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An exception in a core."""

    protocol: str
    host: str
    """Empty if the exception came at no host, as from the promise of the protocol."""
    at_ns: int
    """When it came: since the start of the run in virtual time, else since 1970."""
    event: str
    """What happened at the host, such as `when Copy h1:5 arrived from h1`."""
    error: str
    place: Place
    is_users: bool
    """Whether the line is in a user's file, and not in Castbed's."""
    trace: str
    """Python's own report."""
    seed: int | None = None
    """In a campaign, the seed of the case."""


class CoreFailed(Exception):
    """An exception in a core; the message says where, and what led there."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        failure = self.failure
        place = failure.place
        where = f"{place.file}:{place.line}, in {place.function}" if place.line else place.file
        told = [f"protocol {failure.protocol} failed at {where}: {failure.error}"]
        if place.text:
            told.append(f"    {place.text}")
        if failure.host:
            told.append(f"  at {failure.host}, {failure.at_ns / NS_PER_S:.6f} s after the start, {failure.event}")
        return "\n".join(told)


def place_of(error: BaseException, files: Collection[str] = ()) -> Place | None:
    """The innermost line of an exception in one of these files; without files, the innermost line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not files or frame.filename in files]
    if not frames:
        return None
    last = frames[-1]
    path = Path(last.filename)
    shown = path.relative_to(_ROOT) if not files and path.is_relative_to(_ROOT) else path
    return Place(str(shown), last.lineno or 0, last.name, last.line or "")


def failure_of(error: BaseException, protocol: str, file: str, host: str = "", at_ns: int = 0, event: str = "") -> Failure:
    """An exception that a core raised; `file` is that of a user's protocol, or empty."""
    place = place_of(error, {file} if file else ()) or Place(file, 0, "", "")
    told = "sys.exit() was called, which a protocol must not do" if isinstance(error, SystemExit) else str(error)
    return Failure(
        protocol=protocol,
        host=host,
        at_ns=at_ns,
        event=event,
        error=f"{type(error).__name__}: {told}" if told else type(error).__name__,
        place=place,
        is_users=bool(file),
        trace="".join(traceback.format_exception(error)),
    )
