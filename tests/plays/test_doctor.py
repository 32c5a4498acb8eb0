"""doctor.yml as a person or a schedule runs it: what it exits with, what it writes, and how it reads. A script stands in vLLM's place."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]
PAIR = CLONE / "playbooks/files/tiny-pair"
KEY = "canary-5f1d0c"
SCRIPT = "import sys, time; open(sys.argv[-1], 'w').close(); time.sleep(600)"
SERVERS = {
    "error": [f'--speculative-config={{"method": "dflash", "model": "{PAIR}/drafter"}}', "--host=127.0.0.1"],  # its config is wrong
    "warning": ["--host=0.0.0.0"],
    "ok": ["--host=127.0.0.1"],
}  # fmt: skip
# A table of processes of its own, so that no other server of this machine is seen.
ALONE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork", "--mount-proc", "--kill-child"]  # fmt: skip


def doctor(place: Path, *servers: str, environment: dict[str, str] | None = None, **variables: object):
    """What ansible-playbook said, with these servers on the host."""
    script = place / "venv/bin/vllm"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    told = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "vllm_doctor_become": False,
        **{f"vllm_doctor_{name}": value for name, value in variables.items()},
    }
    lines = []
    for n, kind in enumerate(servers):
        words = [sys.executable, script, "serve", PAIR / "target", f"--port={n + 1}", *SERVERS[kind], place / f"up{n}"]
        lines.append(f"VLLM_API_KEY={KEY if kind == 'ok' else ''} {shlex.join(map(str, words))} > /dev/null &")
        lines.append(f"while [ ! -e {place}/up{n} ]; do sleep 0.05; done")
    play = [sys.executable, "-m", "ansible.cli.playbook", CLONE / "playbooks/doctor.yml", "-i", "gpu1,", "-e", json.dumps(told)]  # fmt: skip
    return subprocess.run(
        [*ALONE, "sh", "-c", "\n".join([*lines, shlex.join(map(str, play))])],
        cwd=place, env={**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "PWD": str(place), **(environment or {})},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("servers", "fail_on", "code"),
    [
        (("error",), None, 0),
        (("error",), "error", 2),
        (("error", "ok"), "warning", 2),
        (("warning",), "error", 0),
        (("ok", "warning"), "warning", 2),
        ((), "warning", 0),
    ],
)
def test_it_fails_only_for_the_severity_that_is_named(tmp_path, servers, fail_on, code):
    done = doctor(tmp_path, *servers, **({"fail_on": fail_on} if fail_on else {}))
    assert done.returncode == code, done.stdout + done.stderr
    worst = next(kind for kind in (*SERVERS, "ok") if kind in servers or not servers)
    assert (f"The worst finding on gpu1 is of severity {worst}." in done.stdout) == bool(code)


def test_a_severity_that_there_is_none_of_is_refused_before_anything_is_looked_at(tmp_path):
    done = doctor(tmp_path, "ok", fail_on="fatal")
    assert done.returncode == 2
    assert "vllm_doctor_fail_on is fatal: it can be error or warning." in done.stdout
    assert "Say what is wrong" not in done.stdout


def test_json(tmp_path):
    """All that was found, to a place told from where the person is; nothing in it is a secret."""
    done = doctor(tmp_path, "error", "ok", json="found.json")
    assert done.returncode == 0, done.stdout + done.stderr
    written = tmp_path / "found.json"
    told = json.loads(written.read_text())
    assert (list(told), told["gpu1"]["health"]) == (["gpu1"], "error")
    assert [server["health"] for server in told["gpu1"]["servers"]] == ["error", "ok"]
    assert written.stat().st_mode & 0o077 == 0
    assert KEY not in done.stdout + written.read_text()


def test_the_table_can_be_read_however_ansible_prints(tmp_path):
    """Who has the collection but not this clone's ansible.cfg gets JSON."""
    bare = tmp_path / "ansible.cfg"
    bare.write_text(f"[defaults]\ncollections_path = {CLONE}/.collections\n")
    done = doctor(tmp_path, "error", environment={"ANSIBLE_CONFIG": str(bare), "ANSIBLE_NOCOLOR": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert any(line.startswith('"gpu1') and line.endswith('error",') for line in lines), done.stdout
    assert "\\n" not in done.stdout


def test_a_probe_that_is_no_small_load_is_refused(tmp_path):
    done = doctor(tmp_path, probe=True, probe_requests=99)
    assert done.returncode == 2
    assert "probe_requests is 99: it must be from 1 to 32" in " ".join(done.stdout.split())
