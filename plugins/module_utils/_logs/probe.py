# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second witness, for servers whose log does not say that they are ready: an HTTP request."""

from __future__ import annotations

import urllib.parse

from ansible_collections.llmops.vllm.plugins.module_utils._host import ports
from ansible_collections.llmops.vllm.plugins.module_utils._logs.life import family

EVERY = 2.0
PATIENCE = 2.0


class Probe:
    """Asks an address until it answers; when it was asked last is in seconds since the wait began."""

    def __init__(self, url: str, api_key: str = "") -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._port = urllib.parse.urlsplit(url).port
        self._next = 0.0

    def due(self, now: float) -> bool:
        if now < self._next:
            return False
        self._next = now + EVERY
        return True

    def witness(self, pid: int = 0) -> str:
        """What the server answered if that proves that it serves; else nothing.

        pid: the server's process. An answer given by any other process, such as an earlier server that still holds the port,
        proves nothing.
        """
        if pid and self._port:
            holders = set(ports.listeners(self._port))
            if holders and not holders & {pid, *family(pid)}:
                return ""
        # Only who asks pays for it: each slice of a wait is a process of its own.
        import http.client
        import urllib.error
        import urllib.request

        try:
            # Of the server itself: no proxy that the environment names stands between.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(urllib.request.Request(self.url, headers=self._headers), timeout=PATIENCE) as answer:
                return f"GET {self.url} answered {answer.status}"
        except urllib.error.HTTPError as e:
            # Alive, and wants a key: vLLM opens its port only when the engine is up.
            return f"GET {self.url} answered {e.code}" if e.code in (401, 403) else ""
        except (OSError, http.client.HTTPException, ValueError):
            return ""
