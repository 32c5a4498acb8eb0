"""vllm_release by its module, on this machine's disk: what it writes, for whom, and what it refuses."""

from __future__ import annotations

import getpass
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import release

MODULE = Path(__file__).parents[3] / "plugins/modules/vllm_release.py"
CONTENT = {"argv": ["/venv/bin/vllm", "serve", "/models/mödel"], "url": "http://127.0.0.1:8000"}
ENVIRONMENT = {"VLLM_API_KEY": "canary", "OMP_NUM_THREADS": 2, "GONE": None}


@pytest.fixture
def write(tmp_path):
    def call(environment=None, check=False, umask=-1, **params):
        environment = ENVIRONMENT if environment is None else environment
        args = {
            "instance": str(tmp_path / "one"),
            "content": CONTENT,
            "launcher": "print('hello')\n",
            "environment": environment if isinstance(environment, str) else json.dumps(environment),
            "user": getpass.getuser(),
            "_ansible_check_mode": check,
            "_ansible_diff": True,
            **params,
        }
        code = (
            "import runpy, sys\nfrom ansible.module_utils import basic\n"
            "if hasattr(basic, '_ANSIBLE_PROFILE'): basic._ANSIBLE_PROFILE = 'legacy'\n"
            f"basic._ANSIBLE_ARGS = sys.stdin.buffer.read()\nrunpy.run_path({str(MODULE)!r}, run_name='__main__')"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": args}),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            umask=umask,
            check=False,
        )
        assert done.stdout, done.stderr
        assert "canary" not in done.stdout
        return json.loads(done.stdout)

    return call


def test_written_once(write):
    first = write()
    path = Path(first["path"])
    assert first["changed"]
    assert path.name == first["id"]
    assert {file.name: file.stat().st_mode & 0o777 for file in path.iterdir()} == {
        "launch.py": 0o644,
        "env.json": 0o600,
        "release.json": 0o644,
    }
    assert path.stat().st_mode & 0o777 == 0o755
    assert json.loads((path / "env.json").read_text()) == {**ENVIRONMENT, "OMP_NUM_THREADS": "2"}
    assert json.loads((path / "release.json").read_text()) == first["content"]
    again = write()
    assert (again["changed"], again["id"]) == (False, first["id"])
    assert [p.name for p in path.parent.iterdir()] == [first["id"]]


@pytest.mark.parametrize(
    "other",
    [
        {"environment": {**ENVIRONMENT, "VLLM_API_KEY": "canary-2"}},
        {"content": {**CONTENT, "url": "http://127.0.0.1:8001"}},
        {"launcher": "print('hallo')\n"},
    ],
    ids=["key", "content", "launcher"],
)
def test_anything_else_is_another_release(write, other):
    assert write()["id"] != write(**other)["id"]


@pytest.mark.parametrize("name", ["launch.py", "env.json", "release.json"])
def test_what_was_changed_by_hand_is_put_right(write, name):
    path = Path(write()["path"]) / name
    right = path.read_bytes()
    path.write_text("{}")
    path.chmod(0o666)
    assert write()["changed"]
    assert path.read_bytes() == right
    assert not write()["changed"]


@pytest.mark.parametrize("name", ["current", "previous"])
def test_what_should_be_a_link_and_is_not_is_left_alone(write, tmp_path, name):
    (tmp_path / "one" / name).mkdir(parents=True)
    refused = write()
    assert refused["failed"]
    assert (
        f"/one/{name} is no link, though only one that points at a release belongs there: move it away."
        in refused["msg"]
    )
    assert not (tmp_path / "one/releases").exists()


@pytest.mark.parametrize(("text", "stays"), [('{"verdict": "pa', False), ("", False), ('{"verdict": "pass"}', True)])
def test_evidence_that_is_cut_short_goes_so_that_it_is_written_again(write, text, stays):
    evidence = Path(write()["path"]) / "evidence.json"
    evidence.write_text(text)
    write()
    assert evidence.exists() == stays


def test_a_careful_umask_closes_nothing_to_the_server(write, tmp_path):
    path = Path(write(umask=0o077)["path"])
    made = [
        path,
        *list(path.parents)[: len(path.relative_to(tmp_path).parts) - 1],
        tmp_path / "one/cache",
        tmp_path / "one/cache" / getpass.getuser(),
    ]
    assert {str(one.relative_to(tmp_path)): one.stat().st_mode & 0o777 for one in made} == {
        f"one/releases/{path.name}": 0o755,
        "one/releases": 0o755,
        "one": 0o755,
        "one/cache": 0o755,
        f"one/cache/{getpass.getuser()}": 0o755,
    }


def test_check_mode_writes_nothing(write, tmp_path):
    would = write(check=True)
    assert would["changed"]
    assert '"url": "http://127.0.0.1:8000"' in would["diff"]["after"]
    assert list(tmp_path.iterdir()) == []
    assert write()["id"] == would["id"]


