# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the Python of a build runs, as the server's user, to try a release: it ends as `vllm` would that is given these words, but serves nothing.

Handed over as text by trial.py, with a JSON list of directories that must be readable and the words of the command line.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def unreadable(directories: list[str]) -> str:
    """What of these this user may not read, in words; empty if nothing."""
    for directory in directories:
        try:
            names = sorted(os.listdir(directory))
        except OSError as e:
            return f"{directory} can't be read: {e.strerror}. Open it to that user (chmod a+rX)"
        for path in (os.path.join(directory, name) for name in names):
            if not os.access(path, os.R_OK):
                return f"{path} can't be read" + (
                    f", since {os.path.realpath(path)} can't" if os.path.islink(path) else ""
                )
    return ""


def main() -> None:
    refused = unreadable(json.loads(sys.argv[1]))
    if refused:
        raise SystemExit(refused)
    sys.argv = ["vllm", *sys.argv[2:]]
    cli = importlib.import_module("vllm.entrypoints.cli.main")
    serve: Any = importlib.import_module("vllm.entrypoints.cli.serve")
    if hasattr(serve, "ServeSubcommand") and hasattr(serve.ServeSubcommand, "cmd"):
        serve.ServeSubcommand.cmd = staticmethod(lambda args: None)
        cli.main()
    # A vLLM that is made otherwise can't be asked without starting it.


if __name__ == "__main__":
    main()
