"""etcd at one host: a member of the cluster, a client that puts each message under a key of its own, and one that watches the keys.

Clients speak JSON over HTTP (etcd's gRPC gateway) with the member on the machine itself. Keys are watched from the first revision on, so a
host that restarts is told everything again.
"""

import base64
import http.client
import json
import threading
import time
from typing import Any

from hostagent.runtime.guests.surroundings import GuestHost, Surroundings

_CLIENTS, _PEERS = 2379, 2380
_AGAIN_S = 0.1
_FIRST, _BEYOND = b"castbed/", b"castbed0"
"""Keys begin with the first; the second is the least that is greater than all of them."""


def start(host: Surroundings) -> GuestHost:
    """Start the member, and wait until it answers a question that takes a majority."""
    members = {f"n{number}": f"http://{address}:{_PEERS}" for number, address in enumerate(host.addresses, start=1)}
    own, clients = f"n{host.number}", f"http://{host.address}:{_CLIENTS}"
    options = {
        "name": own,
        "data-dir": str(host.private / "etcd"),
        "listen-peer-urls": members[own],
        "initial-advertise-peer-urls": members[own],
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "initial-cluster": ",".join(f"{name}={url}" for name, url in members.items()),
    }
    host.start([str(host.installed / "usr/bin/etcd"), *(f"--{name}={value}" for name, value in options.items())])
    return _Client(host)


class _Client:
    """The connections to this host's member."""

    def __init__(self, host: Surroundings) -> None:
        self._host = host
        self._connection = http.client.HTTPConnection(host.address, _CLIENTS)
        self._ask("/v3/kv/range", key=_coded(_FIRST))
        threading.Thread(target=self._watch, daemon=True).start()

    def broadcast(self, message: bytes) -> None:
        """Put a message under its key, and wait until it is committed."""
        key = _FIRST + b"/".join(message.split())
        self._ask("/v3/kv/put", key=_coded(key), value=_coded(message))

    def _ask(self, path: str, **question: Any) -> None:
        """Ask until there is an answer: not before the member is up, nor while it knows no leader."""
        while True:
            try:
                self._connection.request("POST", path, json.dumps(question))
                answer = self._connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()
            else:
                if answer.status == http.HTTPStatus.OK:
                    return
            time.sleep(_AGAIN_S)

    def _watch(self) -> None:
        connection = http.client.HTTPConnection(self._host.address, _CLIENTS)
        asked = {"key": _coded(_FIRST), "range_end": _coded(_BEYOND), "start_revision": "1"}
        connection.request("POST", "/v3/watch", json.dumps({"create_request": asked}))
        for line in connection.getresponse():
            for event in json.loads(line)["result"].get("events", ()):
                if event["kv"]["version"] == "1":
                    self._host.deliver(base64.b64decode(event["kv"]["value"]))


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()
