"""A Python with the real huggingface_hub, made once on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import yaml

CLONE = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "llmops-vllm"
REQUIREMENTS: list[str] = yaml.safe_load((CLONE / "roles/vllm_models/defaults/main.yml").read_text())[
    "vllm_models_requirements"
]


def with_huggingface_hub() -> Path:
    """Its path; of those packages that hosts get by default."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    venv = CACHE / "-".join(["hub", version, *(wanted.replace("==", "-") for wanted in REQUIREMENTS)])
    if not venv.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        half = CACHE / f"{venv.name}.{uuid.uuid4().hex}"
        subprocess.run([sys.executable, "-m", "venv", half], check=True)
        subprocess.run([half / "bin/python", "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        try:
            half.rename(venv)
        except OSError:
            if not venv.exists():  # another test was not faster
                raise
            shutil.rmtree(half)
    return venv / "bin/python"
