"""Protocols of users: a file with one core, or a program, which takes its place beside Castbed's own protocols while a process lives.

The protocol is called as its file is, without `.py`, and all of them have the same number on the wire, which no protocol of Castbed has.
A file is read once, when the command begins. Its text goes with the run: to workers, to agents and into the result directory, so everything
runs the same code, also if the user changes the file meanwhile. A protocol is one file: it may import Castbed's modules and installed
packages, and not files beside it, which would be missing when the run is repeated elsewhere. A program is started where it is, so it may
have files beside it; a run has a copy of the program alone.
"""

import inspect
import linecache
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.messages import Message
from hostagent.contract.promises import Promise
from hostagent.protocols import PROTOCOLS
from hostagent.runtime.failures import USERS_FAULT, CoreFailed, ProtocolError, failure_of, place_of
from hostagent.runtime.guests import catalogue
from hostagent.runtime.guests.core import core_of
from hostagent.runtime.maelstrom.core import Maelstrom

SUFFIX: Final = ".py"
MAELSTROM: Final = "maelstrom:"
"""What a user writes before a program that speaks the JSON lines of Maelstrom."""
NUMBER: Final = 254
"""The number on the wire of every protocol of a user. A run has one protocol, so two of them never meet."""
_HOSTS: Final = 3
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class Own(msgspec.Struct, frozen=True):
    """A user's protocol: its file as it was read, which is a core in Python or a program."""

    path: str
    """The file as the user named it, for messages."""
    source: bytes
    words: tuple[str, ...] | None = None
    """The arguments of a program; None for a core."""

    @property
    def is_guest(self) -> bool:
        """Whether this is a guest, which is installed and has no file."""
        return self.path.startswith(catalogue.PREFIX)

    @property
    def file_name(self) -> str:
        """The name of the file, without its directory."""
        return Path(self.path).name


LOADED: Final[dict[str, Own]] = {}
"""The protocols of users that this process knows, by name. Their cores are in `PROTOCOLS`."""


def find(word: str) -> str:
    """The name of the protocol that a user asks for by its name, file or program, which is loaded. Other names are returned as they are."""
    if word.startswith(MAELSTROM):
        return _find_program(word)
    if word.startswith(catalogue.PREFIX):
        return _find_guest(word)
    if not word.endswith(SUFFIX):
        return word
    path = Path(word)
    load({path.stem: Own(word, _read(path))})
    return path.stem


def _find_program(word: str) -> str:
    """The name of the protocol that is a program, written `maelstrom:PROGRAM ARGUMENTS...`: that of its file without what follows a dot."""
    try:
        program, *words = shlex.split(word.removeprefix(MAELSTROM))
    except ValueError:
        raise ProtocolError(
            f"protocol {word!r}: write {MAELSTROM}./my-node, and arguments after the program if it has some"
        ) from None
    path = Path(program)
    source = _read(path)
    if not os.access(path, os.X_OK):
        raise ProtocolError(f"protocol {program} is not a program: make it executable with chmod +x {shlex.quote(program)}")
    load({path.stem: Own(program, source, tuple(words))})
    return path.stem


def _find_guest(word: str) -> str:
    """The name of a guest, written `guest:NAME`."""
    name = word.removeprefix(catalogue.PREFIX)
    if name not in catalogue.GUESTS:
        raise ProtocolError(f"there is no guest {name!r}: there are {', '.join(catalogue.GUESTS)}")
    if not catalogue.GUESTS[name].is_installed:
        raise ProtocolError(f"the guest {name} is not installed: ./castbed guests {name} does that")
    load({name: Own(word, b"", ())})
    return name


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProtocolError(f"protocol {path} cannot be read: {error.strerror}") from None


def load(protocols: Mapping[str, Own]) -> None:
    """Make users' protocols known to this process, unless it knows them already."""
    for name, own in protocols.items():
        if LOADED.get(name) != own:
            PROTOCOLS[name] = _core(name, own)
            LOADED[name] = own


