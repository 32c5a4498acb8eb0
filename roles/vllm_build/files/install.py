"""The job that makes a build: ``python3 install.py``, with request.json and code.json, the collection's own code, beside it."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIB = HERE / "lib"
for name, text in json.loads((HERE / "code.json").read_text(encoding="utf-8")).items():
    path = LIB / "ansible_collections/llmops/vllm" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
sys.path.insert(0, str(LIB))

from ansible_collections.llmops.vllm.plugins.module_utils._build import installer  # noqa: E402

sys.exit(installer.main(str(HERE)))
