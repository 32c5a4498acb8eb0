# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serves one snapshot to the other hosts of a site: a job of the host that has it, which ends by itself when nobody asks any more.

It serves the verified files of that snapshot and its record, to whoever has the token, and so many at a time; the others are told to
come again. What it says need not be believed: the others know the digest of the listing by another way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hmac
import json
import os
import socket
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, locks
from ansible_collections.llmops.vllm.plugins.module_utils._models import snapshot, web


@dataclasses.dataclass(frozen=True)
class Offer:
    """path: the snapshot. port 0 for any that is free. idle: seconds without a request after which it ends."""

    path: str
    address: str
    port: int
    token: str
    at_once: int
    idle: float


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main(directory: str) -> int:
    """Serve until nobody asks any more. serve.json tells the port."""
    asked = os.path.join(directory, "offer.json")
    offer = Offer(**files.read_json(asked))
    os.unlink(asked)  # there is a token in it
    try:
        server = Server(offer)
    except OSError as e:
        say(f"FAILED: {offer.address}:{offer.port} can't be listened on: {e.strerror or e}.")
        return 1
    with locks.locked(os.path.join(directory, "serve.lock")):  # so that it is not removed meanwhile
        serve(server, directory)
    say(f"ENDED: nobody has asked for {offer.idle:.0f} s")
    return 0


def serve(server: Server, directory: str) -> None:
    offer = server.offer
    files.write(os.path.join(directory, "serve.json"), json.dumps({"port": server.server_address[1]}).encode())
    say(f"SERVING {offer.path} at {offer.address}:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, args=[0.1], daemon=True).start()
    while server.quiet() < offer.idle:
        time.sleep(0.2)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, offer: Offer) -> None:
        record = snapshot.read(offer.path)
        self.offer = offer
        self.names = {*record.verified, snapshot.RECORD} if record else set()
        self.places = threading.BoundedSemaphore(offer.at_once)
        self.last = time.monotonic()
        self.busy = 0
        # The least is IPv4, where a name stands for both.
        self.address_family = min(socket.getaddrinfo(offer.address, offer.port, type=socket.SOCK_STREAM))[0]
        super().__init__((offer.address, offer.port), Handler)

    def quiet(self) -> float:
        """Seconds since somebody was served."""
        return 0.0 if self.busy else time.monotonic() - self.last


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = web.TIMEOUT  # of a connection that does nothing
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """What goes on is in the logs of those who fetch."""

    def do_GET(self) -> None:
        self.server.last = time.monotonic()
        expected = web.authorization(self.server.offer.token)
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), expected.encode()):
            return self.refuse(401)
        name = urllib.parse.unquote(self.path.lstrip("/"))
        if name not in self.server.names:
            return self.refuse(404)
        path = os.path.join(self.server.offer.path, name)
        if name == snapshot.RECORD:  # small, and wanted by all at first
            return self.send(path)
        if not self.server.places.acquire(blocking=False):
            return self.refuse(503, ("Retry-After", "1"))
        self.server.busy += 1
        try:
            self.send(path)
        finally:
            self.server.busy -= 1
            self.server.last = time.monotonic()
            self.server.places.release()

    def send(self, path: str) -> None:
        with contextlib.suppress(OSError), open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            begin = self.headers.get("Range", "")[len("bytes=") : -1]
            start = min(int(begin), size) if begin.isdecimal() else 0
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(size - start))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            self.end_headers()
            if size > start:
                self.connection.sendfile(f, start)
            return
        self.close_connection = True  # who asked is gone

    def refuse(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", "0")):
            self.send_header(name, value)
        self.end_headers()
