"""Starts the controller by hand: `python -m controller NETWORK.json --listen 127.0.0.1:6653 --log controller.jsonl`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from controller.address import address
from controller.log import Log
from controller.routes import Groups
from controller.server import run
from topologies.files import load
from topologies.network import NetworkError


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m controller", description="Route packets in a network of Open vSwitch bridges."
    )
    parser.add_argument("network", type=Path, metavar="NETWORK.json", help="the network, as castbed writes it")
    parser.add_argument(
        "--listen",
        type=address,
        default="127.0.0.1:6653",
        metavar="ADDRESS",
        help="127.0.0.1:PORT, where port 0 is any free one, or unix:PATH, a socket for this user only (default: %(default)s)",
    )
    parser.add_argument(
        "--groups", type=Path, metavar="GROUPS.json", help='members by group number, {"1": ["h1", "h2"]}; read again on SIGHUP'
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="append what happens to this file instead of standard output")
    return parser.parse_args(words)


def _read_groups(path: Path) -> Groups:
    return msgspec.json.decode(path.read_bytes(), type=dict[int, tuple[str, ...]])


def main(words: Sequence[str] | None = None) -> None:
    """Run until a signal or an error."""
    arguments = _arguments(words)
    try:
        network = load(arguments.network)
        log = Log(arguments.log.open("a", encoding="utf-8") if arguments.log else sys.stdout)
        run(network, arguments.listen, log, lambda: _read_groups(arguments.groups) if arguments.groups else {})
    except (OSError, NetworkError, msgspec.MsgspecError) as error:
        sys.exit(f"The controller cannot start: {error}")


if __name__ == "__main__":
    main()
