"""What a build says to the arguments of a release. A program stands in for vLLM's parser here; test_site asks the real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._engine import trial

CLI = """
import argparse, os, sys
from vllm.entrypoints.cli import serve

def main():
    parser = argparse.ArgumentParser(prog="vllm")
    command = parser.add_subparsers().add_parser("serve")
    command.add_argument("model")
    command.add_argument("--max-num-seqs", type=int)
    command.set_defaults(run=serve.ServeSubcommand.cmd)
    if os.environ.get("TELL"):
        raise ValueError(f"the token={os.environ['TELL']} is wrong")
    args = parser.parse_args()
    args.run(args)
"""
SERVE = """
class ServeSubcommand:
    @staticmethod
    def cmd(args):
        raise SystemExit("it was started")
"""


@pytest.fixture
def build(tmp_path) -> Path:
    """A venv with as much of a vLLM as is asked, and the system's Python, which all users may run."""
    package = tmp_path / "lib/vllm/entrypoints/cli"
    package.mkdir(parents=True)
    for directory in (package, package.parent, package.parents[1]):
        (directory / "__init__.py").touch()
    (package / "main.py").write_text(CLI)
    (package / "serve.py").write_text(SERVE)
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}/lib" exec /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    return tmp_path


def asked(build: Path, *words: str, directories=(), user=None, **environment: str) -> str:
    return trial.hindrance([str(build / "bin/vllm"), "serve", "/models/target", *words], directories, environment, user)


def test_what_it_takes(build):
    assert asked(build, "--max-num-seqs=4", directories=[str(build / "bin")]) == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-num-seqs=four"], "vllm serve: error: argument --max-num-seqs: invalid int value: 'four'."),
        (["--no-such-flag"], "vllm: error: unrecognized arguments: --no-such-flag."),
    ],
)
def test_what_it_refuses(build, words, said):
    assert (
        asked(build, *words) == f"{build}/bin/vllm was asked, as this user, whether it would start so, and said: {said}"
    )


def test_an_exception_is_told_without_its_secret(build):
    told = asked(build, TELL="canary-5f1d0c")
    assert "ValueError: the token=******** is wrong" in told


def test_one_that_could_only_be_started_is_not_asked(build):
    (build / "lib/vllm/entrypoints/cli/serve.py").write_text("class Other: pass\n")
    assert asked(build, "--no-such-flag") == ""


def test_a_build_that_is_not_there_is_for_the_rehearsal_to_tell_of(tmp_path):
    assert asked(tmp_path) == ""


def test_models_that_the_servers_user_may_not_read(build, tmp_path):
    """As in a hub's cache, which root filled with a careful umask: the name can be read, what is behind it can't."""
    if os.geteuid() != 0:
        pytest.skip("root may ask as another user")
    snapshot, blob = tmp_path / "snapshot", tmp_path / "blob"
    snapshot.mkdir()
    blob.write_text("weights")
    (snapshot / "model.safetensors").symlink_to(blob)
    for path in (build, *build.parents):
        path.chmod(path.stat().st_mode | 0o055)
    assert asked(build, directories=[str(snapshot)], user="nobody") == ""
    blob.chmod(0o600)
    assert asked(build, directories=[str(snapshot)]) == ""
    said = asked(build, directories=[str(snapshot)], user="nobody")
    assert (
        f"as nobody, whether it would start so, and said: {snapshot}/model.safetensors can't be read, since {blob} can't."
        in said
    )
    assert f"{tmp_path}/nowhere can't be read: No such file" in asked(build, directories=[f"{tmp_path}/nowhere"])


START = """
class Start:
    def make_context(self, name, words):
        if "--no-such-flag" in words:
            raise ValueError("No such option: --no-such-flag")
start = Start()
"""


@pytest.fixture
def with_ray(build) -> Path:
    package = build / "lib/ray/scripts"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("__version__ = '2.60.0'")
    (package / "__init__.py").touch()
    (package / "scripts.py").write_text(START)
    program = build / "bin/ray"
    program.touch()
    program.chmod(0o755)
    return build


def of_ray(build: Path, *words: str) -> str:
    return trial.hindrance([str(build / "bin/ray"), "start", "--block", *words], [], {}, None)


def test_a_ray_that_takes_its_arguments(with_ray):
    assert of_ray(with_ray) == ""
    assert "No such option: --no-such-flag" in of_ray(with_ray, "--no-such-flag")


def test_a_build_without_ray(build):
    said = of_ray(build)
    assert f"{build}/bin/ray was asked" in said
    assert "No module named 'ray'. Put Ray into the build: vllm_build_extras: [ray]" in said


def test_a_ray_that_knows_no_token(with_ray):
    (with_ray / "lib/ray/__init__.py").write_text("__version__ = '2.9.3'")
    assert "Ray 2.9.3 knows no token, so anybody could run code by it: 2.52 is the first that does" in of_ray(with_ray)


def test_a_ray_of_a_layer_has_no_program(with_ray):
    (with_ray / "bin/ray").unlink()
    assert "install Ray into the venv itself" in of_ray(with_ray)
