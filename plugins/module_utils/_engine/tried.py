# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the Python of a build runs, as the server's user, to try a release: it ends as `vllm` or `ray` would that is given these words, but serves
nothing.

Handed over as text by trial.py, with a JSON list of directories that must be readable and the command line.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

TOKENS = [2, 52]
"""The first Ray whose processes can be had to know each other."""


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


def try_ray(program: str, words: list[str]) -> None:
    try:
        version = importlib.import_module("ray").__version__
    except ModuleNotFoundError as e:
        raise SystemExit(
            f"{e}. Put Ray into the build: vllm_build_extras: [ray], or pip install ray in a venv of your own"
        ) from None
    if [int(n) for n in version.split(".")[:2]] < TOKENS:
        raise SystemExit(f"Ray {version} knows no token, so anybody could run code by it: 2.52 is the first that does")
    if not os.access(program, os.X_OK):
        raise SystemExit(f"Ray {version} is there, and its program is not: install Ray into the venv itself")
    importlib.import_module("ray.scripts.scripts").start.make_context("ray start", words[1:])


def main() -> None:
    refused = unreadable(json.loads(sys.argv[1]))
    if refused:
        raise SystemExit(refused)
    if os.path.basename(sys.argv[2]) == "ray":
        try_ray(sys.argv[2], sys.argv[3:])
        return
    sys.argv = ["vllm", *sys.argv[3:]]
    cli = importlib.import_module("vllm.entrypoints.cli.main")
    serve: Any = importlib.import_module("vllm.entrypoints.cli.serve")
    if hasattr(serve, "ServeSubcommand") and hasattr(serve.ServeSubcommand, "cmd"):
        serve.ServeSubcommand.cmd = staticmethod(lambda args: None)
        cli.main()
    # A vLLM that is made otherwise can't be asked without starting it.


if __name__ == "__main__":
    main()
