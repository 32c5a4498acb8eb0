# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The replicas that a router knows, and which of them get requests: pure, but for the question whether one answers."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import re
import threading
from collections.abc import Iterable, Mapping

PATIENCE = 5.0
"""Seconds in which a replica must say that it is well."""
_LINES = re.compile(
    r"# (?P<name>[^\x00-\x1f\x7f]+)\nserver (?P<address>(?:[\w.-]+|\[[\da-fA-F:.]+\]):\d+) [^;\n]*?(?P<drained> down)?;\n",
    re.ASCII,
)
"""All that nginx is ever given of a replica."""


class RouterError(Exception):
    """What is wrong, the evidence and the remedy, in sentences."""


@dataclasses.dataclass(frozen=True)
class Replica:
    """address: host:port, as the router reaches it. drained: it gets no new requests."""

    name: str
    address: str
    drained: bool = False

    def __post_init__(self) -> None:
        if not _LINES.fullmatch(self.text):
            raise RouterError(
                f"{self.address!r} of {self.name!r} can't be given to nginx: that takes host:port, with an IPv6 address in brackets, and a "
                "name without control characters. Mend its vllm_router_address, vllm_serve_host or vllm_serve_port, or its name."
            )

    @property
    def file(self) -> str:
        return re.sub(r"[^A-Za-z0-9_.-]", "-", self.name) + ".conf"

    @property
    def text(self) -> str:
        """A replica that refuses two connections is left out for five seconds."""
        return f"# {self.name}\nserver {self.address} max_fails=2 fail_timeout=5s{' down' if self.drained else ''};\n"

    @classmethod
    def read(cls, path: str, text: str) -> Replica:
        found = _LINES.fullmatch(text)
        if found is None:
            raise RouterError(
                f"{path} is no file of a replica any more: it holds {text[:200]!r}. Remove it and run router.yml again."
            )
        return cls(found["name"], found["address"], bool(found["drained"]))


Replicas = tuple[Replica, ...]


def wanted(addresses: Mapping[str, str], known: Iterable[Replica]) -> Replicas:
    """Exactly these. Who is drained stays drained."""
    drained = {replica.name for replica in known if replica.drained}
    found = tuple(Replica(name, address, name in drained) for name, address in sorted(addresses.items()))
    if len({replica.file for replica in found}) < len(found):
        raise RouterError(
            f"Two of these names would be one file: {', '.join(addresses)}. Give one of them another name."
        )
    return found


def turned(name: str, drained: bool, known: Replicas) -> Replicas:
    """The same with one of them drained, or back."""
    return tuple(dataclasses.replace(each, drained=drained) if each.name == name else each for each in known)


def stale(name: str, address: str | None, known: Replicas) -> str:
    """What a router does not know of a replica; empty if it knows it as others do."""
    at = {each.name: each.address for each in known}
    if name not in at:
        return f"does not know {name} (it knows {', '.join(at) or 'nobody'})"
    return "" if address in (None, at[name]) else f"reaches {name} at {at[name]}, and the inventory says {address}"


def refuse_to_drain_the_last(name: str, known: Replicas) -> None:
    """Somebody has to answer meanwhile, so those who are to are asked. Of one that gives no answer itself nothing is lost."""
    if all(each.drained or silence(each.address) for each in known if each.name == name):
        return
    told = []
    for other in known:
        if other.name == name:
            continue
        said = "it is drained" if other.drained else silence(other.address)
        if not said:
            return
        told.append(f"{other.name} at {other.address}: {said}")
    raise RouterError(
        f"{name} can't be drained: no other replica would be left that answers. "
        f"{'; '.join(told) or 'The router knows no other'}. Take fewer hosts at a time, by a smaller vllm_rollout_batches, "
        "or have another replica serve first."
    )


def silence(address: str, timeout: float = PATIENCE) -> str:
    """Why a replica is not said to be well; empty if it is."""
    # A timeout of a socket counts from its last byte, and bounds no search for a name.
    said: list[str] = []
    asking = threading.Thread(target=lambda: said.append(_asked(address, timeout)), daemon=True)
    asking.start()
    asking.join(timeout)
    return said[0] if said else f"no answer within {timeout:g} s"


def _asked(address: str, timeout: float) -> str:
    try:
        with contextlib.closing(http.client.HTTPConnection(address, timeout=timeout)) as connection:
            connection.request("GET", "/health")
            status = connection.getresponse().status
    except (OSError, ValueError, http.client.HTTPException) as e:
        return str(e) or type(e).__name__
    return "" if status == 200 else f"/health says {status}"
