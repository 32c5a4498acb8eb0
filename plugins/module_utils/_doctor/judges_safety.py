# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else could use a server, or read its secrets."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import cmdline
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import NOTE, WARNING, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._engine import arguments
from ansible_collections.llmops.vllm.plugins.module_utils._host import files

KEYS = re.compile(r"(?im)(?:VLLM_API_KEY|HF_TOKEN|HUGGING_FACE_HUB_TOKEN)=|^\s*(?:api[-_]key|hf[-_]token)\s*:")
LONGEST = 64 * 1024  # characters of a file in which a secret is looked for


def safety(subject: Subject) -> Iterator[Finding]:
    server = subject.server
    words = dict.fromkeys(cmdline.long_name(word) for word in server.argv if word.startswith("-"))
    exposed = [f"--{word}" for word in words if word in ("api-key", "hf-token")]
    if exposed:
        yield Finding(
            "safety", WARNING, f"{' and '.join(exposed)} can be read by all users of the host.", f"the arguments of pid {server.pid}",
            "Put it into the environment (VLLM_API_KEY, HF_TOKEN) from a file that only its user can read.",
        )  # fmt: skip
    has_key = bool(exposed) or server.environment is None or bool(server.variable("VLLM_API_KEY"))
    if not has_key and not server.headless and not arguments.is_loopback(server.host):
        yield Finding(
            "safety", WARNING, f"It listens on {server.host} without a key, so whoever reaches the host can use it.",
            "its arguments and environment", "Give it --host 127.0.0.1, or a key (VLLM_API_KEY).",
        )  # fmt: skip
    if server.user == "root":
        yield Finding("safety", NOTE, "It runs as root.", f"pid {server.pid}", "Run it as a user of its own.")
    if server.flags.get("trust-remote-code") is True:
        yield Finding(
            "safety", NOTE, "It runs whatever Python code comes with the model.", "--trust-remote-code", "Leave it out if the model needs none.",
        )  # fmt: skip
    for path in [] if subject.blind else _secret_files(subject):
        yield Finding(
            "safety",
            WARNING,
            f"{path} holds a secret, and all users of the host can read it.",
            path,
            f"chmod go= {path}",
        )


def _secret_files(subject: Subject) -> Iterator[str]:
    """Where a token lies that others can read: in the hub client's place, in its --config, in the environment files of its unit."""
    home = subject.server.variable("HOME")
    paths = (
        [os.path.join(subject.server.variable("HF_HOME") or os.path.join(home, ".cache", "huggingface"), "token")]
        if home
        else []
    )
    told = subject.server.flags.get("config")
    paths += [os.path.join(subject.server.cwd or "/", told)] if isinstance(told, str) else []
    for path in [*paths, *subject.unit.get("EnvironmentFiles", "").split()]:
        try:
            with open(path, encoding="utf-8", errors="replace", opener=files.ordinary) as f:
                about, text = os.fstat(f.fileno()), f.read(LONGEST)
        except OSError:
            continue
        if about.st_mode & stat.S_IROTH and (path.endswith("/token") or KEYS.search(text)):
            yield path
