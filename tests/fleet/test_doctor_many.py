"""Thirty hosts in one run of the doctor. On most a script stands in vLLM's place that answers what a server answers: what is looked at is how
the doctor does with many hosts, and how they read. What it says of the real engine is looked at in test_doctor.py."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import PAIR, RIGHT, Serving
from ansible_collections.llmops.vllm.tests.fleet.test_doctor import LOADED

pytestmark = pytest.mark.long
HOSTS = 30
DOUBLE = """
import http.server, json, subprocess, sys
port = int(next(word for word in sys.argv if word.startswith("--port=")).partition("=")[2])
address = next(word for word in sys.argv if word.startswith("--host=")).partition("=")[2]
version, accepted = open("/opt/double/told").read().split()
SPEC = "vllm:spec_decode_num_"
METRICS = f"{SPEC}drafts_total 900\\n{SPEC}draft_tokens_total 6300\\n{SPEC}accepted_tokens_total {accepted}\\n" + "".join(
    f'{SPEC}accepted_tokens_per_pos_total{{position="{n}"}} {int(accepted) / 7}\\n' for n in range(7)
) + "vllm:generation_tokens_total 9000\\n"

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = METRICS if self.path == "/metrics" else json.dumps({"version": version})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

subprocess.Popen(["sleep", "infinity"])
http.server.ThreadingHTTPServer((address, port), Handler).serve_forever()
"""
ORPHAN = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'VLLM::EngineCor', 0, 0, 0); time.sleep(3600)"


@pytest.fixture(scope="module")
def serving(fleets) -> Serving:
    """23 that are well or sick, one of them open to the network, four without a server, one with an orphan, and one without a network."""
    serving = Serving(fleets(systemd=0, plain=HOSTS, binds=[PAIR]), Path("/none"), "/opt/vllm", "/srv/models")
    right = {**json.loads((PAIR / "drafter/config.json").read_text()), **RIGHT, **LOADED}
    speculative = json.dumps({"method": "dflash", "model": "/srv/models/drafter", "num_speculative_tokens": 7})
    words = ["serve", "/srv/models/target", "--port=8001", "--no-enable-prefix-caching", "--served-model-name=tiny"]
    line = shlex.join(["python3", "/opt/double/bin/vllm", *words, f"--speculative-config={speculative}"])
    hosts = serving.fleet.hosts
    for n, host in enumerate(hosts[:23], 1):
        sick = n % 6 == 0
        host.write("/opt/double/bin/vllm", DOUBLE)
        host.write("/opt/double/told", "0.28.1 20" if sick else "0.32.0 4400")
        host.run(f"mkdir -p /srv/models && cp -r {shlex.quote(str(PAIR))}/* /srv/models/")
        if not sick:
            host.write("/srv/models/drafter/config.json", json.dumps(right))
        address = "0.0.0.0" if n == 1 else "127.0.0.1"
        host.run(f"cd /root; HF_HUB_OFFLINE=1 nohup {line} --host={address} > /root/vllm.log 2>&1 < /dev/null &")
    hosts[28].run(f"setsid python3 -c {shlex.quote(ORPHAN)} > /dev/null 2>&1 < /dev/null &")
    for host in hosts[:23]:
        wait_for(f"{host.name} serves", lambda host=host: "LISTEN" in host.run("ss -Hltn sport = :8001").stdout)
    hosts[29].link.cut()
    return serving


def test_one_run_tells_of_all_who_is_well_and_who_is_not(serving, tmp_path):
    began = time.monotonic()
    said = serving.play("doctor", "-f", "10", well=False, vllm_doctor_json=str(tmp_path / "found.json"))
    print(f"{HOSTS} hosts: {time.monotonic() - began:.1f} s")
    for one in ("gpu1", "gpu10", "gpu28"):
        began = time.monotonic()
        serving.play("doctor", "-l", one)
        print(f"{one} alone: {time.monotonic() - began:.1f} s")
    told = json.loads((tmp_path / "found.json").read_text())
    assert Counter(host.get("health", "not reached") for host in told.values()) == {
        "error": 4, "warning": 1, "ok": 24, "not reached": 1,
    }  # fmt: skip
    assert told["gpu30"]["unreachable"] is True
    assert "30 hosts: 4 error, 1 not reached, 1 warning, 24 ok" in said
    assert "error gpu6, gpu12, gpu18: dflash_config.mask_token_id" in " ".join(said.split())
    (written,) = re.findall(r"^Report: (\S+\.html)$", said, re.MULTILINE)
    text = Path(written).read_text()
    assert (
        "23 servers on 30 hosts: 3 error, 1 warning, 19 ok; 1 host without a server: error; 1 host not reached" in text
    )
    shared = text.partition("What the sick share")[2].partition("</table>")[0]
    assert re.findall(r"<td>([^<]+)</td><th[^>]*>([^<]+)</th>", shared) == [("vLLM", "0.28.1")]
