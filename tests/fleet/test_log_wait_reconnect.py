"""log_wait on a real host over SSH, whose connection is cut for 80 s in the middle of the wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]
CUT = 80  # seconds: more than a slice and what is waited for its answer
JOB = """
echo "step one"
while [ ! -e /srv/done ]; do
  i=$((i + 1)); echo "$i of many"; sleep 0.1
done
echo "JOB COMPLETE"
exec sleep 1000
"""
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - llmops.vllm.log_wait:
        path: /srv/job.log
        pid: "{{ pid }}"
        profile: none
        ready: [^JOB COMPLETE]
        stages: [^(step .*)]
        timeout: 240
      register: waited
    - ansible.builtin.copy:
        content: "{{ waited | to_json }}"
        dest: "{{ report }}"
      delegate_to: localhost
      vars:
        ansible_connection: local
        ansible_python_interpreter: "{{ ansible_playbook_python }}"
"""


@pytest.mark.parametrize("ends", ["while cut off", "afterwards"])
def test_a_lost_connection_costs_a_slice_and_not_the_wait(fleets, tmp_path, ends):
    fleet = fleets(systemd=1)
    (host,) = fleet.hosts
    host.write("/srv/job.sh", JOB)
    pid = host.run("setsid sh /srv/job.sh >/srv/job.log 2>&1 </dev/null & echo $!").stdout.strip()
    play, report = tmp_path / "play.yml", tmp_path / "report.json"
    play.write_text(PLAY)

    with subprocess.Popen(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            "-i",
            fleet.inventory,
            play,
            "-e",
            f"pid={pid} report={report}",
        ],
        cwd=CLONE,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(CLONE / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "PYTHONUNBUFFERED": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        output = ""
        for line in run.stdout:
            output += line
            if "[gpu1] step one" in line:  # a slice is over, and the next one has begun
                break
        host.link.cut()
        if ends == "while cut off":
            host.console("touch /srv/done")
        time.sleep(CUT)  # the fault itself
        host.link.heal()
        if ends == "afterwards":
            host.run("touch /srv/done")
        output += run.stdout.read()
    assert run.returncode == 0, output

    waited = json.loads(report.read_text())
    assert waited["verdict"] == "ready"
    assert waited["matched"]["text"] == "JOB COMPLETE"
    assert waited["reconnects"] == 1
    assert "The connection to the host was lost and made again once." in waited["msg"]
    assert "[gpu1] connection lost" in output
    written = int(host.run("grep -c '' /srv/job.log").stdout)
    assert waited["lines"] == waited["matched"]["number"] == written, "each line is read once"
