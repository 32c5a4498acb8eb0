# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hub as a source: its own client does the transfer, under a Python of its own."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._host import locks, programs
from ansible_collections.llmops.vllm.plugins.module_utils._models import client, errors
from ansible_collections.llmops.vllm.plugins.module_utils._models.errors import FetchError
from ansible_collections.llmops.vllm.plugins.module_utils._models.listing import File
from ansible_collections.llmops.vllm.plugins.module_utils._models.request import Request
from ansible_collections.llmops.vllm.plugins.module_utils._models.sources import Source

# Nothing that the user of the job has set up for itself may steer what is fetched.
FOREIGN = ("PYTHON", "VIRTUAL_ENV", "HF_", "HUGGING", "ANSIBLE_")


class HuggingFace(Source):
    """A hub that huggingface_hub speaks to."""

    def __init__(self, request: Request, home: str, say: Callable[[str], None]) -> None:
        """home: a directory for what the client keeps for itself."""
        self.request, self.home, self.say = request, home, say
        self.name = request.endpoint

    def fetch(self, wanted: Sequence[File], parts: str) -> None:
        python = self.request.python or self._make_python()
        error = self._run(python, wanted, parts, {})
        if error and error["stage"] == "xet":
            self.say(f"WARNING: the transfer backend failed ({error['text']}), so it goes on without it.")
            error = self._run(python, wanted, parts, {"HF_HUB_DISABLE_XET": "1"})
        if error:
            raise self._explained(error)

    def _run(self, python: str, wanted: Sequence[File], parts: str, more: dict[str, str]) -> dict[str, Any] | None:
        r = self.request
        asked: dict[str, Any] = {
            "endpoint": r.endpoint,
            "token": r.token,
            "repo": r.repo,
            "revision": r.revision,
            "parts": parts,
        }
        asked["files"] = {file.path: file.size for file in wanted}
        code = (
            "import json, sys; exec(compile(json.loads(sys.stdin.readline()), 'client', 'exec'))  # fetches from a hub"
        )
        done = self._call([python, "-c", code], f"{json.dumps(inspect.getsource(client))}\n{json.dumps(asked)}", more)
        if done.returncode == 0:
            return None
        try:
            return dict(json.loads(done.stdout.splitlines()[0]))
        except (ValueError, IndexError):
            said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
            raise FetchError(
                f"the client of the hub failed under {python}: {said}", "vllm_models_python has to have huggingface_hub"
            ) from None

    def _make_python(self) -> str:
        """A venv with huggingface_hub, made once for all models of the host."""
        r = self.request
        venv = os.path.join(r.tools, "venv")
        python, stamp = os.path.join(venv, "bin", "python"), os.path.join(venv, "requirements.txt")
        wanted = "\n".join(r.requirements)
        with locks.locked(os.path.join(r.tools, "lock")):
            if os.path.exists(stamp):
                with open(stamp, encoding="utf-8") as f:
                    if f.read() == wanted:
                        return python
            self._install(venv, python)
            with open(stamp, "w", encoding="utf-8") as f:
                f.write(wanted)
        return python

    def _install(self, venv: str, python: str) -> None:
        r = self.request
        self.say("Installing huggingface_hub, which fetches from the hub.")
        make = [sys.executable, "-m", "venv", "--clear", venv]
        install = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *r.requirements]
        if r.wheelhouse:
            install += ["--no-index", "--find-links", r.wheelhouse]
        index = {"PIP_INDEX_URL": r.index_url} if r.index_url else {}
        for command in (make, install):
            done = self._call(command, "", {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", **index})
            if done.returncode:
                said = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
                self.say("\n".join(f"    {line}" for line in said[-20:]))
                raise FetchError(
                    f"huggingface_hub could not be installed: {said[-1] if said else done.returncode}",
                    "Name an index that is reachable (vllm_models_index_url) or a directory of wheels (vllm_models_wheelhouse), "
                    "or set vllm_models_python to a Python that has it, as that of a build of vLLM",
                )

    def _call(self, argv: list[str], given: str, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        quiet = {
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        }
        home = {"HOME": self.home, "HF_HOME": self.home, "LC_ALL": "C.UTF-8"}
        try:
            return programs.run(
                argv,
                input=given,
                text=True,
                errors="replace",
                cwd="/",
                env={**kept, **home, **quiet, **self.request.environment, **more},
            )
        except OSError as e:
            raise FetchError(f"{argv[0]} can't be run: {e.strerror}", "Check vllm_models_python") from None

    def _explained(self, error: dict[str, Any]) -> FetchError:
        r = self.request
        if error["errno"] and not error["network"]:
            return errors.of_system(OSError(error["errno"], os.strerror(error["errno"])), r.models)
        if error["status"]:
            wait = errors.waiting(error["retry_after"], error["rate_limit"])
            answer = errors.Answer(error["status"], error["code"], error["message"], wait)
            return errors.refused(answer, errors.Place(r.endpoint, r.repo, r.revision, bool(r.token)))
        if error["network"]:
            return errors.unreachable(r.endpoint, error["text"])
        return FetchError(
            f"{error['path']} could not be fetched: {error['text']}", "Run it again: what has come is kept"
        )
