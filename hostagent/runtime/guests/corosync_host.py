"""Corosync at one host: its daemon, and a closed process group (`libcpg`) with a member at every host.

The daemon is as Debian ships it, with its default transport (knet over UDP) without encryption; the group delivers in agreed order.
"""

import ctypes
import threading
import time
from typing import Any, Final

from hostagent.runtime.guests.surroundings import GuestHost, Surroundings

# Values of corotypes.h and cpg.h.
_OK, _BLOCKING, _AGREED = 1, 3, 2
_NOT_NOW: Final = frozenset({2, 6})
"""The daemon is not up yet, or has no room."""
_GROUP: Final = b"castbed"
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_TRY_AGAIN_S: Final = 0.001
# How often to look whether the daemon is up: seldom enough to leave the processor to daemons that start.
_LOOK_S: Final = 0.1
# The ring of few hosts stands after a second or two. Hosts that are down or cut off are not waited for longer than this.
_FORMS_S: Final = 10.0


class _Name(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint32), ("value", ctypes.c_char * 128))


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


_U32, _U64, _SIZE, _POINTER = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
_Deliver: Final = ctypes.CFUNCTYPE(None, _U64, _POINTER, _U32, _U32, _POINTER, _SIZE)
_Changed: Final = ctypes.CFUNCTYPE(None, _U64, _POINTER, _POINTER, _SIZE, _POINTER, _SIZE, _POINTER, _SIZE)


class _Callbacks(ctypes.Structure):
    _fields_ = (("deliver", _Deliver), ("changed", _Changed))


def start(host: Surroundings) -> GuestHost:
    """Start the daemon, join the group, and wait until all hosts are in it."""
    (host.private / "corosync").mkdir(exist_ok=True)
    settings = host.private / "corosync.conf"
    settings.write_text(_settings(host))
    libraries = host.installed / _LIBRARIES
    host.start([str(host.installed / "usr/sbin/corosync"), "-f", "-c", str(settings)], LD_LIBRARY_PATH=str(libraries))
    # In the order in which they need each other, as they are not where the system looks for libraries.
    for name in ("libqb.so.100", "libcorosync_common.so.4"):
        ctypes.CDLL(str(libraries / name), mode=ctypes.RTLD_GLOBAL)
    return _Group(ctypes.CDLL(str(libraries / "libcpg.so.4")), host)


def _settings(host: Surroundings) -> str:
    """The daemon's settings: its defaults, without encryption and real-time scheduling."""
    nodes = "".join(
        f"  node {{\n    nodeid: {number}\n    name: n{number}\n    ring0_addr: {address}\n  }}\n"
        for number, address in enumerate(host.addresses, start=1)
    )
    return (
        "totem {\n  version: 2\n  cluster_name: castbed\n  ip_version: ipv4\n  crypto_cipher: none\n  crypto_hash: none\n}\n"
        f"nodelist {{\n{nodes}}}\n"
        "system {\n  sched_rr: no\n  move_to_root_cgroup: no\n  allow_knet_handle_fallback: yes\n}\n"
        "logging {\n  to_stderr: yes\n  to_syslog: no\n  to_logfile: no\n}\n"
    )


class _Group:
    """This host's member of the group."""

    def __init__(self, library: Any, host: Surroundings) -> None:
        self._library, self._host = library, host
        self._handle = _U64()
        self._members = 0
        self._grown = threading.Condition()
        # The library keeps pointers to these.
        self._callbacks = _Callbacks(_Deliver(self._on_deliver), _Changed(self._on_changed))
        self._repeat(_LOOK_S, "cpg_initialize", ctypes.byref(self._handle), ctypes.byref(self._callbacks))
        self._repeat(_LOOK_S, "cpg_join", self._handle, ctypes.byref(_Name(len(_GROUP), _GROUP)))
        threading.Thread(target=library.cpg_dispatch, args=(self._handle, _BLOCKING), daemon=True).start()
        with self._grown:
            self._grown.wait_for(lambda: self._members == len(host.addresses), _FORMS_S)

    def broadcast(self, message: bytes) -> None:
        """Send a message to the group; waits while the daemon has no room for it."""
        self._repeat(_TRY_AGAIN_S, "cpg_mcast_joined", self._handle, _AGREED, ctypes.byref(_Piece(message, len(message))), 1)

    def _on_deliver(self, _handle: int, _group: int, _node: int, _pid: int, message: int, length: int) -> None:
        self._host.deliver(ctypes.string_at(message, length))

    def _on_changed(self, _handle: int, _group: int, _members: int, count: int, *_lists: int) -> None:
        with self._grown:
            self._members = count
            self._grown.notify_all()

    def _repeat(self, pause_s: float, function: str, *arguments: Any) -> None:
        """Call the library until the daemon is up and has room. If the daemon ends, so does this process."""
        while (status := getattr(self._library, function)(*arguments)) != _OK:
            if status not in _NOT_NOW:
                raise OSError(f"{function} of Corosync failed with status {status}")
            time.sleep(pause_s)
