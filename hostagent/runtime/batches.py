"""Several datagrams with one call of the kernel: `recvmmsg`, which Python does not have.

The kernel notes in the headers of a batch, one after the other, which datagrams it has handed over. The headers are in memory that other
processes can read, so if this process is killed before it has counted the datagrams of a batch, they are not forgotten:
`hostagent.runtime.counters` says how.
"""

import ctypes
import errno
import os
import socket
from typing import Any, Final

MOST: Final = 64
"""The datagrams in a batch. With more, the share of each in the cost of the call is hardly less."""


class _Piece(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """`struct msghdr`."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("pieces", ctypes.c_void_p),
        ("pieces_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Header(ctypes.Structure):
    """`struct mmsghdr`."""

    _fields_ = (("message", _Message), ("length", ctypes.c_uint32))


_HEADER: Final = ctypes.sizeof(_Header)
HEADERS: Final = MOST * _HEADER
"""The bytes of shared memory that the headers of a batch take."""
# With each datagram comes one control message of one byte, for IP_RECVTOS. There is room for more, so that the length that the kernel
# writes differs from the one before.
_CONTROL: Final = socket.CMSG_SPACE(1)
_ROOM_FOR_CONTROL: Final = 2 * _CONTROL
_CONTROL_BYTE: Final = socket.CMSG_LEN(0)

_recvmmsg: Final = ctypes.CDLL(None, use_errno=True).recvmmsg
_recvmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)


class Batch:
    """Receives datagrams from a socket that does not block and has IP_RECVTOS set, a batch at a time."""

    def __init__(self, headers: "memoryview[int]", longest: int) -> None:
        """`headers` is shared memory of `HEADERS` bytes; what is longer than `longest` bytes is cut."""
        self.data = bytearray(MOST * longest)
        """The datagrams of the last batch."""
        self._control = bytearray(MOST * _ROOM_FOR_CONTROL)
        self._pieces = (_Piece * MOST)()
        self._starts = range(0, MOST * longest, longest)
        data, control, pieces = (_address(memory) for memory in (self.data, self._control, self._pieces))
        table = (_Header * MOST).from_buffer(headers)
        for number, start in enumerate(self._starts):
            self._pieces[number] = _Piece(data + start, longest)
            piece = pieces + number * ctypes.sizeof(_Piece)
            room = control + number * _ROOM_FOR_CONTROL
            table[number] = _Header(_Message(None, 0, piece, 1, room, _ROOM_FOR_CONTROL, 0), 0)
        self._table = _address(table)
        self._headers = headers
        self._unused = bytes(headers)
        self._lengths = headers.cast("I")[_Header.length.offset // 4 :: _HEADER // 4]

    def receive(self, udp: socket.socket) -> list[tuple[int, int, int]]:
        """The datagrams that have arrived, at most `MOST`: where each begins in `data`, its length, and its type of service."""
        count = _recvmmsg(udp.fileno(), self._table, MOST, socket.MSG_DONTWAIT, None)
        if count < 0:
            number = ctypes.get_errno()
            if number == errno.EAGAIN:
                return []
            raise OSError(number, os.strerror(number))
        lengths = self._lengths[:count].tolist()
        return list(zip(self._starts, lengths, self._control[_CONTROL_BYTE::_ROOM_FOR_CONTROL], strict=False))

    def forget(self, count: int) -> None:
        """The first datagrams of the batch, all that were received, are counted: the headers are as before."""
        self._headers[: count * _HEADER] = self._unused[: count * _HEADER]


def handed_over(headers: "memoryview[int]") -> int:
    """The datagrams of a batch that the kernel has handed over and that were not forgotten yet."""
    return sum(header.message.control_length == _CONTROL for header in (_Header * MOST).from_buffer_copy(headers))


def _address(memory: Any) -> int:
    return ctypes.addressof((ctypes.c_char * 1).from_buffer(memory))
