"""A host's link to the others, and what can befall it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .machine import do

WIRE = Path(__file__).with_name("wire.py")


class Link:
    def __init__(self, bridge: str, name: str) -> None:
        self.bridge = bridge
        self.name = name
        self._wire: subprocess.Popen[bytes] | None = None

    def cut(self) -> None:
        """From here on nothing gets through, either way, and nobody is told."""
        do("ip", "link", "set", self.name, "down")

    def degrade(self, *, delay: float = 0, loss: float = 0) -> None:
        """Each frame takes so many seconds longer, each way, and gets lost with this probability."""
        self._cut_wire()
        do("ip", "link", "set", self.name, "nomaster", "arp", "off")  # or the machine itself would answer there
        self._wire = subprocess.Popen(
            [sys.executable, str(WIRE), self.name, self._tap, str(delay), str(loss)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._wire.stdout
        if self._wire.stdout.readline() != b"joined\n":
            raise RuntimeError(f"{WIRE.name} ended with {self._wire.wait()}")
        do("ip", "link", "set", self._tap, "master", self.bridge, "up")

    def heal(self) -> None:
        """As good as new."""
        self._cut_wire()
        do("ip", "link", "set", self.name, "master", self.bridge, "arp", "on", "up")

    def remove(self) -> None:
        self._cut_wire()
        do("ip", "link", "delete", self.name, check=False)  # goes with the host by itself, but later

    @property
    def _tap(self) -> str:
        return f"{self.name}w"

    def _cut_wire(self) -> None:
        if self._wire:
            self._wire.communicate()  # closes its input, at which it ends
            self._wire = None
