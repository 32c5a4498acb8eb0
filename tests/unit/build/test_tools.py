"""What the venv's Python answers."""

from __future__ import annotations

import sys

from ansible_collections.llmops.vllm.plugins.module_utils._build import request
from ansible_collections.llmops.vllm.plugins.module_utils._build.console import Console
from ansible_collections.llmops.vllm.plugins.module_utils._build.tools import Tool

NOISY = """
import atexit, sys
sys.stdout.write("[1] no newline ")
atexit.register(print, "[2] at the end")
said = ["torchaudio"]
"""


def test_an_answer_among_noise(tmp_path):
    asked = request.Request("x", request.Wanted("wheel", sys.executable), request.Means(str(tmp_path)))
    tool = Tool(asked, Console(1, [], {}), sys.prefix, str(tmp_path))
    assert tool.say(NOISY) == ["torchaudio"]
    assert tool.say("said = []") == []
