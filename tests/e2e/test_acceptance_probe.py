"""acceptance_probe on the real engine: a right drafter, every wrong value that starts, and an engine that hangs or dies.

The engine has no prompt of more than one block of its prefix cache here and no model that can sleep, so these two are
tested with recorded bodies in tests/unit/engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import NoAnswerError, Server

pytestmark = [pytest.mark.engine, pytest.mark.long]
CLONE = Path(__file__).parents[2]
PAIR = CLONE / "playbooks/files/tiny-pair"
RIGHT = {
    "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]},
    "layer_types": ["sliding_attention"] * 3,
    "sliding_window": 24,
    "use_sliding_window": True,
    "max_window_layers": 3,
}
ASKED = {
    "prompts": [f"Recite chapter {n}" for n in range(8)],
    "unique_prefix": False,
    "acceptance_length": 7.0,
    "position_0": 0.9,
}
# Verdict, and the bounds of the acceptance rate.
GOOD, WEAK, DEAD, GONE = ("pass", 0.95, 1), ("fail", 0.1, 0.9), ("fail", 0, 0.06), ("unreachable", None, None)
UNSPECIFIC = "a wrong mask_token_id, target_layer_ids, layer_types or sliding_window"


@pytest.fixture(scope="module")
def vllm(site):
    """The command of the demo's build, which the first run of site.yml makes."""
    found = sorted((CLONE / ".demo/vllm/builds").glob("*/venv/bin/vllm"))
    if not found:
        assert site.play("site").code == 0
        found = sorted((CLONE / ".demo/vllm/builds").glob("*/venv/bin/vllm"))
    return found[-1]


