"""Thirty hosts in one run of the doctor. On three of them is the real engine. On the others a script stands in its place that answers what
a server answers: what is looked at is how the doctor does with many, and how many read."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections import Counter

import pytest

from ansible_collections.llmops.vllm.plugins.plugin_utils.report import page, recorder
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import RIGHT, Serving
from ansible_collections.llmops.vllm.tests.fleet.test_doctor import LOADED, Ward, recite, wait_until_ready

pytestmark = [pytest.mark.engine, pytest.mark.long]
HOSTS = 30
DOUBLE = """
import http.server, json, subprocess, sys
port = int(next(word for word in sys.argv if word.startswith("--port=")).partition("=")[2])
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
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
ORPHAN = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'VLLM::EngineCor', 0, 0, 0); time.sleep(3600)"


@pytest.fixture(scope="module")
def ward(fleets) -> Ward:
    ward = Ward(Serving.on(fleets, "/opt/vllm", "/srv/models", plain=HOSTS))
    hosts = ward.serving.fleet.hosts
    wrong = {"dflash_config": {"mask_token_id": 4, "target_layer_ids": [1, 3, 5]}}
    for host, values in zip(hosts, ({}, wrong, {})):
        ward.drafter(host, 8001, **values)
    for host, address in zip(hosts, ("127.0.0.1", "127.0.0.1", "0.0.0.0")):
        command = ward.command(8001).replace("--host=127.0.0.1", f"--host={address}")
        host.run(f"cd /root; nohup env {command} > /root/vllm.log 2>&1 < /dev/null &")
    right = {**json.loads(hosts[0].run("cat /srv/models/drafter/config.json").stdout), **RIGHT, **LOADED}
    speculative = json.dumps({"method": "dflash", "model": "/srv/models/drafter", "num_speculative_tokens": 7})
    words = [
        "serve",
        "/srv/models/target",
        "--port=8001",
        "--host=127.0.0.1",
        "--no-enable-prefix-caching",
        "--served-model-name=tiny",
    ]
    line = shlex.join(["python3", "/opt/double/bin/vllm", *words, f"--speculative-config={speculative}"])
    for n, host in enumerate(hosts[3:26]):
        sick = n % 6 == 2
        host.write("/opt/double/bin/vllm", DOUBLE)
        host.write("/opt/double/told", "0.28.1 20" if sick else "0.32.0 4400")
        if not sick:
            host.write("/srv/models/drafter/config.json", json.dumps(right))
        host.run(f"cd /root; HF_HUB_OFFLINE=1 nohup {line} > /root/vllm.log 2>&1 < /dev/null &")
    hosts[28].run(f"setsid python3 -c {shlex.quote(ORPHAN)} > /dev/null 2>&1 < /dev/null &")
    for host in hosts[:3]:
        wait_until_ready(host, 8001)
    for host in hosts[:2]:
        recite(host, 8001, 4)
    for host in hosts[3:26]:
        wait_for(f"{host.name} serves", lambda host=host: "LISTEN" in host.run("ss -Hltn sport = :8001").stdout)
    hosts[29].link.cut()
    return ward


def test_one_run_tells_of_all_who_is_well_and_who_is_not(ward, tmp_path):
    began = time.monotonic()
    said = ward.serving.play("doctor", "-f", "10", well=False, vllm_doctor_json=str(tmp_path / "found.json"))
    print(f"{HOSTS} hosts: {time.monotonic() - began:.1f} s")
    for one in ("gpu1", "gpu10", "gpu28"):
        began = time.monotonic()
        ward.serving.play("doctor", "-l", one)
        print(f"{one} alone: {time.monotonic() - began:.1f} s")
    told = json.loads((tmp_path / "found.json").read_text())
    assert Counter(host["health"] if host else "not reached" for host in told.values()) == {
        "error": 6, "warning": 1, "ok": 22, "not reached": 1,
    }  # fmt: skip
    assert "30 hosts: 6 error, 1 not reached, 1 warning, 22 ok" in said
    assert re.search(r"error +gpu6, gpu12, gpu18, gpu24: dflash_config\.mask_token_id", " ".join(said.split()))
    story = recorder.Recorder("doctor", 0)
    story.play("1", "Examine", list(told), list(told))
    for name, found in told.items():
        lost = found is None
        result = recorder.Result(name, "Look", "", "vllm_doctor", found or {"msg": "unreachable"}, 1, lost, lost)
        story.end(result)
    text = page.page(story.finish(30, set(), {"gpu30"}))
    assert (
        "26 servers on 30 hosts: 5 error, 1 warning, 20 ok; 1 host without a server: error; 1 host not reached" in text
    )
    shared = text.partition("What the sick share")[2].partition("</table>")[0]
    assert re.findall(r"<td>([^<]+)</td><th[^>]*>([^<]+)</th>", shared) == [("vLLM", "0.28.1")]
