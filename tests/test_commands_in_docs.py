"""What the pages say to type is understood: the command line knows every command in the README and in docs/."""

import re
import shlex
from pathlib import Path

import pytest

from testbed.__main__ import parser

ROOT = Path(__file__).parents[1]
# What ends a command in a shell, or what a page says beside it.
END = re.compile(r"\s{2,}|\s#|\s[|<>]")


def commands(page: Path) -> list[str]:
    """The words after ./castbed in lines of code, as typed."""
    text = re.sub(r"\s*\\\n\s*", " ", page.read_text())
    typed = re.findall(r"^    (?:\$ )?(?:.* && )?(?:sudo )?\./castbed (.+)$", text, re.MULTILINE)
    # pytest reads the options of `test`.
    return [END.split(words)[0] for words in typed if not words.startswith("test ")]


PAGES = [page for page in (ROOT / "README.md", ROOT / "HACKING.md", *sorted((ROOT / "docs").glob("*.md"))) if commands(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_understood(page, capsys):
    grammar = parser()
    for command in commands(page):
        try:
            words = grammar.parse_args(shlex.split(command))
            if words.verb == "vm":
                grammar.parse_args(words.words)
        except SystemExit:
            pytest.fail(f"{command}: {capsys.readouterr().err}")


def test_the_pages_have_commands():
    assert sum(len(commands(page)) for page in PAGES) > 50
