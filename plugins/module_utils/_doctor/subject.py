# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One server with all that was read of it, which the judges look at."""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._build import installed
from ansible_collections.llmops.vllm.plugins.module_utils._doctor import hub
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import Finding
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.servers import Server
from ansible_collections.llmops.vllm.plugins.module_utils._drafter import engines
from ansible_collections.llmops.vllm.plugins.module_utils._engine import metrics
from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import NoAnswerError
from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import Server as Client
from ansible_collections.llmops.vllm.plugins.module_utils._host import files
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Judge

PATIENCE = 10.0  # seconds for each question


@dataclasses.dataclass
class Subject:
    """unit: what systemd says of the server's unit, empty without one. log: the judge of its last launch, None where nothing is written.

    target, drafter: directories as the server sees them, empty where there are none. answers: whether it takes requests; silence: why not.
    probed: what a probe found, None if nobody asked for one. blind: whether its files can't be looked at; unseen: that, and the like.
    """

    server: Server
    unit: Mapping[str, str]
    log: Judge | None
    restarts: int = 0
    target: str = ""
    drafter: str = ""
    version: str = ""
    found: installed.Installed | None = None
    counters: metrics.Counters = dataclasses.field(default_factory=metrics.Counters)
    answers: bool = False
    silence: str = ""
    probed: dict[str, Any] | None = None
    blind: bool = False
    unseen: list[Finding] = dataclasses.field(default_factory=list)

    def read(self) -> None:
        """What is to be seen where the server's files are: its models and its Python."""
        server = self.server
        environment = server.environment or {}
        self.target = hub.directory(server.model, str(server.flags.get("revision") or ""), environment, server.cwd)
        told = server.speculative.get("model")
        if told:
            self.drafter = hub.directory(
                str(told), str(server.speculative.get("revision") or ""), environment, server.cwd
            )
        self.found = installed.look(os.path.dirname(os.path.dirname(server.python))) if "/" in server.python else None
        self.version = (
            self.version or (self.found.version if self.found else None) or str(self.facts.get("version") or "")
        )

    def url(self, known_names: bool) -> str:
        """Where it can be asked; empty where it can't. known_names: whether its address may be a name, looked up as we do."""
        server = self.server
        address = "127.0.0.1" if server.host in ("0.0.0.0", "::", "localhost") else server.host
        if server.headless or "uds" in server.flags or not (known_names or _is_numeric(address)):
            return ""
        scheme = "https" if server.flags.get("ssl-certfile") else "http"
        return f"{scheme}://{f'[{address}]' if ':' in address else address}:{server.port}"

    def ask(self, known_names: bool) -> dict[str, Any]:
        """What the server itself answers, for hear()."""
        url = self.url(known_names)
        if not url:
            return {}
        try:
            client = Client(url, validate_certs=False)
            status, text = client.metrics(time.monotonic() + PATIENCE)
            version = client.version(time.monotonic() + PATIENCE)
        except NoAnswerError as e:
            return {"silence": f"{e.cause} ({e.evidence})"}
        except ValueError as e:
            return {"silence": f"{url} can't be asked: {e}"}
        return {"status": status, "text": text, "version": version}

    def hear(self, answer: dict[str, Any]) -> None:
        self.silence = str(answer.get("silence") or "")
        self.answers = "status" in answer
        if answer.get("status") == 200:
            self.counters = metrics.read(answer["text"])
        self.version = str(answer.get("version") or "")

    @property
    def facts(self) -> dict[str, Any]:
        """What the log of its last launch tells."""
        return self.log.progress.facts if self.log else {}

    @property
    def numbers(self) -> tuple[int, int] | None:
        parsed = engines.parse(self.version, None).numbers if self.version[:1].isdigit() else ()
        return (parsed[0], parsed[1]) if len(parsed) > 1 else None

    @property
    def runner(self) -> str:
        told = self.server.variable("VLLM_USE_V2_MODEL_RUNNER")
        return {"1": "v2", "0": "v1"}.get(told) or str(self.facts.get("runner") or "").lower()

    @property
    def from_source(self) -> bool:
        """Whether it was built from some commit, which may have what its version hasn't, and the reverse."""
        return bool(self.numbers) and engines.parse(self.version, None).from_source

    @property
    def is_dflash(self) -> bool:
        return self.server.speculative.get("method") == "dflash" or self.facts.get("speculative_method") == "dflash"

    @property
    def build(self) -> dict[str, Any] | None:
        """The vLLM that lies in its venv, None where that isn't known. commit: its first digits or all, as far as its files tell."""
        if self.found is None or not self.found.distributions:
            return None
        commit = max(self.found.says().values(), key=len, default="")
        return {
            "version": self.found.version,
            "commit": commit,
            "method": self.found.method,
            "device": self.found.device,
        }

    def config(self, directory: str) -> dict[str, Any]:
        return files.read_json(os.path.join(directory, "config.json")) if directory else {}

    def shown(self) -> dict[str, Any]:
        """What is told of it besides the findings."""
        drafting = self.counters.drafting
        return {
            "target": self.target,
            "drafter": self.drafter,
            "version": self.version,
            "build": self.build,
            "runner": self.runner,
            "answers": self.answers,
            "acceptance_length": drafting.acceptance_length if drafting else None,
            "drafts": round(drafting.drafts) if drafting else None,
            "restarts": self.restarts,
            "probe": self.probed,
            "digests": {
                name: _digest(path) for name, path in (("target", self.target), ("drafter", self.drafter)) if path
            },
            "facts": json.loads(json.dumps(self.facts)),
        }


def _digest(directory: str) -> str:
    """SHA-256 of its config.json."""
    with open(os.path.join(directory, "config.json"), "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def _is_numeric(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
