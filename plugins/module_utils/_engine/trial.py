# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release tried before it is written: whether its build takes its arguments, and whether the server's user may read its models.

Only the build itself knows its flags and their types, so its own parser is asked.
"""

from __future__ import annotations

import inspect
import json
import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._engine import tried
from ansible_collections.llmops.vllm.plugins.module_utils._host import programs
from ansible_collections.llmops.vllm.plugins.module_utils._logs import masks

PATIENCE = 300.0  # seconds for the first import of an engine on a cold disk


def hindrance(
    argv: Sequence[str], directories: Sequence[str], environment: Mapping[str, str | None], user: str | None
) -> str:
    """Why the program in argv[0], vllm or ray, would refuse the words after it or can't read the directories, in a sentence; empty if all is well.

    environment: the server's, whose only other variable is a PATH. user: whom to ask as, None for whoever we are.
    """
    python = os.path.join(os.path.dirname(argv[0]), "python")
    if not os.access(python, os.X_OK):
        return ""  # which the rehearsal of the start tells of
    command = [python, "-c", inspect.getsource(tried), json.dumps(list(directories)), *argv]
    path = {"PATH": os.pathsep.join([os.path.dirname(python), os.environ.get("PATH", os.defpath)])}
    try:
        done = programs.run(
            command,
            env={**path, **{name: value for name, value in environment.items() if value is not None}},
            cwd="/",
            stdout=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            **_as(user),
        )
    except subprocess.TimeoutExpired:
        return f"{argv[0]} was asked whether it takes the arguments, and gave no answer within {PATIENCE:g} s."
    if done.returncode == 0:
        return ""
    return f"{argv[0]} was asked, as {user or 'this user'}, whether it would start so, and said: {_said(done.stderr) or done.returncode}."


def _as(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    account = pwd.getpwnam(user)
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}


def _said(stderr: str) -> str:
    """The last line, which says it: argparse's after its usage, or the exception's after its traceback."""
    lines = stderr.strip().splitlines()
    return masks.mask(lines[-1].strip()) if lines else ""
