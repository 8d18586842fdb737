"""The address that a controller listens at."""

import argparse
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

Address = Path | tuple[str, int]
"""The path of a Unix socket, or a host and a TCP port."""


def address(text: str) -> Address:
    """Read `unix:PATH`, a socket that only its owner can connect to, or `127.0.0.1:PORT`, which is open to every local user."""
    return Path(text.removeprefix("unix:")) if text.startswith("unix:") else loopback(text)


def loopback(text: str) -> tuple[str, int]:
    """Read `127.0.0.1:PORT`. The address must not be reachable from other machines."""
    host, _, port = text.rpartition(":")
    try:
        address, number = IPv4Address(host), int(port)
    except (AddressValueError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 127.0.0.1:PORT") from None
    if not address.is_loopback:
        raise argparse.ArgumentTypeError(
            f"{host} is open to other machines: listen at an address in 127.0.0.0/8, such as 127.0.0.1"
        )
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port: choose one from 0 (any free one) to 65535")
    return host, number
