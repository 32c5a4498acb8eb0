# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a TCP port of this host."""

from __future__ import annotations

import errno
import glob
import os
import socket
import sys
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

LISTEN, ESTABLISHED = "0A", "01"  # the state's number in /proc/net/tcp, see proc(5)


def is_free(host: str, port: int) -> bool:
    """Whether a server could bind host:port now.

    Asked of the kernel by binding, since only it knows which addresses overlap. Raises OSError where the address isn't this host's.
    """
    family, kind, protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(address)
        except OSError as e:
            if e.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def listeners(port: int) -> list[int]:
    """Pids of the processes that listen on the port, as far as this user may see them."""
    inodes = {
        row[9]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for row in _rows(table)
        if row[3] == LISTEN and int(row[1].rsplit(":", 1)[1], 16) == port
    }
    links = {f"socket:[{inode}]" for inode in inodes}
    pids = {int(fd.split("/")[2]) for fd in glob.glob("/proc/[0-9]*/fd/*") if links and _readlink(fd) in links}
    return sorted(pids)


def listened(pid: int) -> list[int]:
    """The TCP ports that a process listens on, in its own network; none if its files aren't ours to see."""
    sockets = {_readlink(fd) for fd in glob.glob(f"/proc/{pid}/fd/*")}
    found = set()
    for table in (f"/proc/{pid}/net/tcp", f"/proc/{pid}/net/tcp6"):
        for row in _rows(table):
            if row[3] == LISTEN and f"socket:[{row[9]}]" in sockets:
                found.add(int(row[1].rsplit(":", 1)[1], 16))
    return sorted(found)


def connected(pid: int, besides: Collection[int] = ()) -> set[str]:
    """The addresses of other hosts that a process has a TCP connection with, but for those of these ports of its own."""
    sockets = {_readlink(fd) for fd in glob.glob(f"/proc/{pid}/fd/*")}
    return strangers(
        (row for table in (f"/proc/{pid}/net/tcp", f"/proc/{pid}/net/tcp6") for row in _rows(table)), sockets, besides
    )


def strangers(rows: Iterable[list[str]], sockets: Collection[str | None], besides: Collection[int]) -> set[str]:
    """The same, of the rows of such tables. A host has connections with itself, at whatever address of its own."""
    found = set()
    for row in rows:
        (here, port), (there, _port) = (address.split(":") for address in row[1:3])
        if row[3] == ESTABLISHED and here != there and f"socket:[{row[9]}]" in sockets and int(port, 16) not in besides:
            found.add(_address(there))
    return {str(address) for address in found if not address.is_loopback}


def _address(digits: str) -> IPv4Address | IPv6Address:
    """Words of 32 bits as the machine has them in memory."""
    words = [bytes.fromhex(digits[at : at + 8]) for at in range(0, len(digits), 8)]
    address = ip_address(b"".join(word[::-1] if sys.byteorder == "little" else word for word in words))
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _rows(table: str) -> list[list[str]]:
    try:
        with open(table, encoding="ascii") as f:
            return [line.split() for line in f][1:]
    except OSError:
        return []


def _readlink(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
