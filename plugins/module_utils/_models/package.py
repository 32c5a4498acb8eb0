# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's own code that a job runs after the module that starts it is gone: one archive that Python can run."""

from __future__ import annotations

import inspect
import io
import os
import zipfile
from types import ModuleType

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, locks, programs, refusals, secrets
from ansible_collections.llmops.vllm.plugins.module_utils._models import (
    client,
    errors,
    fetcher,
    hub,
    huggingface,
    listing,
    request,
    serving,
    snapshot,
    sources,
    web,
)

CODE = (
    files,
    locks,
    programs,
    refusals,
    secrets,
    client,
    errors,
    fetcher,
    hub,
    huggingface,
    listing,
    request,
    serving,
    snapshot,
    sources,
    web,
)


def archive(main: ModuleType = fetcher) -> bytes:
    """What ``python3 archive directory`` runs: the function main of a module, with the directory. The same each time."""
    content = {f"{module.__name__.replace('.', '/')}.py": inspect.getsource(module) for module in CODE}
    for name in list(content):
        while name := os.path.dirname(name):
            content[f"{name}/__init__.py"] = ""
    content["__main__.py"] = f"import sys\nfrom {main.__name__} import main\nsys.exit(main(sys.argv[1]))\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in sorted(content.items()):
            archive.writestr(zipfile.ZipInfo(name), text)
    return made.getvalue()