@pytest.mark.parametrize(("verdict", "proven"), [("pass", True), ("fail", False), (None, False)])
def test_the_current_release_is_told(write, tmp_path, verdict, proven):
    first = write()
    (tmp_path / "one/current").symlink_to(f"releases/{first['id']}")
    if verdict:
        (Path(first["path"]) / "evidence.json").write_text(json.dumps({"verdict": verdict, "measured": {"drafts": 9}}))
    second = write(launcher="")
    assert second["current"] == first["content"]
    assert second["current_proven"] is proven
    assert second["current_measured"] == ({"drafts": 9} if verdict else {})


def test_what_a_killed_run_left_is_cleared(write, tmp_path):
    left = tmp_path / "one/releases/.0123456789ab.abcd_123.tmp"
    left.mkdir(parents=True)
    (left / "env.json").write_text("{}")
    write()
    assert not left.exists()


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        ({"environment": {"A": True}}, "A is true or false, and a process can only have text"),
        ({"environment": {"A": {"canary": 1}}}, "A is a dictionary"),
        ({"environment": {"A": ["canary"]}}, "A is a list"),
        ({"environment": {"A=B": "canary"}}, "'A=B' can't be an environment variable"),
        ({"environment": {"A": "can\0ary"}}, "'A' can't be an environment variable"),
        ({"environment": "canary"}, "The environment is no JSON object."),
        ({"user": "nobody-by-this-name"}, "There is no user nobody-by-this-name on this host"),
        ({"instance": "/dev/null/one"}, "could not be written. /dev/null/one: Not a directory. A file, or a link"),
    ],
    ids=["bool", "dictionary", "list", "name", "null byte", "no object", "user", "place"],
)
def test_what_can_not_be_is_refused(write, tmp_path, wrong, cause):
    refused = write(**wrong)
    assert refused["failed"]
    assert cause in refused["msg"]
    assert not (tmp_path / "one/releases").exists()


def test_the_secret_is_for_the_servers_user_alone(write, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    nobody = pwd.getpwnam("nobody").pw_uid
    path = Path(write(user="nobody")["path"])
    owners = {file.name: file.stat().st_uid for file in path.iterdir()}
    assert owners == {"launch.py": 0, "env.json": nobody, "release.json": 0}
    assert (tmp_path / "one/cache/nobody").stat().st_uid == nobody
    assert {place.stat().st_uid for place in (path, path.parent, tmp_path / "one/cache")} == {0}
    assert not write(user="nobody")["changed"]


def test_another_user_cannot_be_given_files(monkeypatch):
    """As root it could."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(release.ReleaseError, match="uid 12345 can"):
        release.owner("root")


def test_another_user_of_the_server_leaves_the_first_ones_cache_alone(write, tmp_path):
    """A server of the first may still run."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    write(user="nobody")
    compiled = tmp_path / "one/cache/nobody/kernel"
    compiled.touch()
    write()
    assert compiled.exists()
    assert compiled.parent.stat().st_uid == pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def vllm(tmp_path):
    """A program in vLLM's place whose Python refuses what it is asked and counts how often."""
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\necho >> "{tmp_path}/asked"\necho "vllm: error: no" >&2\n[ "$6" != --bad ]\n')
    python.chmod(0o755)
    return str(tmp_path / "bin/vllm")


def test_a_release_is_tried_once(write, tmp_path, vllm):
    content = {"argv": [vllm, "serve", "--good"], "target": {"path": str(tmp_path)}}
    assert write(content=content)["changed"]
    assert not write(content=content)["changed"]
    assert (tmp_path / "asked").read_text() == "\n"


@pytest.mark.parametrize("check", [True, False])
def test_the_build_is_never_asked_as_root(write, tmp_path, check):
    """Its Python belongs to the server's user, who may have put anything there; in check mode too."""
    if os.geteuid() != 0:
        pytest.skip("only root could be somebody else")
    told = tmp_path / "told"
    told.mkdir()
    told.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    tmp_path.chmod(0o755)
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nid -un > "{told}/who"\n')
    python.chmod(0o755)
    content = {"argv": [str(tmp_path / "bin/vllm"), "serve"], "target": {"path": str(tmp_path)}}
    assert write(check=check, content=content, user="nobody")["changed"]
    assert (told / "who").read_text() == "nobody\n"


def test_check_mode_asks_nobody_for_a_user_who_is_not_there_yet(write, tmp_path, vllm):
    content = {"argv": [vllm, "serve", "--good"], "target": {"path": str(tmp_path)}}
    assert write(check=True, content=content, user="nobody-by-this-name")["changed"]
    assert not (tmp_path / "asked").exists()


def test_what_its_build_refuses_is_not_written(write, tmp_path, vllm):
    content = {"argv": [vllm, "serve", "--bad"], "target": {"path": str(tmp_path)}}
    would = write(check=True, content=content)
    assert would["changed"]
    assert "As things are, it would not be written." in str(would["warnings"])
    refused = write(content=content)
    assert refused["msg"].endswith("and said: vllm: error: no. Nothing was written.")
    assert not (tmp_path / "one/releases").exists()
