"""The command python: an interpreter in which `import castbed` works."""

import os
import sys
from argparse import Namespace


def python(arguments: Namespace) -> int:
    """Become that interpreter. A user's script finds the modules beside it, as with any Python."""
    os.environ.pop("PYTHONSAFEPATH", None)
    os.execv(sys.executable, [sys.executable, *arguments.words])  # noqa: S606 - what the user asks for
