"""The yardstick of the agent: the least Python that can receive a datagram with its cost bit and answer it.

python -m benchmarks.yardsticks.bare_loop ADDRESS PORT ANSWER_BYTES
"""

import socket
import sys


def with_room(udp: socket.socket) -> None:
    """Give a socket the receive buffer that the agent has."""
    # SO_RCVBUFFORCE, which Python does not name: like SO_RCVBUF, but not bounded by the limit for ordinary users.
    so_rcvbufforce = 33
    udp.setsockopt(socket.SOL_SOCKET, so_rcvbufforce, 4 << 20)


def serve(address: str, port: int, answer: bytes) -> None:
    """Answer every datagram, for ever."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    with_room(udp)
    udp.bind((address, port))
    print("ready", flush=True)
    space = socket.CMSG_SPACE(1)
    while True:
        _, _, _, sender = udp.recvmsg(1473, space)
        udp.sendto(answer, sender)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), bytes(int(sys.argv[3])))
