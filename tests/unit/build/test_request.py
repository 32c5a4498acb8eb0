"""What is asked for, and what of it must not be said."""

from __future__ import annotations

import json

from ansible_collections.llmops.vllm.plugins.module_utils._build import request
from ansible_collections.llmops.vllm.plugins.module_utils._build.console import Console

DATA = {
    "id": "x",
    "wanted": {
        "mode": "git",
        "python": "python3",
        "commit": "0" * 40,
        "picks": ["1" * 40],
        "patches": [{"name": "a.patch", "text": "hunter2 in a patch"}],
        "wheel": "https://me:pass-word@host/vllm.whl?signature=canary-signature#sha256=abc",
        "constraints": ["torch @ https://me:canary-in-constraint@host/torch.whl?token=canary-token", "numpy<3"],
        "extras": ["ray @ https://me:canary-in-extra@host/ray.whl?token=canary-token", "msgpack"],
        "environment": "digest",
    },
    "means": {
        "home": "/opt/vllm",
        "repo": "https://token-1234@host/vllm.git",
        "index_url": "https://user:pass%40word@index/simple",
        "environment": {"API_KEY": "canary-canary", "CUDA_HOME": "/usr/local/cuda", "MAX": 1},
    },
}


def read(tmp_path, **means):
    path = tmp_path / "request.json"
    path.write_text(json.dumps({**DATA, "means": {**DATA["means"], **means}}))
    return request.read(str(path))


def test_lists_come_back_as_they_were(tmp_path):
    asked = read(tmp_path)
    assert asked.wanted.picks == ("1" * 40,)
    assert asked.wanted.patches == (request.Text("a.patch", "hunter2 in a patch"),)
    assert asked.means.tool == "pip"


def test_numbers_come_back_from_text(tmp_path):
    means = read(tmp_path, max_jobs="4", keep="3").means
    assert (means.max_jobs, means.keep) == (4, 3)


def test_what_all_may_read_has_no_secret(tmp_path):
    public = json.dumps(read(tmp_path).public())
    assert '"https://host/vllm.whl#sha256=abc"' in public
    assert '"torch @ https://host/torch.whl", "numpy<3"' in public
    assert '"ray @ https://host/ray.whl", "msgpack"' in public
    for secret in ("pass-word", "hunter2", "canary", "token-1234"):
        assert secret not in public


def test_the_log_has_no_secret(tmp_path, capfd):
    asked = read(tmp_path)
    console = Console(1, asked.secrets(), asked.means.environment)
    console.step(f"fetch from {asked.means.repo}")
    script = """
    echo "key $API_KEY of $MAX"; echo https://new:one@elsewhere/x; echo https://elsewhere/x.whl?sig=new-canary
    echo pass%40word, or pass@word; echo canary-signature; echo canary-in-constraint; echo canary-token
    """
    console.attempt(["sh", "-c", script])
    said = capfd.readouterr().out
    assert "[1/1] fetch from https://***@host/vllm.git" in said
    assert "key *** of 1" in said
    assert "https://***@elsewhere/x" in said
    assert "https://elsewhere/x.whl?***" in said
    for secret in ("token-1234", "canary", "pass%40word", "pass@word", "new:one"):
        assert secret not in said


def test_a_repository_of_ssh_leaves_the_log_readable(tmp_path):
    assert "git" not in read(tmp_path, repo="ssh://git@host/vllm.git").secrets()
