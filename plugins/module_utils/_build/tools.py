# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pip or uv: a venv, and what is installed in it."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import sys
from collections.abc import Sequence

from ansible_collections.llmops.vllm.plugins.module_utils._build import causes
from ansible_collections.llmops.vllm.plugins.module_utils._build.causes import BuildError
from ansible_collections.llmops.vllm.plugins.module_utils._build.console import Console
from ansible_collections.llmops.vllm.plugins.module_utils._build.installed import read_text
from ansible_collections.llmops.vllm.plugins.module_utils._build.request import Request
from ansible_collections.llmops.vllm.plugins.module_utils._host import secrets

_NEEDS_CPU_TORCH = re.compile(r"No matching distribution found for torch==\S+\+cpu|no version of torch==\S+\+cpu")
_SAID = "vllm_build said "


class Tool:
    """What is asked of it goes by files and the environment, never by arguments, since addresses may hold passwords."""

    def __init__(self, request: Request, console: Console, venv: str, work: str) -> None:
        self.request, self.console, self.venv, self.work = request, console, venv, work
        self.uv = request.means.tool == "uv"
        self.python = os.path.join(venv, "bin", "python")
        self._constraints = os.path.join(work, "constraints.txt")
        _write(self._constraints, request.wanted.constraints)

    @property
    def site(self) -> str:
        return glob.glob(os.path.join(glob.escape(self.venv), "lib", "python3*", "site-packages"))[0]

    def make_venv(self) -> None:
        if self.uv and not shutil.which("uv", path=self.console.environment.get("PATH")):
            raise BuildError("there is no uv on the host", "Install it, or set vllm_build_tool to pip")
        if self.uv:
            self.console.run(["uv", "venv", "--quiet", "--python", sys.executable, self.venv], "making the venv")
        else:
            self.console.run([sys.executable, "-m", "venv", "--without-pip", self.venv], "making the venv")
            # By ourselves, since venv keeps to itself why it fails.
            self.console.run([self.python, "-I", "-m", "ensurepip", "--default-pip"], "installing pip")
        if self.request.wanted.layer:
            _write(os.path.join(self.site, "vllm_build_layer.pth"), [self.request.wanted.layer], 0o644)

    def install(
        self, requirements: Sequence[str], *options: str, environment: dict[str, str] | None = None, nice: bool = False
    ) -> None:
        wanted = os.path.join(self.work, "requirements.txt")
        _write(wanted, requirements)
        command = [
            *(["nice", "-n", "10"] if nice else []),
            *self._command(),
            "-c",
            self._constraints,
            "-r",
            wanted,
            *options,
        ]
        code, output = self._attempt(command, environment or {}, [])
        if (
            code
            and self.request.means.torch_index
            and not self.request.means.offline
            and _NEEDS_CPU_TORCH.search(output)
        ):
            self.console.say("The host's own indexes offer no CPU build of torch, so the one that has it is asked too.")
            code, output = self._attempt(command, environment or {}, [self.request.means.torch_index])
        if code:
            raise causes.explain(output, code, "the installer" if not nice else "the compilation")
        self._forget_addresses()

    def _forget_addresses(self) -> None:
        """Only bare ones stay in what all can read: what was installed by its address bears that."""
        for told in glob.glob(os.path.join(glob.escape(self.site), "*.dist-info", "direct_url.json")):
            text = read_text(told)
            if secrets.bare(text) != text:
                _write(told, [secrets.bare(text)], 0o644)
                record = os.path.join(os.path.dirname(told), "RECORD")
                name = re.escape(os.path.relpath(told, self.site))
                rows = re.sub(rf"(?m)^{name},.*$", lambda row: f"{row[0].partition(',')[0]},,", read_text(record))
                _write(record, rows.splitlines(), 0o644)

    def uninstall(self, names: Sequence[str]) -> None:
        remove = (
            ["uv", "pip", "uninstall", "--python", self.python]
            if self.uv
            else [self.python, "-m", "pip", "uninstall", "--yes"]
        )
        self.console.run([*remove, *names], "uninstalling")

    def say(self, code: str) -> list[str]:
        """The list ``said`` that a few lines of Python make, run in the venv. What they import may print what it likes."""
        code += f"\nimport json; print({_SAID!r} + json.dumps(said), flush=True)\n"
        output = self.console.run([self.python, "-I", "-c", code], "the venv's Python")
        return list(json.loads(re.findall(rf"{_SAID}(\[.*\])", output)[-1]))

    def _command(self) -> list[str]:
        if self.uv:
            command = ["uv", "pip", "install", "--no-progress", "--python", self.python]
        else:
            command = [self.python, "-m", "pip", "install", "--progress-bar", "off"]
        if self.request.means.wheelhouse:
            command += ["--find-links", self.request.means.wheelhouse]
        return [*command, "--no-index"] if self.request.means.offline else command

    def _attempt(self, command: list[str], environment: dict[str, str], more: list[str]) -> tuple[int, str]:
        first, rest = ("UV_DEFAULT_INDEX", "UV_INDEX") if self.uv else ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
        extra = [*self.request.means.extra_index_urls, *more]
        if more:  # besides those that the host has configured, not in their place
            extra = [*self.console.environment.get(rest, "").split(), *extra]
        indexes = {first: self.request.means.index_url, rest: " ".join(extra)}
        # What builds it, as cmake, is looked for among what was installed for that, before the host's own.
        path = os.pathsep.join([os.path.dirname(self.python), self.console.environment.get("PATH", os.defpath)])
        given = {name: value for name, value in indexes.items() if value}
        return self.console.attempt(command, self.work, {**environment, **given, "PATH": path})


def build_requirements(tree: str, device: str) -> list[str]:
    """What a source tree wants there before it is built: as it says for the device, else as its pyproject.toml says."""
    for name in (f"build/{device}.txt", f"build-{device}.txt", f"{device}-build.txt"):
        path = os.path.join(tree, "requirements", name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                lines = [line.partition(" #")[0].strip() for line in f]
            return [line for line in lines if line and not line.startswith(("#", "-"))]
    try:
        with open(os.path.join(tree, "pyproject.toml"), encoding="utf-8") as f:
            text = f.read()
    except FileNotFoundError:
        return ["setuptools", "wheel"]
    section = text.partition("[build-system]")[2]
    listed = re.search(r"^requires\s*=\s*\[([^\]]*)\]", section, re.MULTILINE)
    return [a or b for a, b in re.findall(r"\"([^\"]+)\"|'([^']+)'", listed[1])] if listed else []


def _write(path: str, lines: Sequence[str], mode: int = 0o600) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as f:
        f.write("".join(f"{line}\n" for line in lines))
