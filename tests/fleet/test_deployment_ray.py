"""One server over two real hosts by Ray: refused by the engine for the CPU as it is, and run where a double stands in for its device."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import secrets
from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import ARGS, BUILDS, CLONE, Serving, changed
from ansible_collections.llmops.vllm.tests.fleet.test_deployment import CURRENT, HOME, KEY, Site, answer

pytestmark = [pytest.mark.engine, pytest.mark.long]
RAY = "ray==2.60.0"
PLACE = (CLONE / ".demo/ray").resolve()
DOUBLE = CLONE / "tests/fleet/ray_on_cpu"
THERE = "/srv/ray_on_cpu"
TOKEN = secrets.digest(f"Ray of big: {KEY}")
ENVIRONMENT = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
SHARED = {"vllm_deployment_executor": "ray", "vllm_serve_args": {**ARGS, "tensor-parallel-size": 2}}
BY_RAY = {**SHARED, "vllm_serve_env": {**ENVIRONMENT, "PYTHONPATH": THERE}}


def with_ray(build: Path) -> Path:
    """A copy of the build's venv, by hard links, with Ray in it. It is made once."""
    venv, made = PLACE / "venv", PLACE / "made"
    wanted = f"{build} {RAY}"
    if made.exists() and made.read_text() == wanted:
        return venv
    made.unlink(missing_ok=True)
    shutil.rmtree(venv, ignore_errors=True)
    PLACE.mkdir(parents=True, exist_ok=True)
    original = (build / "venv").resolve()
    if subprocess.run(["cp", "-al", original, venv], capture_output=True, check=False).returncode:
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run(["cp", "-a", original, venv], check=True)
    # The other end of a link has to stay as it is.
    for program in (path for path in (venv / "bin").iterdir() if path.is_file() and not path.is_symlink()):
        text = program.read_bytes()
        if text.startswith(b"#!"):
            program.unlink()
            program.write_bytes(re.sub(rb"^#!.*/bin/", f"#!{venv}/bin/".encode(), text))
            program.chmod(0o755)
    # As the programs are no more as they were installed, nobody is to hold them against that.
    for record in venv.glob("lib/python3*/site-packages/vllm*.dist-info/RECORD"):
        rows = re.sub(r"(?m)^((?:\.\./)+bin/[^,]+),.*$", r"\1,,", record.read_text())
        record.unlink()
        record.write_text(rows)
    pip = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", RAY]
    said = subprocess.run(pip, capture_output=True, text=True, check=False)
    if said.returncode:
        pytest.skip(f"there is no Ray to be had: {said.stderr.strip().splitlines()[-1]}")
    made.write_text(wanted)
    return venv


@pytest.fixture(scope="module")
def site(fleets, tmp_path_factory) -> Site:
    engines = sorted(BUILDS.glob("*/build.json"))
    if not engines:
        pytest.skip("there is no engine yet: make demo installs it")
    venv = with_ray(engines[-1].resolve().parent)
    serving = Serving.on(fleets, HOME, "/srv/models", venv=venv, binds=[PLACE], systemd=1, plain=1)
    for host in serving.fleet.hosts:
        for path in (path for path in DOUBLE.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            host.write(f"{THERE}/{path.relative_to(DOUBLE)}", path.read_text())
    return Site(serving, tmp_path_factory.mktemp("site"), *serving.fleet.hosts)


def ours(host: Host) -> dict[int, str]:
    """All that the server's user runs."""
    listed = host.run("id -u vllm >/dev/null 2>&1 && ps -u vllm -o pid=,args=", check=False).stdout.splitlines()
    return {int(pid): args for pid, args in (line.split(None, 1) for line in listed)}


def nothing_runs(site: Site) -> bool:
    left = [ours(host) for host in site.hosts]
    print(left)
    return not any(left)


def test_a_build_without_ray_is_refused(site):
    without = str(sorted(BUILDS.glob("*/build.json"))[-1].resolve().parent / "venv")
    said = site.play("site", well=False, **SHARED, vllm_build_venv=without)
    assert "No module named 'ray'. Put Ray into the build" in said
    assert "Nothing was written." in said
    assert nothing_runs(site)


def test_what_ray_lacks_is_refused(site):
    said = site.play("site", well=False, **SHARED, vllm_serve_api_key="", vllm_instance="one-of-a-long-name")
    assert "Nothing was stopped or started." in said
    assert (
        "Whoever reaches the ports of a Ray without a token runs any code on its hosts: set vllm_serve_api_key" in said
    )
    assert "that is shorter by 10, or vllm_deployment_executor mp." in said
    assert nothing_runs(site)


def test_the_engine_for_the_cpu_refuses_ray(site):
    """As it is, without the double. The words are vLLM's own."""
    said = site.play("site", well=False, **SHARED)
    assert f"{site.head.name} (rank 0): " in said
    assert "ValueError: current platform cpu does not support ray." in said
    assert nothing_runs(site)


def test_it_is_deployed_and_verified_and_the_token_is_told_nobody(site):
    said = site.play("site", "-vvv", "--diff", **BY_RAY)
    assert TOKEN not in said
    evidence = [json.loads(host.run(f"cat {CURRENT}/evidence.json").stdout) for host in site.hosts]
    assert [told["verdict"] for told in evidence] == ["pass", "pass"]
    print(evidence[0]["measured"])
    assert evidence[0]["measured"]["acceptance_rate"] >= 0.95
    assert answer(site)
    for host in site.hosts:
        release = json.loads(host.run(f"cat {CURRENT}/release.json").stdout)
        assert TOKEN not in json.dumps(release) and TOKEN not in " ".join(ours(host).values())
        holding = host.run(f"grep -rlF {TOKEN} {HOME} /tmp", check=False).stdout.split()
        assert {path.rpartition("/")[2] for path in holding} == {"env.json"}
    assert release["url"] == ""
    assert release["argv"][:2] == [f"{PLACE}/venv/bin/ray", "start"]
    assert not any("/bin/vllm" in args for args in ours(site.follower).values())


def test_a_second_run_changes_nothing(site):
    before = [set(ours(host)) for host in site.hosts]
    assert changed(site.play("site", **BY_RAY)) == 0
    assert [set(ours(host)) for host in site.hosts] == before


def test_a_follower_that_is_killed_is_seen_and_nothing_is_left(site):
    (ray,) = [pid for pid, args in ours(site.follower).items() if re.search(r"/bin/ray start .*--address=", args)]
    site.follower.run(f"kill -KILL {ray}")
    wait_for("the follower's Ray has gone", lambda: not ours(site.follower), 120)
    assert f"without {site.follower.name}" in site.play("status", **BY_RAY)
    site.play("stop", **BY_RAY)
    assert nothing_runs(site)


def test_it_starts_again_and_is_stopped(site):
    site.play("site", **BY_RAY)
    assert all(ours(host) for host in site.hosts)
    assert answer(site)
    site.play("stop", **BY_RAY)
    assert nothing_runs(site)
