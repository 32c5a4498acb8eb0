# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the tools of a build, and says what goes on in lines that log_wait follows, without a secret in them."""

from __future__ import annotations

import collections
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Sequence

from ansible_collections.llmops.vllm.plugins.module_utils._build import causes
from ansible_collections.llmops.vllm.plugins.module_utils._host import programs, secrets

REMEMBERED = 5000  # lines in which the cause of a failure is looked for
FOREIGN = ("PYTHON", "VIRTUAL_ENV", "VLLM_", "ANSIBLE_", "GIT_")


class Console:
    """Where the work is shown: ``[2/7] ...`` for each step."""

    def __init__(self, steps: int, hidden: Sequence[str], environment: dict[str, str]) -> None:
        self.steps = steps
        self.hidden = hidden
        self.environment = {**clean_environment(), **environment}
        self.warnings: list[str] = []
        self._step = 0
        self._shown = ""

    def step(self, words: str) -> None:
        self._step += 1
        self.say(f"[{self._step}/{self.steps}] {words}")

    def warn(self, words: str) -> None:
        self.warnings.append(self.mask(words))
        self.say(f"WARNING: {words}")

    def say(self, words: str) -> None:
        self._write(self.mask(words))

    def mask(self, text: str) -> str:
        for secret in self.hidden:
            text = text.replace(secret, "***")
        return secrets.masked(text)

    def run(self, argv: Sequence[str], what: str, cwd: str = "/", environment: dict[str, str] | None = None) -> str:
        """Run a command and return what it said; raises BuildError with the cause if it fails."""
        code, output = self.attempt(argv, cwd, environment)
        if code:
            raise causes.explain(output, code, what)
        return output

    def attempt(
        self, argv: Sequence[str], cwd: str = "/", environment: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """The exit code of a command, and what it said, which is passed on as it comes."""
        said: collections.deque[str] = collections.deque(maxlen=REMEMBERED)
        try:
            process = programs.Program(
                argv,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**self.environment, **(environment or {})},
                text=True,
                errors="replace",
            )
        except FileNotFoundError:
            raise causes.BuildError(f"there is no {argv[0]} on the host", "Install it") from None
        with process:
            for line in process.stdout or ():
                line = self.mask(line.rstrip("\n"))
                said.append(line)
                # Indented, so that no line of a tool is taken for one of ours.
                self._write(f"    {line}")
                self._progress(line)
        return process.returncode, "\n".join(said)

    @staticmethod
    def _write(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def _progress(self, line: str) -> None:
        """A compiler's count, as ninja writes it, each time that another tenth is done."""
        count = re.match(r"\s*\[(\d+)/(\d+)\] ", line)
        if count and int(count[2]) >= 10:
            done = (
                f"[{self._step}/{self.steps}] compiled {int(count[1]) * 10 // int(count[2]) * 10} % of {count[2]} files"
            )
            if done != self._shown:
                self._shown = done
                self.say(done)


def cache(home: str) -> dict[str, str]:
    """Where tools keep what they fetch, if their user has no home to keep it in: uv, unlike pip, can't do without."""
    if os.access(pwd.getpwuid(os.getuid()).pw_dir, os.W_OK):
        return {}
    return {"XDG_CACHE_HOME": os.path.join(home, "cache")}


def clean_environment() -> dict[str, str]:
    """Ours without what would make a build another one, and at home where this user is."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    home = pwd.getpwuid(os.getuid()).pw_dir
    if os.path.isdir(home):
        kept["HOME"] = home
    return {
        **kept,
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
    }
