# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs, never by a shell. Jobs of the host start them too, where there is no AnsibleModule that could."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any, AnyStr


class Program(subprocess.Popen[AnyStr]):
    """One that is followed while it runs. It has nothing to read unless it is given something."""

    def __init__(self, argv: Sequence[str], **options: Any) -> None:
        super().__init__(argv, **{"stdin": subprocess.DEVNULL, **options})


def run(argv: Sequence[str], timeout: float | None = None, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run one to its end. What it says is kept unless `stdout` and `stderr` say otherwise; `input` is what it reads.

    After the timeout it is killed, and subprocess.TimeoutExpired raised.
    """
    given = options.pop("input", None)
    pipes = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        **({} if given is None else {"stdin": subprocess.PIPE}),
    }
    process: Program[Any]
    with Program(argv, **{**pipes, **options}) as process:
        try:
            said, complained = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(list(argv), process.returncode, said, complained)
