# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests over HTTP with the standard library: for the hub's listings, for mirrors and for other hosts."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import IO, Any

TIMEOUT = 60.0  # seconds without a byte
_CHUNK = 1 << 20
BROKEN = (OSError, http.client.HTTPException)
"""What a connection that fails raises; HTTPError, a subclass of OSError, is an answer."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows, but hands no credentials to another host."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and _place(newurl) != _place(req.full_url):
            new.remove_header("Authorization")
        return new


class _Stays(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        return None  # which makes an HTTPError of it


def ask(
    url: str, secret: str = "", headers: Mapping[str, str] | None = None, method: str = "GET", follow: bool = True
) -> Any:
    """An open response. Proxies and certificates are those of the environment.

    Raises HTTPError for an answer that refuses, and one of BROKEN where there is none.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "llmops.vllm", **(headers or {})}, method=method)
    if secret:
        request.add_header("Authorization", authorization(secret))
    return urllib.request.build_opener(_Redirects if follow else _Stays).open(request, timeout=TIMEOUT)


def authorization(secret: str) -> str:
    """The header that a secret makes: user:password, or else a token."""
    if ":" in secret:
        return f"Basic {base64.b64encode(secret.encode()).decode()}"
    return f"Bearer {secret}" if secret else ""


def has_credentials(url: str) -> bool:
    return "@" in urllib.parse.urlsplit(url).netloc


def reason(e: BaseException) -> str:
    """Why a connection failed, in few words."""
    inner = e.reason if isinstance(e, urllib.error.URLError) else e
    if isinstance(inner, (socket.timeout, TimeoutError)):
        return "it does not answer"
    if isinstance(inner, ssl.SSLError):
        return f"its certificate or its TLS is refused ({inner.reason or inner})"
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(inner) or type(inner).__name__


def download(url: str, path: str, size: int, secret: str = "") -> None:
    """Put what is at an address into a file, going on where that ends. Raises as ask does."""
    begun = os.path.getsize(path) if os.path.exists(path) else 0
    if begun > size:  # what is in it is something else
        begun = 0
    with open(path, "r+b" if begun else "wb") as f:
        if begun < size or not size:
            with ask(url, secret, {"Range": f"bytes={begun}-"} if begun else {}) as response:
                if begun and response.status != 206:  # it knows no ranges
                    begun = 0
                f.seek(begun)
                f.truncate()
                _copy(response, f, size - begun)


def _copy(response: Any, f: IO[bytes], expected: int) -> None:
    while chunk := response.read(min(_CHUNK, expected) or 1):
        f.write(chunk)
        expected -= len(chunk)
        if expected <= 0:
            return
    if expected > 0:
        raise http.client.IncompleteRead(b"", expected)


def _place(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc
