"""What the tests of this directory share: a real copy of the collection, the Pythons of this machine, a cache outside the clone."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llmops-vllm"


def files() -> list[str]:
    """What the clone holds, committed or about to be."""
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    told = subprocess.run(asked, cwd=CLONE, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in set(told.split("\0")) if name and (CLONE / name).exists())


LINK = ".collections/ansible_collections/llmops/vllm"


def copy(root: Path) -> Path:
    """Lays the collection down as Ansible's tools want it: in .../ansible_collections/llmops/vllm, and not by a link."""
    place = root / "ansible_collections/llmops/vllm"
    for name in files():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CLONE / name, place / name, follow_symlinks=False)
    return place


@functools.cache
def python(version: str) -> Path | None:
    """The interpreter of this version, as 3.12, if the machine has one: on the PATH, or where pyenv keeps those that it does not put there."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    places = [Path(place) / name for place in os.get_exec_path()]
    for place in [*places, *sorted(pyenv.glob(f"{version}.*/bin/{name}"), reverse=True)]:
        # A shim of pyenv is there for versions too that it then refuses to run. Its sys.executable is the real one.
        with_it = [place, "-c", "import sys, venv, ensurepip; print(sys.version_info[:2], sys.executable, sep='|')"]
        if os.access(place, os.X_OK):
            done = subprocess.run(with_it, capture_output=True, text=True, check=False)
            if done.returncode == 0 and done.stdout.split("|")[0] == str(tuple(map(int, version.split(".")))):
                return Path(done.stdout.split("|")[1].strip())
    return None


@contextlib.contextmanager
def only_one(place: Path) -> Iterator[None]:
    """Of several runs beside each other."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def venv(name: str, version: str, requirements: Sequence[str]) -> Path:
    """The bin of a venv with these, or with what a file of requirements/ names, kept for the next run."""
    place = CACHE / "venvs" / f"{name}-python{version}"
    named = [word for word in requirements if word.endswith(".txt")]
    files = [CLONE / word for word in [*named, "requirements/constraints.txt"]] if named else []
    stamp, wanted = place / "holds", "\n".join([*requirements, *(file.read_text() for file in files)])
    with only_one(place):
        if stamp.exists() and stamp.read_text() == wanted and (place / "bin/python").exists():
            return place / "bin"
        subprocess.run([str(python(version)), "-m", "venv", "--clear", str(place)], check=True)
        words = [word for name in requirements for word in (["-r", name] if name.endswith(".txt") else [name])]
        install = [str(place / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", *words]
        subprocess.run(install, cwd=CLONE, check=True)
        stamp.write_text(wanted)
    return place / "bin"


def wheel(requirement: str) -> Path:
    """A wheel as its index has it, kept for the next run."""
    place = CACHE / "wheels" / requirement
    with only_one(place):
        if not list(place.glob("*.whl")):
            quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(place)]
            subprocess.run([sys.executable, "-m", "pip", "download", *quiet, requirement], check=True)
    (found,) = place.glob("*.whl")
    return found


def here() -> str:
    """The version of the Python that runs this, as python() takes it."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"
