"""What the role vllm_verify leaves beside a release: the role itself, over a probe that only tells a verdict."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]
PROBE = """
from ansible.module_utils.basic import AnsibleModule

names = "url api_key prompts max_tokens chat_template_kwargs unique_prefix acceptance_length position_0 baseline max_drop min_drafts phases timeout"
module = AnsibleModule({name: {"type": "raw", "no_log": False} for name in names.split()})
verdict = module.params["url"]
module.exit_json(verdict=verdict, msg=f"It is {verdict}.")
"""
FILTER = """
class FilterModule:
    def filters(self):
        return {"runtime_faults": lambda server: []}
"""


@pytest.mark.parametrize(
    ("verdicts", "left"),
    [
        (["insufficient"], None),
        (["insufficient", "pass"], "pass"),
        (["insufficient", "fail", "pass"], "fail"),
        (["pass", "insufficient"], "pass"),
        (["unreachable"], None),
    ],
)
def test_the_first_verdict_that_says_something_stays(verdicts, left, tmp_path):
    ours = tmp_path / "ansible_collections/llmops/vllm"
    for part in ("defaults", "tasks", "vars"):
        shutil.copytree(CLONE / "roles/vllm_verify" / part, ours / "roles/vllm_verify" / part)
    for kind, name, text in (("modules", "acceptance_probe", PROBE), ("filter", "runtime_faults", FILTER)):
        (ours / "plugins" / kind).mkdir(parents=True)
        (ours / "plugins" / kind / f"{name}.py").write_text(text)
    task = {"include_role": {"name": "llmops.vllm.vllm_verify"}}
    for verdict in verdicts:
        server = {"url": verdict, "release": str(tmp_path)}
        play = {"hosts": "all", "gather_facts": False, "tasks": [task], "vars": {"vllm_verify_server": server}}
        (tmp_path / "play.yml").write_text(json.dumps([play]))
        command = [sys.executable, "-m", "ansible.cli.playbook", "-i", "one,", "-c", "local", "play.yml"]
        done = subprocess.run(
            [*command, "-e", f"ansible_python_interpreter={sys.executable}"],
            cwd=tmp_path,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
                "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
                "ANSIBLE_HOME": str(tmp_path / "home"),
                "ANSIBLE_NOCOLOR": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) is (verdict == "pass"), done.stdout + done.stderr
        assert verdict == "pass" or f"It is {verdict}." in done.stdout, done.stdout + done.stderr
    evidence = tmp_path / "evidence.json"
    assert (json.loads(evidence.read_text())["verdict"] if evidence.exists() else None) == left
