# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interface of this host has an address, and which address that is."""

from __future__ import annotations

import dataclasses
import socket
import struct
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

# See netlink(7) and rtnetlink(7).
GET_ADDRESSES, NEW_ADDRESS, DONE, ERROR = 22, 20, 3, 2
REQUEST_ALL = 0x301
ADDRESS, LOCAL = 1, 2
HEAD, ABOUT, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBI"), struct.Struct("=HH")

SHOWN = 16  # interfaces that are named: a host of many containers has hundreds
REMEDY = "Set vllm_deployment_address to the address at which the other hosts reach it"


class PlaceError(Exception):
    """Why an address is none that this host can be reached at, with the remedy."""


@dataclasses.dataclass(frozen=True)
class Carried:
    """An address of this host."""

    interface: str
    address: str

    @property
    def ip(self) -> IPv4Address | IPv6Address:
        return ip_address(self.address)


def carried() -> list[Carried]:
    """All addresses of this host, secondary ones too. The kernel is asked, by netlink, as nothing else in Python knows all."""
    found: list[Carried] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as s:
        s.settimeout(5)
        s.send(
            HEAD.pack(HEAD.size + ABOUT.size, GET_ADDRESSES, REQUEST_ALL, 1, 0)
            + ABOUT.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        )
        while True:
            for kind, body in _messages(s.recv(1 << 16)):
                if kind == DONE:
                    return found
                if kind == ERROR:
                    raise OSError(-struct.unpack_from("=i", body)[0], "the kernel does not tell the host's addresses")
                if kind == NEW_ADDRESS:
                    found += _carried(body)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= HEAD.size:
        length, kind, *_rest = HEAD.unpack_from(data)
        yield kind, data[HEAD.size : length]
        data = data[-(-max(length, HEAD.size) // 4) * 4 :]


def _carried(body: bytes) -> Iterator[Carried]:
    family, _prefix, _flags, _scope, index = ABOUT.unpack_from(body)
    attributes, at = {}, ABOUT.size
    while at + ATTRIBUTE.size <= len(body):
        length, kind = ATTRIBUTE.unpack_from(body, at)
        attributes[kind] = body[at + ATTRIBUTE.size : at + length]
        at += -(-max(length, ATTRIBUTE.size) // 4) * 4
    # Between two points, ADDRESS is that of the other end.
    packed = attributes.get(LOCAL, attributes.get(ADDRESS))
    if packed and family in (socket.AF_INET, socket.AF_INET6):
        try:
            yield Carried(socket.if_indextoname(index), socket.inet_ntop(family, packed))
        except OSError:
            return  # the interface is gone meanwhile


def resolve(address: str) -> list[str]:
    """The IPs of a name, an IP itself. Raises OSError for a name that nobody knows. May take as long as the resolver likes."""
    try:
        return [str(ip_address(address))]
    except ValueError:
        pass
    try:
        answers = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label that is too long, or empty
        raise OSError("that is no name of a host") from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def choose(
    name: str, address: str, resolved: Sequence[str], interface: str | None, ours: Sequence[Carried], loopback: bool
) -> Carried:
    """Which of our addresses it is that a host's address means. loopback: whether one will do that no other host reaches."""
    if interface and interface not in {each.interface for each in ours}:
        raise PlaceError(
            f"{name} has no interface {interface} with an address: {table(ours)}. Set vllm_deployment_interface to one of these, or leave it out."
        )
    ips = [ip_address(ip.partition("%")[0]) for ip in resolved]
    meant = _told(address, resolved)
    if all(ip.is_link_local for ip in ips):
        raise PlaceError(
            f"{meant} of {name} holds on one link only, so no server can be told it: {table(ours)}. {REMEDY}."
        )
    # The kernel takes all of 127.0.0.0/8 for its own, whatever it tells of.
    places = [each for ip in ips for each in ours if each.ip == ip]
    places += [
        Carried(each.interface, str(ip)) for ip in ips for each in ours if ip.is_loopback and each.ip.is_loopback
    ]
    if not places:
        raise PlaceError(
            f"{meant} is no address of {name} itself: {table(ours)}. {REMEDY}; one that is translated on its way does not do."
        )
    on_it = [each for each in places if interface in (None, "", each.interface)]
    if not on_it:
        raise PlaceError(
            f"{interface} of {name} does not have {meant}: {table(ours)}. Set vllm_deployment_interface to {places[0].interface}, "
            f"or vllm_deployment_address to an address of {interface}."
        )
    reachable = [each for each in on_it if loopback or not each.ip.is_loopback]
    if not reachable:
        raise PlaceError(
            f"{meant} of {name} is a loopback address, where no other host reaches it: {table(ours)}. {REMEDY}"
            + (f", or mend /etc/hosts, where {address} may have it." if address != on_it[0].address else ".")
        )
    return reachable[0]


def table(ours: Sequence[Carried]) -> str:
    """eth0 has 10.0.0.1, lo has 127.0.0.1. Addresses that hold on one link only are left out, as no server can be told them."""
    by: dict[str, list[str]] = {}
    for each in ours:
        if not each.ip.is_link_local:
            by.setdefault(each.interface, []).append(each.address)
    rows = [f"{interface} has {' and '.join(addresses)}" for interface, addresses in by.items()]
    rows.sort(key=lambda row: row.startswith("lo "))  # the least of use comes last
    more = [f"{len(rows) - SHOWN} more interfaces have others"] if len(rows) > SHOWN else []
    return ", ".join(rows[:SHOWN] + more) or "the host has no address at all"


def _told(address: str, resolved: Sequence[str]) -> str:
    ips = " and ".join(resolved)
    return address if ips == address else f"{address} ({ips})"
