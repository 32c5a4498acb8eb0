"""Runs ansible-test on a real copy of the collection: sanity, with no rule ignored; units; integration.

Of sanity the recorded logs are left out, of which each byte is as a server wrote it; of units three files, which only pytest runs. The
venvs that it makes are kept in a cache outside the clone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import machine

PYTHONS = [f"3.{minor}" for minor in range(9, 15)]
SHARE_A_BUILD = ("installer", "patches", "proof")
MORE = {
    "sanity": ["--exclude", "tests/corpus/"],
    # Each test has a process of its own there, so each would make that build anew. By itself it counts cores, of which two may be one's
    # threads.
    "units": [
        *("--venv", "--python", machine.here(), "--num-workers", str(os.cpu_count())),
        *(word for name in SHARE_A_BUILD for word in ("--exclude", f"tests/unit/build/test_{name}.py")),
    ],
}
HOME = machine.CACHE / "ansible-test"
WANTED = """
import types
from ansible_test._internal.python_requirements import get_venv_packages
print(get_venv_packages(types.SimpleNamespace(version="%d.%d"))["pip"])
"""
# It would be downloaded from a server of its own. What that has, any index has as a wheel, which can run from where it lies.
GET_PIP = """
import runpy, sys
sys.path.insert(0, {wheel!r})
sys.argv = ["pip", "install", *(word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel"))]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def bring_pip(python: Path) -> None:
    said = subprocess.run([python, "-c", WANTED % sys.version_info[:2]], check=True, capture_output=True, text=True)
    version = said.stdout.strip()
    script = HOME / f".ansible/test/cache/get_pip_{version.replace('.', '_')}.py"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        quiet = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([python, *quiet, "--dest", script.parent, f"pip=={version}"], check=True)
        (wheel,) = script.parent.glob(f"pip-{version}-*.whl")
        script.write_text(GET_PIP.format(wheel=str(wheel)))


def main() -> int:
    here = Path(sys.executable).parent
    bring_pip(here / "python")
    with tempfile.TemporaryDirectory() as place:
        collection = machine.copy(Path(place))
        # As in the clone, for the processes that tests start.
        link = collection / machine.LINK
        link.parent.mkdir(parents=True)
        link.symlink_to(os.path.relpath(collection, link.parent))
        # As well as a commit, which tests ask for.
        for words in (
            ["init", "--quiet"],
            ["add", "."],
            ["-c", "user.name=test", "-c", "user.email=test", "commit", "--message=Copy"],
        ):
            subprocess.run(["git", "-C", collection, *words], check=True, stdout=subprocess.DEVNULL)
        bin = Path(place) / "bin"
        bin.mkdir()
        for version in PYTHONS:
            found = machine.python(version)
            if found:
                (bin / f"python{version}").symlink_to(found)
        environment = {**os.environ, "HOME": str(HOME), "PATH": f"{bin}:{here}:/usr/bin:/bin"}
        command = [here / "ansible-test", *sys.argv[1:2], *MORE.get(sys.argv[1], []), *sys.argv[2:]]
        return subprocess.run(command, cwd=collection, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
