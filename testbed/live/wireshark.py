"""Wireshark on a link of a network that is up, with the names of hosts, protocols and messages."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hostagent.tools.dissector import dissector


def show(interface: str, private: Path, hosts: Sequence[str]) -> str:
    """Open Wireshark on an interface, or, where there is no screen or no Wireshark, return the command for another terminal.

    The dissector is a file in the private directory of the run, which is removed with the network.
    """
    lua = private / "castbed.lua"
    lua.write_text(dissector(hosts))
    words = ["-i", interface, "-X", f"lua_script:{lua}"]
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if has_screen and (program := shutil.which("wireshark")):
        command = [program, "-k", *words]
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        return f"Wireshark shows {interface}, both directions"
    reason = "Wireshark is not installed" if has_screen else "there is no screen"
    return f"{reason}; in another terminal: sudo {shlex.join(['tshark', *words])}"
