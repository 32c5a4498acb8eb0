"""A bad wire: wire.py LINK TAP DELAY LOSS. Joins the link to a new tap, keeps each frame for the delay, and loses some for good.

tc's netem does the same where the kernel has it; this one needs no more than a tap. Ends when its standard input does.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import os
import random
import select
import socket
import struct
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 0x0002, 0x1000, 0x4000
FRAME = 1 << 17  # the kernel hands over up to 64 KiB that it has yet to cut; the header in front of the frame says how


def carry(link: str, tap: str, delay: float, loss: float) -> None:
    near = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    near.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    near.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    near.bind((link, ETH_P_ALL))
    far = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(far, TUNSETIFF, struct.pack("16sH", tap.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    print("joined", flush=True)

    other = {near.fileno(): far, far: near.fileno()}
    under_way: collections.deque[tuple[float, int, bytes]] = collections.deque()
    while True:
        patience = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _unused, _unused = select.select([0, *other], [], [], patience)
        if 0 in ready:
            return
        for end in ready:
            with contextlib.suppress(OSError):  # the link is down
                frame = os.read(end, FRAME)
                if random.random() >= loss:
                    under_way.append((time.monotonic() + delay, other[end], frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _unused, end, frame = under_way.popleft()
            with contextlib.suppress(OSError):
                os.write(end, frame)


if __name__ == "__main__":
    carry(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