class Engine:
    """One server of the tiny pair, with the drafter's config as given. None for speculation is a server without it."""

    def __init__(self, vllm: Path, folder: Path, config: dict | None, *flags: str) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        if config is not None:
            drafter = shutil.copytree(PAIR / "drafter", folder / "drafter")
            (drafter / "config.json").write_text(json.dumps(config))
            spec = {"method": "dflash", "model": str(drafter), "num_speculative_tokens": 7}
            flags = ("--speculative-config", json.dumps(spec), *flags)
        command = (
            f"{vllm} serve {PAIR}/target --host 127.0.0.1 --port {self.port} --served-model-name tiny --dtype float32"
        )
        command += " --enforce-eager --max-model-len 512 --max-num-seqs 4 --max-num-batched-tokens 512"
        command += " --kv-cache-memory-bytes 64M"
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*command.split(), *flags],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "VLLM_LOG_STATS_INTERVAL": "2", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
                start_new_session=True,
            )
        deadline = time.monotonic() + 300
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.5)

    def answers(self) -> bool:
        with contextlib.suppress(NoAnswerError):
            return bool(Server(self.url, "the-key").models(time.monotonic() + 5))
        return False

    def core(self) -> int:
        """The process that computes, which the API server started."""
        session = os.getsid(self.process.pid)
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if os.getsid(int(entry.name)) == session and b"EngineCore" in (entry / "cmdline").read_bytes():
                    return int(entry.name)
        raise AssertionError("no process of the session calls itself EngineCore")

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def probe(self, **params) -> dict:
        """What the module returns through Ansible."""
        ansible, asked = Path(sys.executable).parent / "ansible", {"url": self.url, **ASKED, **params}
        done = subprocess.run(
            [ansible, "localhost", "-m", "llmops.vllm.acceptance_probe", "-a", json.dumps(asked)],
            cwd=CLONE,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
                "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
                "ANSIBLE_NOCOLOR": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert " => {" in done.stdout, done.stdout + done.stderr
        print(done.stdout)
        return json.loads(done.stdout[done.stdout.index(" => {") + 4 :])


def changed(**values) -> dict:
    config = {**json.loads((PAIR / "drafter/config.json").read_text()), **RIGHT}
    config["dflash_config"] = {**RIGHT["dflash_config"], **values.pop("dflash_config", {})}
    config.update(values)
    for holder in (config, config["dflash_config"]):
        for key in [k for k, v in holder.items() if v == "absent"]:
            del holder[key]
    return config


def inner(**values) -> dict:
    return changed(dflash_config=values)


@pytest.mark.parametrize(
    ("config", "expected", "words"),
    [
        pytest.param(changed(), GOOD, "as wanted", id="right"),
        pytest.param(inner(mask_token_id=4), DEAD, UNSPECIFIC, id="mask_token_id 4"),
        pytest.param(inner(mask_token_id=0), DEAD, UNSPECIFIC, id="mask_token_id 0"),
        pytest.param(inner(target_layer_ids=[0, 1, 2]), DEAD, UNSPECIFIC, id="ids 0 1 2"),
        pytest.param(inner(target_layer_ids=[2, 4, 6]), WEAK, "target_layer_ids off by one", id="ids shifted"),
        pytest.param(inner(target_layer_ids="absent"), WEAK, "or left out", id="ids absent"),
        pytest.param(changed(layer_types=["full_attention"] * 3), DEAD, UNSPECIFIC, id="all layers full"),
        pytest.param(changed(layer_types="absent"), DEAD, UNSPECIFIC, id="layer_types absent"),
        pytest.param(changed(sliding_window=4096), DEAD, UNSPECIFIC, id="window 4096"),
        pytest.param(changed(sliding_window="absent"), DEAD, UNSPECIFIC, id="window absent"),
        pytest.param(changed(sliding_window=8), DEAD, UNSPECIFIC, id="window 8"),
        pytest.param(json.loads((PAIR / "drafter/config.json").read_text()), DEAD, "wired wrongly", id="all wrong"),
        pytest.param(inner(target_layer_ids=[1, 3, 50]), GONE, "target_layer_ids beyond", id="ids beyond"),
        pytest.param(inner(mask_token_id=9999), GONE, "mask_token_id outside", id="mask beyond"),
        pytest.param(inner(mask_token_id="3"), GONE, "EngineCore", id="mask a string"),
    ],
)
def test_each_value_that_starts(vllm, tmp_path, config, expected, words):
    engine = Engine(vllm, tmp_path, config)
    try:
        result = engine.probe()
    finally:
        engine.stop()
    verdict, low, high = expected
    assert result["verdict"] == verdict
    assert words in result["msg"]
    if low is not None:
        assert low <= result["acceptance_rate"] <= high
        assert (result["requests"], result["tokens"]) == (8, 1017), "a wrong drafter changes no text"


@pytest.fixture(scope="module")
def right(vllm, tmp_path_factory):
    engine = Engine(vllm, tmp_path_factory.mktemp("right"), changed(), "--api-key", "the-key")
    yield engine
    engine.stop()


def test_a_key_is_wanted(right):
    assert "a key was not sent" in right.probe()["msg"]
    assert "wants another API key" in right.probe(api_key="a-guess")["msg"]


def test_concurrent_requests_count_the_same(right):
    result = right.probe(api_key="the-key", concurrency=4, requests=16)
    assert result["verdict"] == "pass"
    assert result["tokens"] == 2034
    assert result["acceptance_rate"] > 0.95


def test_a_hang_is_found_though_health_says_200(right):
    core = right.core()
    os.kill(core, signal.SIGSTOP)
    try:
        result = right.probe(api_key="the-key", request_timeout=5)
    finally:
        os.kill(core, signal.SIGCONT)
    assert result["verdict"] == "unreachable"
    assert "The engine hangs: not one token within " in result["msg"]
    assert "/health says 200" in result["msg"]
    assert right.probe(api_key="the-key")["verdict"] == "pass"


def test_an_engine_killed_under_way(right):
    """The last test of this engine: the kill comes when the log shows that the probe's requests are being answered."""
    core, before = right.core(), right.log.stat().st_size

    def kill_when_busy() -> None:
        while b"POST /v1/chat/completions" not in right.log.read_bytes()[before:]:
            time.sleep(0.05)
        os.kill(core, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_busy, daemon=True)
    killer.start()
    result = right.probe(api_key="the-key", requests=5000)
    assert not killer.is_alive()
    assert result["verdict"] == "unreachable"
    assert "The engine failed" in result["msg"]
    assert "of 5000 requests of phase short were answered before" in result["msg"]


def test_a_server_without_a_drafter(vllm, tmp_path):
    engine = Engine(vllm, tmp_path, None)
    try:
        result = engine.probe()
    finally:
        engine.stop()
    assert result["verdict"] == "no_speculation"
    assert "--speculative-config" in result["diagnosis"]


def test_a_server_that_keeps_no_counts(vllm, tmp_path):
    engine = Engine(vllm, tmp_path, changed(), "--disable-log-stats")
    try:
        result = engine.probe()
    finally:
        engine.stop()
    assert result["verdict"] == "insufficient"
    assert "--disable-log-stats" in result["diagnosis"]
