"""A headless Chromium, spoken to over a pair of pipes (the DevTools protocol), so that nothing but its package is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE = 120
"""Seconds for one answer: a browser on a busy machine is slow to start."""


class Chromium:
    """One browser with one tab. What pages write to the console and what they ask the network for is kept."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self._in, self._out, self._buffer, self._count = ours_in, ours_out, b"", 0
        options = [
            "--headless",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
        ]
        # Root has no use for the browser's own sandbox, and is refused it.
        options += ["--no-sandbox"] if os.geteuid() == 0 else []
        # The browser reads from 3 and writes to 4.
        wired = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", wired, "chromium", PROGRAM, *options, "about:blank"],
            pass_fds=[theirs_in, theirs_out],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._session = ""
        self._loaded = False
        (target,) = (t["targetId"] for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        self._session = ""
        self.ask("Browser.close")
        self._process.wait(PATIENCE)
        os.close(self._in)
        os.close(self._out)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        said = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            said["sessionId"] = self._session
        os.write(self._out, json.dumps(said).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._count:
                assert "error" not in heard, (method, heard)
                return heard["result"]

    def _hear(self) -> dict[str, Any]:
        """The next message. Events are noted on the way."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _unused, _unused = select.select([self._in], [], [], deadline - time.monotonic())
            assert ready, f"Chromium said nothing for {PATIENCE} s"
            read = os.read(self._in, 1 << 20)
            assert read, f"Chromium ended with {self._process.wait(PATIENCE)}"
            self._buffer += read
        text, _unused, self._buffer = self._buffer.partition(b"\0")
        heard = json.loads(text)
        name, told = heard.get("method"), heard.get("params", {})
        if name == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif name == "Log.entryAdded":
            self.errors.append(told["entry"]["text"])
        elif name == "Runtime.consoleAPICalled" or name == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(told))
        elif name == "Page.loadEventFired":
            self._loaded = True
        return heard

    def open(self, page: Path, width: int, scheme: str = "light", fragment: str = "") -> None:
        """Shows a page in a window that is so many CSS pixels wide, for a person who prefers light or dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.requests, self.errors, self._loaded = [], [], False
        # Of two addresses that differ by the fragment the second would not be loaded.
        self.ask("Page.navigate", url="about:blank")
        while not self._loaded:
            self._hear()
        self.requests, self._loaded = [], False
        self.ask("Page.navigate", url=page.as_uri() + fragment)
        while not self._loaded:
            self._hear()

    def see(self, expression: str) -> Any:
        """What a JavaScript expression gives."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def picture(self, file: Path, whole: bool = True) -> None:
        told = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(told["data"]))
