"""Every import is held to the tables of rooms in ARCHITECTURE.md: which room may use which, and which modules may use big packages."""

import ast
import itertools
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"Ryu": ("ryu", "eventlet"), "Mininet": ("mininet",), "Spark": ("pyspark", "py4j"), "Matplotlib": ("matplotlib",)}
"""What is called what in the second table."""


def expanded(text: str) -> list[str]:
    """The paths in a cell of a table: what is in backticks, with braces written out."""
    found = []
    for word in re.findall(r"`([^`]+)`", text):
        head, brace, rest = word.partition("{")
        inside, _, tail = rest.partition("}")
        found += [f"{head}{part}{tail}".rstrip("/") for part in inside.split(",")] if brace else [word.rstrip("/")]
    return found


@cache
def table(heading: str) -> dict[str, str]:
    """A table of ARCHITECTURE.md: its last column by its first."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    lines = itertools.dropwhile(lambda line: not line.startswith(f"| {heading} "), text.splitlines())
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in itertools.takewhile(lambda line: line.startswith("|"), lines)]
    return {row[0]: row[-1] for row in rows[2:]}


@cache
def rooms() -> dict[str, list[str]]:
    """What each room may import, by its path."""
    every = list({path.partition("/")[0] for first in table("room") for path in expanded(first)})
    return {
        path: every if may == "everything" else expanded(may) for first, may in table("room").items() for path in expanded(first)
    }


def is_in(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


@cache
def room_of(path: str) -> str:
    """The room with the longest name that a module is in; nothing if it is in none."""
    return max((room for room in rooms() if is_in(path, room)), key=len, default="")


@cache
def path_of(module: str) -> str:
    """Where a module of ours is, as the tables write it; nothing for a name that is no module."""
    folder = module.replace(".", "/")
    return f"{folder}.py" if (ROOT / f"{folder}.py").exists() else folder if (ROOT / folder).is_dir() else ""


@cache
def imported(source: str) -> tuple[str, ...]:
    """Every module that a source imports: at the top, in functions, for types only."""
    return tuple(_imported(source))


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are written in full"
            for name in node.names:
                inside = f"{node.module}.{name.name}"
                yield inside if path_of(inside) else node.module or ""


def ours(source: str) -> Iterator[str]:
    top = {room.partition("/")[0] for room in rooms()}
    return (path_of(module) for module in imported(source) if module.partition(".")[0] in top)


def doors(path: str, source: str) -> list[str]:
    """The imports of a module that the tables do not allow."""
    room = room_of(path)
    wrong = [target for target in ours(source) if not any(is_in(target, place) for place in (room, *rooms()[room]))]
    for name, may in table("package").items():
        if any(module.partition(".")[0] in PACKAGES[name] for module in imported(source)):
            wrong += [] if any(is_in(path, place) for place in expanded(may)) else [name]
    return wrong


@cache
def modules() -> dict[str, str]:
    top = sorted({room.partition("/")[0] for room in rooms()})
    return {str(path.relative_to(ROOT)): path.read_text() for folder in top for path in sorted((ROOT / folder).rglob("*.py"))}


def test_every_module_is_in_a_room_that_the_table_has():
    assert [path for path in modules() if not room_of(path) and Path(path).name != "__init__.py"] == []
    assert [room for room in rooms() if not (ROOT / room).exists()] == []


def test_the_tables_name_only_what_there_is():
    named = [place for places in rooms().values() for place in places]
    named += [place for may in table("package").values() for place in expanded(may)]
    assert [place for place in named if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(
    "page", ["ARCHITECTURE.md", "README.md", "HACKING.md", *(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))]
)
def test_pages_name_only_files_that_there_are(page):
    top = {room.partition("/")[0] for room in rooms()}
    named = [path for path in expanded((ROOT / page).read_text()) if "/" in path and path.partition("/")[0] in top]
    assert [path for path in named if " " not in path and not (ROOT / path).exists()] == []


def test_every_import_is_allowed():
    found = {path: doors(path, source) for path, source in modules().items() if room_of(path)}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("path", "source", "door"),
    [
        ("topologies/planted.py", "import hostagent.contract.wire", "hostagent/contract/wire.py"),
        ("hostagent/protocols/planted.py", "from hostagent.runtime import storage", "hostagent/runtime/storage.py"),
        ("runfiles/planted.py", "def late():\n    from analysis.figures import summary", "analysis/figures/summary.py"),
        ("analysis/judging/planted.py", "from analysis.pages.terminal_tables import judgement_table", "analysis/pages/terminal_tables.py"),
        ("analysis/figures/planted.py", "if TYPE_CHECKING:\n    from testbed.errors import CannotRun", "testbed/errors.py"),
        ("simulator/planted.py", "from controller import app", "controller/app.py"),
        ("testbed/running/planted.py", "from testbed.live.session import Live", "testbed/live/session.py"),
        ("testbed/running/planted.py", "def late():\n    from mininet.net import Mininet", "Mininet"),
        ("analysis/figures/planted.py", "import matplotlib.pyplot as plt", "Matplotlib"),
        ("simulator/planted.py", "from pyspark.sql import SparkSession", "Spark"),
        ("testbed/commands/planted.py", "import ryu", "Ryu"),
    ],
)  # fmt: skip
def test_a_planted_door_is_found(path, source, door):
    assert doors(path, source) == [door]


def test_rooms_do_not_import_in_circles():
    graph: dict[str, set[str]] = {}
    for path, source in modules().items():
        if room := room_of(path):
            graph.setdefault(room, set()).update(map(room_of, ours(source)))
    sorter = TopologicalSorter({room: targets - {room, ""} for room, targets in graph.items()})
    assert set(sorter.static_order()) == set(graph)


def test_a_room_can_be_seen_at_a_glance():
    """Tests are as many as there is to test; a property is a file, and they are all alike."""
    folders: dict[Path, int] = {}
    for path in (Path(name) for name in modules() if not name.startswith("tests/") and not name.endswith("__init__.py")):
        folders[path.parent] = folders.get(path.parent, 0) + 1
    assert {folder: number for folder, number in folders.items() if number > 12 and folder.name != "properties"} == {}
