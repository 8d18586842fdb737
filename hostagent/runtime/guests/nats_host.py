"""NATS at one host: a server of the cluster, and a client of it, which publishes and subscribes to one subject.

The client speaks the protocol of NATS in text (docs.nats.io, *Client Protocol*), on the machine itself. It subscribes to two subjects: a
host is ready when it has heard each other host say hello, so the servers of all are connected.
"""

import socket
import threading
import time

from hostagent.runtime.guests.surroundings import GuestHost, Surroundings

_CLIENTS, _ROUTES = 4222, 6222
_AGAIN_S = 0.1
# Hosts that are down or cut off are not waited for longer than this.
_FORMS_S = 10.0


def start(host: Surroundings) -> GuestHost:
    """Start the server, and wait until the hosts hear each other."""
    routes = ",".join(f"nats://{address}:{_ROUTES}" for address in host.addresses if address != host.address)
    program = str(host.installed / "usr/sbin/nats-server")
    words = ["--addr", host.address, "--port", str(_CLIENTS), "--cluster_name", "castbed"]
    host.start([program, *words, "--cluster", f"nats://{host.address}:{_ROUTES}", "--routes", routes])
    return _Client(host)


class _Client:
    """The connection to this host's server."""

    def __init__(self, host: Surroundings) -> None:
        self._host, self._heard, self._lock = host, set[bytes](), threading.Lock()
        self._socket = self._connected()
        self._socket.sendall(b'CONNECT {"verbose":false}\r\nSUB castbed 1\r\nSUB hello 2\r\n')
        threading.Thread(target=self._listen, daemon=True).start()
        deadline = time.monotonic() + _FORMS_S
        while len(self._heard) < len(host.addresses) and time.monotonic() < deadline:
            self._publish("hello", str(host.number).encode())
            time.sleep(_AGAIN_S)
        # Others may not have heard this host yet.
        self._publish("hello", str(host.number).encode())

    def broadcast(self, message: bytes) -> None:
        """Publish a message."""
        self._publish("castbed", message)

    def _connected(self) -> socket.socket:
        while True:
            try:
                return socket.create_connection((self._host.address, _CLIENTS))
            except ConnectionRefusedError:
                # The server is not up yet. If it ends, so does this process.
                time.sleep(_AGAIN_S)

    def _publish(self, subject: str, message: bytes) -> None:
        with self._lock:
            self._socket.sendall(f"PUB {subject} {len(message)}\r\n".encode() + message + b"\r\n")

    def _listen(self) -> None:
        lines = self._socket.makefile("rb")
        for line in lines:
            match line.split():
                case [b"MSG", subject, _, length]:
                    message = lines.read(int(length) + 2)[:-2]
                    if subject == b"hello":
                        self._heard.add(message)
                    else:
                        self._host.deliver(message)
                case [b"PING"]:
                    with self._lock:
                        self._socket.sendall(b"PONG\r\n")
