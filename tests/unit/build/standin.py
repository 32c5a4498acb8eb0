"""A package named vllm that builds in a second, in a git repository like vLLM's.

It stands in for vLLM where the question is what interrupted, damaged or wrong builds look like, which would take an hour each with
the real one: the tests in tests/e2e build that. What is alike: the layout of the package and its version file, a compiled part
(Python here), a version with the commit in it as setuptools-scm makes it, the program ``vllm``, a pull request that only
refs/pull/N/head names, and a build that takes kernels from VLLM_PRECOMPILED_WHEEL_LOCATION. What builds it needs no other package.
"""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

PULL = "refs/pull/40898/head"

BACKEND = """
import base64, hashlib, os, re, subprocess, sys, time, zipfile
from pathlib import Path


def version():
    said = subprocess.run(["git", "describe", "--dirty", "--tags", "--long", "--abbrev=40"], stdout=subprocess.PIPE, text=True).stdout
    tag, distance, commit, dirty = re.fullmatch(r"v(.*)-(\\d+)-g([0-9a-f]{40})(-dirty)?\\n", said).groups()
    local = os.environ.get("VLLM_TARGET_DEVICE", "cpu")
    if distance == "0":
        return f"{tag}+{local}", None
    major, minor, patch = tag.split(".")
    return f"{major}.{minor}.{int(patch) + 1}.dev{distance}+g{commit[:9]}" + (".d20260101" if dirty else "") + f".{local}", commit[:9]


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    number, _commit = version()
    info = f"vllm-{number}.dist-info"
    os.mkdir(os.path.join(directory, info))
    for name, text in metadata(number).items():
        Path(directory, info, name).write_text(text)
    return info


def metadata(number):
    return {
        "METADATA": f"Metadata-Version: 2.1\\nName: vllm\\nVersion: {number}\\n",
        "WHEEL": "Wheel-Version: 1.0\\nGenerator: standin\\nRoot-Is-Purelib: false\\nTag: py3-none-any\\n",
        "entry_points.txt": "[console_scripts]\\nvllm = vllm.cli:main\\n",
    }


def build_wheel(directory, config_settings=None, metadata_directory=None):
    number, commit = version()
    exec(os.environ.get("STANDIN", ""))  # what a test wants to happen while it compiles
    Path("vllm/_version.py").write_text(f"version = __version__ = '{number}'\\n__commit_id__ = commit_id = {'g' + commit if commit else None!r}\\n")
    Path("vllm/_C.py").write_text("made_here = True\\n")
    wheel = os.environ.get("VLLM_PRECOMPILED_WHEEL_LOCATION")
    if wheel:
        with zipfile.ZipFile(wheel) as kernels:
            Path("vllm/_C.py").write_bytes(kernels.read("vllm/_C.py"))
    files = {str(path): path.read_text() for path in Path("vllm").rglob("*.py")}
    files.update({f"vllm-{number}.dist-info/{name}": text for name, text in metadata(number).items()})
    record = "".join(f"{name},sha256={digest(text)},{len(text.encode())}\\n" for name, text in files.items())
    files[f"vllm-{number}.dist-info/RECORD"] = record + f"vllm-{number}.dist-info/RECORD,,\\n"
    name = f"vllm-{number}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as made:
        for path, text in files.items():
            made.writestr(path, text)
    return name


def digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
"""
FILES = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "backend.py": BACKEND,
    ".gitignore": "_version.py\n_C.py\nbuild/\n",
    "csrc/kernel.cu": "// a kernel\n",
    "vllm/__init__.py": "from vllm._version import version as __version__\n",
    "vllm/cli.py": "import vllm\n\n\ndef main():\n    print(vllm.__version__)\n",
    "vllm/config/speculative.py": "disable_eagle_block_drop = False\n",
}


class Repository:
    """tag v0.32.0 on main, and two commits of a pull request, that change Python and a kernel."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"file://{path}"
        path.mkdir()
        self.git("init", "--quiet", "-b", "main")
        for name, text in FILES.items():
            self.write(name, text)
        self.main = self.commit("vLLM 0.32.0")
        self.git("tag", "v0.32.0")
        self.git("checkout", "--quiet", "--detach")
        self.write("vllm/drafter.py", "window = 4096\n")
        self.first = self.commit("let the drafter have a window")
        self.write("csrc/kernel.cu", "// a better kernel\n")
        self.head = self.commit("a better kernel")
        self.git("update-ref", PULL, "HEAD")
        self.git("checkout", "--quiet", "main")
        self.write("vllm/other.py", "on = 'main'\n")
        self.later = self.commit("something else, on main")

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, message: str) -> str:
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "-m", message)
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str) -> str:
        who = {f"GIT_{role}_{what}": "test@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", "-C", self.path, *arguments],
            env={**os.environ, **who},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout.strip()


def patch(name: str, line: str) -> str:
    """A patch that makes a new file."""
    return textwrap.dedent(f"""\
        diff --git a/vllm/{name} b/vllm/{name}
        new file mode 100644
        --- /dev/null
        +++ b/vllm/{name}
        @@ -0,0 +1 @@
        +{line}
        """)
