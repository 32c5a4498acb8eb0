# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetches files with huggingface_hub. Runs on its own, under a Python that has it, and imports nothing of the collection.

The request comes by standard input: {endpoint, token, repo, revision, parts, files: {path: size}}. Each file grows in the directory
``parts``, where an earlier try may have left some of it. Standard output gets a line of JSON for the first error, and nothing else.
With HF_HUB_DISABLE_XET=1 in the environment the transfer backend is left out.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

AT_ONCE = 4
CHUNK = 1 << 20
"""Bytes that are written at once; what a broken connection loses. The client's own are ten times as many."""


def main() -> int:
    request = json.load(sys.stdin)
    from huggingface_hub import constants

    constants.DOWNLOAD_CHUNK_SIZE = CHUNK

    threading.Thread(target=end_with, args=[os.getppid()], daemon=True).start()
    os.makedirs(request["parts"], exist_ok=True)
    # One that a killed job left would write to the same files until it notices.
    fcntl.flock(os.open(request["parts"], os.O_RDONLY), fcntl.LOCK_EX)
    failed = threading.Event()

    def attempt(path: str) -> None:
        if failed.is_set():
            return
        stage = ["http"]
        try:
            fetch(request, path, stage)
        except BaseException as e:
            if not failed.is_set():
                failed.set()
                sys.stdout.write(json.dumps(told(e, stage[0], path)) + "\n")
                sys.stdout.flush()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for path in request["files"]:
            pool.submit(attempt, path)
    return 1 if failed.is_set() else 0


def end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def fetch(request: dict[str, Any], path: str, stage: list[str]) -> None:
    """stage: what is being tried is put into it, since a backend that fails does not always say its name."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get, is_xet_available, xet_get
    from huggingface_hub.utils import build_hf_headers

    token: Any = request["token"] or False
    url = hf_hub_url(request["repo"], path, revision=request["revision"], endpoint=request["endpoint"])
    found = get_hf_file_metadata(url, token=token, endpoint=request["endpoint"])
    headers = build_hf_headers(token=token)
    part = Path(request["parts"], path)
    part.parent.mkdir(parents=True, exist_ok=True)
    size = request["files"][path]
    if found.xet_file_data and is_xet_available() and not constants.HF_HUB_DISABLE_XET:
        stage[0] = "xet"
        try:
            xet_get(incomplete_path=part, xet_file_data=found.xet_file_data, headers=headers, expected_size=size)
        except BaseException:
            part.unlink(missing_ok=True)  # written in no order, so nothing can go on from it
            raise
        return
    if urllib.parse.urlsplit(found.location).netloc != urllib.parse.urlsplit(url).netloc:
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    begun = part.stat().st_size if part.exists() else 0
    with open(part, "r+b" if 0 < begun <= size else "wb") as f:
        begun = f.seek(0, os.SEEK_END)
        if begun < size:
            http_get(found.location, f, resume_size=begun, headers=headers, expected_size=size)


def told(e: BaseException, stage: str, path: str) -> dict[str, Any]:
    """An error as the collection understands it: an answer of the hub, a connection that failed, or something else."""
    response = getattr(e, "response", None)
    headers = response.headers if response is not None else {}
    above = {kind.__name__ for kind in type(e).__mro__}
    return {
        "path": path,
        "stage": stage,
        "status": response.status_code if response is not None else None,
        "code": headers.get("X-Error-Code", ""),
        "message": headers.get("X-Error-Message", ""),
        "retry_after": headers.get("Retry-After", ""),
        "rate_limit": headers.get("RateLimit", ""),
        "network": bool(above & {"TransportError", "ConnectionError", "Timeout", "HTTPError"}) and response is None,
        "errno": getattr(e, "errno", None),
        "text": f"{type(e).__name__}: {e}".splitlines()[0][:500],
    }


if __name__ == "__main__":
    raise SystemExit(main())
