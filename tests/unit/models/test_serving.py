"""One host serves a snapshot to others: who may have it, what of it, how many at a time, and that it ends."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes
from ansible_collections.llmops.vllm.tests.unit.models.conftest import FILES, NAME, PROFILED, Host

SHARE = Path(__file__).parents[3] / "plugins/modules/hf_share.py"
TOKEN = "made-for-this-once"
LARGE = "model-00001-of-00002.safetensors"


@pytest.fixture
def share(host):
    def call(**params):
        args = {
            "path": str(host.path),
            "_ansible_tmpdir": str(host.home),
            "_ansible_remote_tmp": str(host.home),
            **params,
        }
        done = subprocess.run(
            [sys.executable, "-c", PROFILED.format(module=SHARE)],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": args}), capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=60, check=False,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    host.well()
    yield call
    call(state="stopped")


def ask(url, token=TOKEN, **headers):
    wanted = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}", **headers})
    try:
        with urllib.request.urlopen(wanted, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as e:
        return e.code, dict(e.headers)


def test_another_host_has_it_from_there(host, hub, share, tmp_path):
    url = share(address="127.0.0.1", token=TOKEN)["url"]
    other = Host(tmp_path / "other", hub, host.python)
    other.home.mkdir()
    hub.forget()
    digest = host.well()["digest"]
    other.well(source=url, source_token=TOKEN, digest=digest)
    assert other.content() == FILES
    assert hub.asked == []
    assert "Mirror" not in other.refused(repo=NAME, revision="0" * 40, source=url, source_token=TOKEN, digest="1" * 64)


def test_nothing_but_that_snapshot_and_nobody_without_the_token(host, share):
    (host.path / "secret.txt").write_text("written there later")
    url = share(address="127.0.0.1", token=TOKEN)["url"]
    assert ask(f"{url}/config.json") == (200, FILES["config.json"])
    assert ask(f"{url}/config.json", token="guessed")[0] == 401
    assert ask(f"{url}/config.json", token="")[0] == 401
    for path in ("secret.txt", "..%2f..%2f..%2fetc/passwd", "../fetch.pyz", "", "%00", "a%20directory"):
        assert ask(f"{url}/{path}")[0] == 404, path
    assert ask(f"{url}/a%20directory/notes%20%C3%BC.txt") == (200, FILES["a directory/notes \u00fc.txt"])
    assert ask(f"{url}/empty.txt") == (200, b"")
    assert ask(f"{url}/{LARGE}", Range="bytes=2999000-") == (206, FILES[LARGE][2999000:])


def test_at_an_address_of_ipv6(share):
    url = share(address="::1", token=TOKEN)["url"]
    assert url.startswith("http://[::1]:")
    assert ask(f"{url}/config.json") == (200, FILES["config.json"])


def test_so_many_at_a_time(share):
    """One that has asked and reads nothing holds its place."""
    url = share(address="127.0.0.1", token=TOKEN, at_once=1)["url"]
    wanted = urllib.request.Request(f"{url}/{LARGE}", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(wanted, timeout=30) as slow:
        status, headers = ask(f"{url}/config.json")
        assert (status, headers["Retry-After"]) == (503, "1")
        assert len(slow.read()) == len(FILES[LARGE])
    deadline = time.monotonic() + 10
    while ask(f"{url}/config.json")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_it_ends_by_itself_and_by_word(host, share):
    share(address="127.0.0.1", token=TOKEN, idle=1)
    record = processes.read_pidfile(str(host.job / "serve.pid"))
    deadline = time.monotonic() + 20
    while processes.alive(record):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "ENDED: nobody has asked" in Path(record.log).read_text()
    first = share(address="127.0.0.1", token=TOKEN)["url"]
    second = share(address="127.0.0.1", token="another")["url"]
    with contextlib.suppress(urllib.error.URLError):
        assert first == second or ask(f"{first}/config.json")[0] == 401
    assert ask(f"{second}/config.json", token="another")[0] == 200
    share(state="stopped")
    with pytest.raises(urllib.error.URLError):
        ask(f"{second}/config.json", token="another")
    assert share(state="stopped")["changed"] is False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")
def test_a_forged_pid_file_ends_nobody(host, share):
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        share(address="127.0.0.1", token=TOKEN)
        pidfile = host.job / "serve.pid"
        record = json.loads(pidfile.read_text())
        share(state="stopped")
        forged = {**record, "pid": stranger.pid, "start_ticks": processes.start_ticks(stranger.pid)}
        pidfile.write_text(json.dumps(forged))
        os.chown(pidfile, 65534, 65534)
        share(state="stopped")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_what_can_not_be_is_said(host, share):
    said = share(address="192.0.2.1", token=TOKEN)["msg"]
    assert "192.0.2.1:0 can't be listened on" in said
    assert "vllm_models_share_address" in said
    assert "There is no snapshot at /nowhere" in share(path="/nowhere", address="127.0.0.1", token=TOKEN)["msg"]


def test_the_token_is_left_nowhere(host, share):
    share(address="127.0.0.1", token=TOKEN)
    record = processes.read_pidfile(str(host.job / "serve.pid"))
    assert TOKEN not in " ".join(processes.command_line(record.pid))
    assert all(TOKEN.encode() not in path.read_bytes() for path in host.home.rglob("*") if path.is_file())
