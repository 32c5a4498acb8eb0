"""The doctor on servers that nobody made with this collection, each with another fault, on real hosts with the real engine."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.llmops.vllm.tests.fleet.host import Host
from ansible_collections.llmops.vllm.tests.fleet.machine import wait_for
from ansible_collections.llmops.vllm.tests.fleet.serving import ARGS, CLONE, RIGHT, Serving, served

pytestmark = [pytest.mark.engine, pytest.mark.long]
READY = 600
ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_LOG_STATS_INTERVAL": "3600"}
LOADED = {"use_sliding_window": True, "max_window_layers": 3}
KEY = "canary-5f1d0c"
PROBE = {"probe": True, "probe_prompts": [f"Recite chapter {n}" for n in range(4)]}
UNIT = """
[Service]
ExecStart={command}
Restart=on-failure
"""
# As a container has them: a root, processes and mounts of its own.
BOX = """
mkdir -p /srv/box/usr /srv/box/dev /srv/box/sys /srv/box/proc /srv/box/tmp /srv/box/root /srv/box/etc /srv/box/models {places}
cp -a /bin /sbin /lib /lib64 /srv/box/ 2>/dev/null || true
cp /etc/passwd /etc/hosts /etc/ld.so.cache /srv/box/etc/
cp -r {models}/* /srv/box/models/
exec unshare --mount --pid --fork sh -c '
  for place in /usr /dev /sys {mounts}; do mount --rbind "$place" "/srv/box$place"; done
  mount -t proc proc /srv/box/proc
  exec chroot /srv/box /usr/bin/env {command}' > /srv/box/tmp/vllm.log 2>&1 < /dev/null
"""


@dataclasses.dataclass(frozen=True)
class Ward:
    serving: Serving

    @property
    def one(self) -> Host:
        return self.serving.fleet.hosts[0]

    @property
    def other(self) -> Host:
        return self.serving.fleet.hosts[1]

    def command(self, port: int, models: str = "/srv/models", **speculative: object) -> str:
        drafter = {"method": "dflash", "model": f"{models}/drafter-{port}", "num_speculative_tokens": 7, **speculative}
        flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in ARGS.items()]
        words = [
            str(self.serving.venv / "bin/vllm"),
            "serve",
            f"{models}/target",
            "--host=127.0.0.1",
            f"--port={port}",
            *flags,
        ]
        variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        return shlex.join(
            [*variables, *words, "--no-enable-prefix-caching", f"--speculative-config={json.dumps(drafter)}"]
        )

    def drafter(self, host: Host, port: int, without: tuple[str, ...] = (), **values: object) -> None:
        """A drafter of its own for the server at a port, right but for these values."""
        path = f"/srv/models/drafter-{port}"
        host.run(f"[ -e {path} ] || cp -r /srv/models/drafter {path}")
        config = {**json.loads(host.run("cat /srv/models/drafter/config.json").stdout), **RIGHT, **LOADED, **values}
        host.write(
            f"{path}/config.json", json.dumps({key: value for key, value in config.items() if key not in without})
        )

    def doctor(self, *options: str, **arguments: object) -> dict[str, dict[str, Any]]:
        """What the module returns, by host. No key is in it."""
        tree = self.serving.fleet.home / "doctor"
        done = subprocess.run(
            [
                Path(sys.executable).with_name("ansible"),
                *(
                    "all",
                    "-i",
                    self.serving.fleet.inventory,
                    "-m",
                    "llmops.vllm.vllm_doctor",
                    "--tree",
                    str(tree),
                    *(["-a", json.dumps(arguments)] if arguments else []),
                    *options,
                ),
            ],
            cwd=CLONE,
            env={**os.environ, "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert KEY not in done.stdout + "".join(path.read_text() for path in tree.iterdir())
        return {host.name: json.loads((tree / host.name).read_text()) for host in self.serving.fleet.hosts}


def wait_until_ready(host: Host, port: int) -> None:
    ask = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/version', timeout=5)"
    wait_for(f"port {port} answers", lambda: host.run(f'python3 -c "{ask}"', check=False).returncode == 0, READY)


def recite(host: Host, port: int, chapters: int) -> None:
    body = [
        {"model": "tiny", "max_tokens": 200, "messages": [{"role": "user", "content": f"Recite chapter {n}"}]}
        for n in range(chapters)
    ]
    script = (
        "import json, urllib.request as r\n"
        f"for body in json.loads({json.dumps(body)!r}):\n"
        f"    r.urlopen(r.Request('http://127.0.0.1:{port}/v1/chat/completions', json.dumps(body).encode(),"
        " {'Content-Type': 'application/json'}), timeout=300).read()\n"
    )
    host.run("python3 -", input=script, timeout=600)


@pytest.fixture(scope="module")
def ward(fleets) -> Ward:
    """Five servers with five faults: three on a host with systemd, two on one without."""
    ward = Ward(Serving.on(fleets, "/opt/vllm", "/srv/models", systemd=1, plain=1))
    one, other = ward.one, ward.other

    ward.drafter(one, 8001, dflash_config={"mask_token_id": 4, "target_layer_ids": [1, 3, 5]})
    one.run(f"cd /root; nohup env {ward.command(8001)} > /root/vllm.log 2>&1 < /dev/null &")

    ward.drafter(one, 8002)
    one.write(
        "/etc/systemd/system/llm.service", UNIT.format(command=f"/usr/bin/env {ward.command(8002)}".replace("%", "%%"))
    )
    one.run("systemctl daemon-reload && systemctl start llm")
    wait_until_ready(one, 8001)
    wait_until_ready(one, 8002)
    ward.drafter(one, 8002)  # written again, and it is the same: what the server has read is another file

    ward.drafter(one, 8003, dflash_config={"mask_token_id": 3})
    one.run(f"tmux new-session -d -s llm {shlex.quote(f'env VLLM_API_KEY={KEY} ' + ward.command(8003))}")

    ward.drafter(other, 8004, sliding_window=8)
    venv = ward.serving.venv
    python = Path(os.path.realpath(venv / "bin/python")).parents[1]
    mounts = [str(venv.parent), str(python)]
    box = BOX.format(
        places=" ".join(f"/srv/box{place}" for place in mounts),
        mounts=" ".join(mounts),
        models="/srv/models",
        command=ward.command(8004, "/models").replace("'", "'\\''"),
    )
    other.write("/root/box.sh", box)
    other.run("setsid sh /root/box.sh < /dev/null > /root/box.log 2>&1 &")
    wait_until_ready(one, 8003)
    wait_until_ready(other, 8004)
    recite(other, 8004, 4)

    ward.drafter(other, 8005)
    other.run(f"cd /root; nohup env {ward.command(8005)} > /root/vllm.log 2>&1 < /dev/null &")
    wait_until_ready(other, 8005)
    server = next(pid for pid, args in served(other).items() if "--port=8005" in args)
    other.run(f"kill -KILL {server}")
    return ward


def state(host: Host) -> str:
    """All that a look must not change: files, processes, and what the servers have counted."""
    files = "find /srv/models /srv/box/models /etc/systemd -type f 2>/dev/null | sort | xargs -d '\\n' sha256sum"
    processes = "ps -eo pid,lstart,args | grep -E '/bin/vllm|VLLM::' | grep -v grep"
    counters = (
        "import urllib.request as r\n"
        "for port in (8001, 8002, 8003, 8004):\n"
        "    try: told = r.urlopen(f'http://127.0.0.1:{port}/metrics').read().decode()\n"
        "    except OSError: continue\n"
        "    print([line for line in told.splitlines() if line.startswith(('vllm:generation', 'vllm:prompt', 'vllm:spec'))])\n"
    )
    return host.run(f"{files}\n{processes}\npython3 - <<'E'\n{counters}E\n").stdout


def places(ward: Ward) -> list[tuple[Host, int]]:
    return [(ward.one, 8001), (ward.one, 8002), (ward.one, 8003), (ward.other, 8004)]


def drafts(host: Host, port: int) -> float:
    ask = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/metrics', timeout=5).read().decode())"
    told = host.run(f'python3 -c "{ask}"').stdout.splitlines()
    return sum(float(line.split()[-1]) for line in told if line.startswith("vllm:spec_decode_num_drafts_total"))


def test_each_fault_is_named_first_and_nothing_is_changed(ward):
    before = [state(host) for host in (ward.one, ward.other)]
    told = ward.doctor()
    assert [state(host) for host in (ward.one, ward.other)] == before

    found = {server["port"]: server for host in told.values() for server in host["servers"]}
    for server in found.values():
        print(server["port"], server["keeper"], *server["findings"], sep="\n    ")
    first = {port: server["findings"][0] for port, server in found.items()}
    assert sorted(found) == [8001, 8002, 8003, 8004]
    assert found[8001]["keeper"] == "nohup"
    assert "mask_token_id is 4 and should be 3" in first[8001]["what"]
    assert found[8002]["keeper"].startswith("systemd unit llm.service")
    assert "config.json was changed" in first[8002]["what"]
    assert found[8003]["keeper"] == "tmux"
    assert "target_layer_ids" in first[8003]["what"]
    assert found[8004]["drafter"] == "/models/drafter-8004"
    assert "sliding_window is 8" in first[8004]["what"]
    assert "counters" in [finding["check"] for finding in found[8004]["findings"]]
    (orphans,) = told[ward.other.name]["findings"]
    assert "Engines without a server: pid" in orphans["what"]
    assert {server["health"] for server in found.values()} == {"error"}
    for server in found.values():
        assert server["probe"] is None
        assert server["placement"]["unknown"] == ["which GPUs it uses: nvidia-smi finds none here, or is not there"]


def test_a_probe_says_of_each_what_its_drafter_is_worth(ward):
    """In a network of its own or not, with a key or without, and only for who asks for it."""
    before = {port: drafts(host, port) for host, port in places(ward)}
    ward.doctor()
    assert {port: drafts(host, port) for host, port in places(ward)} == before
    found = {server["port"]: server for host in ward.doctor(**PROBE).values() for server in host["servers"]}
    for port, server in found.items():
        print(port, server["probe"], *[f for f in server["findings"] if f["check"] == "probe"], sep="\n    ")
    assert {port: server["probe"]["verdict"] for port, server in found.items()} == dict.fromkeys(before, "pass")
    assert [port for port in before if found[port]["probe"]["acceptance_length"] > 7] == [8002]
    ill = {
        port
        for port, server in found.items()
        for f in server["findings"]
        if f["check"] == "probe" and f["severity"] == "error"
    }
    assert {8001, 8004} <= ill
    assert 8002 not in ill
    assert all(drafts(host, port) > before[port] for host, port in places(ward))


def test_the_table_says_it(ward):
    said = ward.serving.play("doctor")
    assert re.search(r"gpu1 +tiny +8001 +nohup +\S+ +drafter-8001 .*error", said)
    assert "mask_token_id is 4 and should be 3" in " ".join(said.split())
    said = ward.serving.play("doctor", well=False, vllm_doctor_fail_on="error")
    assert "The worst finding on gpu1 is of severity error." in said


def test_without_privilege_what_can_be_seen_is_judged_and_the_rest_is_listed(ward):
    told = ward.doctor("--become", "--become-user", "nobody")
    servers = list(told[ward.one.name]["servers"])
    assert sorted(server["port"] for server in servers) == [8001, 8002, 8003]
    for server in servers:
        assert server["environment"] is None
        assert "its environment" in server["hidden"]
    (first,) = [server for server in servers if server["port"] == 8001]
    assert "mask_token_id is 4 and should be 3" in first["findings"][0]["what"]


def test_what_is_well_has_nothing_said_against_it(ward):
    """Deployed by this collection, on the other host, when the others are gone there."""
    ward.other.run(f"kill -KILL {' '.join(map(str, served(ward.other)))}")
    ward.serving.play("site", "-l", ward.other.name)
    (server,) = ward.doctor(**PROBE)[ward.other.name]["servers"]
    assert server["probe"]["acceptance_length"] > 7
    assert [f for f in server["findings"] if f["severity"] != "note"] == []
    assert server["acceptance_length"] > 7


def test_adopted(ward, tmp_path):
    """The server of nohup becomes one of ours: the same arguments and paths, and its drafter mended."""
    limits = ("-l", ward.one.name)
    said = ward.serving.play("adopt", *limits, vllm_adopt_port=8001, vllm_adopt_to=str(tmp_path))
    assert "serve the drafter from a copy with a mended config.json" in " ".join(said.split())
    written = tmp_path / ward.one.name / "vllm.yml"
    print(written.read_text())
    pids = [pid for pid, args in served(ward.one).items() if "--port=8001" in args]
    ward.one.run(f"kill {' '.join(map(str, pids))}")
    variables = yaml.safe_load(written.read_text())
    ward.serving.play("site", *limits, **variables, vllm_drafter_values={})
    (ours,) = [server for server in ward.doctor()[ward.one.name]["servers"] if server["port"] == 8001]
    assert ours["unit"] == "vllm-default.service"
    assert ours["acceptance_length"] > 7
    assert {**ours["flags"], "speculative-config": None} == {
        **variables["vllm_serve_args"], "host": "127.0.0.1", "port": 8001, "speculative-config": None,
    }  # fmt: skip
