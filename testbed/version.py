"""The version of Castbed itself: its number and, in a clone, the commit, with a remark if files differ from the commit."""

import os
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


@cache
def castbed_version() -> str:
    """Such as `0.1.0, commit 5061ec9a1b2c, changed`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return ", ".join([str(project["version"]), *_commit(ROOT)])


def _commit(root: Path) -> list[str]:
    """The commit of a clone, and whether tracked files have changed since; nothing without a clone or without git."""
    if not (root / ".git").exists():
        return []
    # Root may read the clone of the user that called sudo, and must leave the files in .git as they are.
    git = [
        "git",
        "-c",
        "safe.directory=*",
        "-C",
        str(root),
        "describe",
        "--always",
        "--exclude=*",
        "--abbrev=12",
        "--dirty= changed",
    ]
    try:
        done = subprocess.run(
            git, env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"}, capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    commit, _, changed = done.stdout.strip().partition(" ")
    return [f"commit {commit}", *([changed] if changed else [])] if done.returncode == 0 else []
