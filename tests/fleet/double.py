"""A double of vLLM for the fleet: installed in a second, ready in a tenth, and told by files of the host where to stand still.

It suffices where a fault strikes the connection, the host, a disk or a process: those never ask what the engine computes. What it says is
the log of a real start (tests/corpus/logs/ready.log), and what it answers has the form of vLLM 0.32.0's answers
(tests/unit/engine/double.py). What the engine itself does under a fault is asked of the real one, in tests/e2e and the tests with the mark `engine`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from pathlib import Path

from ansible_collections.llmops.vllm.tests.fleet.host import Host

CLONE = Path(__file__).parents[2]
VENV = "/srv/double"
FLAGS = "/srv/flags"
VERSION = "0.32.0"
COMPILING = "(EngineCore pid=9489) INFO 11-30 10:36:40 [backends.py:1] Dynamo bytecode transform time: 5.28 s"

CLI = """
import http.server, json, os, sys, threading, time
from vllm.engine import Engine, Handler

FLAGS = "FLAGS_DIRECTORY"


def stand_still(at):
    # While a file says so, with a sign that it does.
    try:
        with open(f"{FLAGS}/hold") as f:
            wanted = f.read().strip()
    except OSError:
        return
    if wanted and wanted in at:
        with open(f"{FLAGS}/held", "w"):
            pass
        while os.path.exists(f"{FLAGS}/hold"):
            time.sleep(0.02)


class Paced(Engine):
    @property
    def pause(self):
        # Seconds, where a file says how many.
        try:
            with open(f"{FLAGS}/pause") as f:
                return float(f.read())
        except OSError:
            return 0


def flag(name):
    return next(word for word in sys.argv if word.startswith(f"--{name}=")).partition("=")[2]


def main():
    if sys.argv[1:2] != ["serve"]:
        print("VERSION")
        return
    engine = Paced()
    engine.key = os.environ.get("VLLM_API_KEY")
    engine.per_answer, engine.accepted = 210, 6
    engine.fault = lambda handler, n: stand_still("the first answer" if n == 1 else "a later answer")
    server = http.server.ThreadingHTTPServer((flag("host"), int(flag("port"))), type("Bound", (Handler,), {"engine": engine}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "start.log")) as log:
        for line in log:
            print(line, end="", flush=True)
            stand_still(line)
    threading.Event().wait()
"""
SCRIPT = f"#!{VENV}/bin/python\nfrom vllm.cli import main\n\nmain()\n"


def package() -> dict[str, str]:
    """The files of the package, by where they lie in site-packages."""
    log = (CLONE / "tests/corpus/logs/ready.log").read_text().splitlines(keepends=True)
    loaded = next(n for n, line in enumerate(log) if "KV cache size" in line)
    info = f"vllm-{VERSION}.dist-info"
    files = {
        "vllm/__init__.py": f'__version__ = "{VERSION}"\n',
        "vllm/_version.py": f'__version__ = version = "{VERSION}"\n__commit_id__ = commit_id = None\n',
        "vllm/_C.py": "",
        "vllm/cli.py": CLI.replace("FLAGS_DIRECTORY", FLAGS).replace("VERSION", VERSION),
        "vllm/engine.py": (CLONE / "tests/unit/engine/double.py").read_text(),
        "vllm/start.log": "".join([*log[:loaded], f"{COMPILING}\n", *log[loaded:]]),
        # What a release is tried by before it is written.
        "vllm/entrypoints/__init__.py": "",
        "vllm/entrypoints/cli/__init__.py": "",
        "vllm/entrypoints/cli/main.py": "def main():\n    pass\n",
        "vllm/entrypoints/cli/serve.py": "class ServeSubcommand:\n    cmd = None\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: double\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nvllm = vllm.cli:main\n",
        f"{info}/INSTALLER": "pip\n",
    }
    rows = [f"{name},sha256={_digest(text)},{len(text.encode())}" for name, text in files.items()]
    return {**files, f"{info}/RECORD": "".join(f"{row}\n" for row in [*rows, f"{info}/RECORD,,"])}


def install(host: Host) -> None:
    """Lays down what an installer would."""
    site = host.run(
        f"python3 -m venv --without-pip {VENV} && install -d -m 777 {FLAGS} && {VENV}/bin/python -c "
        "'import sysconfig; print(sysconfig.get_path(\"purelib\"))'"
    ).stdout.strip()
    laid = {f"{site}/{name}": text for name, text in package().items()}
    lay = "import json, os, sys\nfor path, text in json.load(sys.stdin).items():\n" + (
        "    os.makedirs(os.path.dirname(path), exist_ok=True)\n    open(path, 'w').write(text)\n"
    )
    host.run(f"python3 -c {shlex.quote(lay)}", input=json.dumps({**laid, f"{VENV}/bin/vllm": SCRIPT}))
    host.run(f"chmod a+x {VENV}/bin/vllm")


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