def blamed(error: BaseException) -> CoreFailed | None:
    """An exception that came from a user's file without an event of a host, as from the promise of a protocol; None for all others."""
    found = [CoreFailed(failure_of(error, name, own.path)) for name, own in LOADED.items() if place_of(error, {own.path})]
    return found[0] if found else None


def _core(name: str, own: Own) -> type[Core]:
    """The core in a user's file, checked as far as it can be before it runs."""
    if not _NAME.fullmatch(name):
        raise ProtocolError(
            f"protocol {own.path}: rename the file, so that its name has only letters, digits, _ and - before the dot"
        )
    if name in PROTOCOLS and name not in LOADED:
        raise ProtocolError(f"protocol {own.path}: Castbed has a protocol {name} already, so rename the file")
    if own.is_guest:
        return core_of(catalogue.GUESTS[name], NUMBER)
    if own.words is not None:
        command = (str(Path(own.path).absolute()), *own.words)
        return type(name, (Maelstrom,), {"name": name, "number": NUMBER, "file": own.path, "words": command})
    module = _executed(name, own)
    found: list[type[Core]] = [kind for kind in vars(module).values() if _is_core(kind, module)]
    if len(found) != 1:
        named = ", ".join(kind.__name__ for kind in found) or "none"
        raise ProtocolError(f"protocol {own.path} must have exactly one subclass of Core, and has {len(found)}: {named}")
    (core,) = found
    core.name, core.number, core.file = name, NUMBER, own.path
    _check(core, own)
    return core


def _executed(name: str, own: Own) -> ModuleType:
    """The module of a user's file. It is registered, as the types of messages are looked up in their module."""
    module = ModuleType(f"castbed_protocol_{name}")
    module.__file__ = own.path
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        # A traceback shows the lines that ran, and not those that the file has now.
        lines = own.source.decode(errors="replace").splitlines(keepends=True)
        linecache.cache[own.path] = len(own.source), None, lines, own.path
        exec(compile(own.source, own.path, "exec"), vars(module))  # noqa: S102 - the user asks for it
    except USERS_FAULT as error:
        if before is not None:
            sys.modules[module.__name__] = before
        raise ProtocolError(f"protocol {own.path} cannot be loaded{_why(error, own)}") from error
    return module


def _is_core(kind: object, module: ModuleType) -> bool:
    return isinstance(kind, type) and issubclass(kind, Core) and kind.__module__ == module.__name__


def _check(core: type[Core], own: Own) -> None:
    """Refuse a core that could not run: without what every core has, or with a promise that cannot be made."""
    what = f"protocol {own.path}: {core.__name__}"
    if inspect.isabstract(core):
        raise ProtocolError(f"{what} lacks {', '.join(sorted(core.__abstractmethods__))}(), which every core has")
    messages: Any = getattr(core, "messages", None)
    if not isinstance(messages, tuple) or not all(isinstance(kind, type) and issubclass(kind, Message) for kind in messages):
        raise ProtocolError(f"{what} must have messages, a tuple with its kinds of messages, such as messages = (Copy,)")
    try:
        promise: object = core.promise(core.Parameters(), _HOSTS)
    except USERS_FAULT as error:
        raise ProtocolError(f"{what}: its promise with default parameters cannot be made{_why(error, own)}") from error
    if not isinstance(promise, Promise):
        raise ProtocolError(f"{what}: promise() must return a Promise, and returns a {type(promise).__name__}")


def _why(error: BaseException, own: Own) -> str:
    """Where and why a user's file failed."""
    if isinstance(error, SyntaxError):
        return f" at {error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    place = place_of(error, {own.path})
    hint = ": a protocol is one file" if isinstance(error, ModuleNotFoundError) else ""
    return f"{f' at {place.file}:{place.line}' if place else ''}: {type(error).__name__}: {error}{hint}"
