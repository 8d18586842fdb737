"""The yardstick of a protocol under load: the least Python that sends each message by itself to every other host, and loses none.

python -m benchmarks.yardsticks.bare_broadcast MESSAGES BYTES ADDRESS PEER...

A host counts what it hears of each peer, and tells the peer after every `EVERY` messages, so that a source stays at most `WINDOW` messages
ahead of the slowest. It prints how long it took until all peers had all its messages, in seconds; nothing if one was lost.
"""

import select
import socket
import sys
import time

from benchmarks.yardsticks.bare_loop import with_room

EVERY = 16
# More at once than this, and the switch does not read all of it.
WINDOW = 64
PORT = 47000
PATIENCE_S = 2.0


def broadcast(messages: int, size: int, address: str, peers: list[str]) -> None:
    """Send and receive until everybody has everything that this host sends, and for as long as others send."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    with_room(udp)
    udp.bind((address, PORT))
    udp.setblocking(False)
    payload, space = bytes(size), socket.CMSG_SPACE(1)
    heard, told = dict.fromkeys(peers, 0), dict.fromkeys(peers, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    began, sent, took = time.monotonic(), 0, 0.0
    while True:
        while sent < messages and sent < min(told.values()) + WINDOW:
            for peer in peers:
                udp.sendto(payload, (peer, PORT))
            sent += 1
        if messages and not took and min(told.values()) >= messages:
            took = time.monotonic() - began
            print(took, flush=True)
        if not select.select([udp], [], [], PATIENCE_S)[0]:
            return  # Others have ended, or a datagram is lost.
        try:
            while True:
                datagram, _, _, (peer, _) = udp.recvmsg(1473, space)
                if len(datagram) == size:
                    heard[peer] += 1
                    if heard[peer] % EVERY == 0:
                        udp.sendto(heard[peer].to_bytes(4), (peer, PORT))
                else:
                    told[peer] = int.from_bytes(datagram)
        except BlockingIOError:
            pass


if __name__ == "__main__":
    broadcast(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
