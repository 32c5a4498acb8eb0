"""What the doctor found, as a person reads it."""

from __future__ import annotations

from ansible_collections.llmops.vllm.plugins.filter.doctor_table import doctor_table


def finding(severity: str, what: str, evidence: str = "/srv/d/config.json") -> dict[str, str]:
    return {"check": "drafter", "severity": severity, "what": what, "evidence": evidence, "remedy": "Mend it."}


def server(port: int, health: str, *findings: dict[str, str], **more: object) -> dict[str, object]:
    return {
        "model": "/srv/models/Qwen3.6-27B",
        "flags": {},
        "port": port,
        "keeper": "systemd unit vllm.service",
        "version": "0.32.0",
        "drafter": "/srv/d",
        "acceptance_length": 1.0123,
        "health": health,
        "findings": list(findings),
        **more,
    }


WRONG = finding("error", "mask_token_id is 4 and should be 3.")
HOSTS = {
    "gpu1": {"health": "error", "findings": [], "servers": [server(8000, "error", WRONG)]},
    "gpu2": {
        "health": "error",
        "findings": [finding("error", "Engines without a server: pid 7.", "/proc")],
        "servers": [
            server(8000, "error", WRONG, finding("note", "It runs as root.")),
            server(8001, "ok", keeper="nothing: it was started by hand", drafter="", acceptance_length=None, version="",
                   flags={"served-model-name": ["tiny", "small"]}),
        ],
    },
    "gpu3": {"health": "ok", "findings": [], "servers": []},
    "gpu4": None,
}  # fmt: skip

TABLE = """\
host  model        port  kept by                    vLLM    drafter  acceptance  health
gpu1  Qwen3.6-27B  8000  systemd unit vllm.service  0.32.0  d        1.01        error
gpu2  Qwen3.6-27B  8000  systemd unit vllm.service  0.32.0  d        1.01        error
gpu4  -            -     -                          -       -        -           not reached
gpu2  tiny         8001  nothing                    -       -        -           ok
gpu3  no server    -     -                          -       -        -           ok

error   gpu1, gpu2:8000: mask_token_id is 4 and should be 3.
  seen  /srv/d/config.json
  do    Mend it.

error   gpu2: Engines without a server: pid 7.
  seen  /proc
  do    Mend it.

note    gpu2:8000: It runs as root.
  do    Mend it.

4 hosts: 2 error, 1 not reached, 1 ok"""


def test_the_worst_and_the_most_common_first():
    assert doctor_table(HOSTS) == TABLE


def test_an_empty_list_of_names_is_none():
    one = server(8000, "ok", flags={"served-model-name": []})
    assert "Qwen3.6-27B" in doctor_table({"gpu1": {"health": "ok", "findings": [], "servers": [one]}})


def test_of_many_those_are_told_that_need_a_look():
    names = [f"gpu{n:02}.example.com" for n in range(1, 51)]
    hosts = {name: {"health": "ok", "findings": [], "servers": [server(8000, "ok")]} for name in names}
    for name in names[10:21]:
        hosts[name] = {"health": "error", "findings": [], "servers": [server(8000, "error", WRONG)]}
    lines = doctor_table(hosts).splitlines()
    assert [line.split(".")[0] for line in lines[1:12]] == [f"gpu{n}" for n in range(11, 22)]
    assert lines[13].startswith("ok      gpu01, gpu02, gpu03,")
    assert (
        "error   gpu11, gpu12, gpu13, gpu14, gpu15, gpu16, gpu17, gpu18 and 3 more: mask_token_id is 4 and should be 3."
        in lines
    )
    assert lines[-1] == "50 hosts: 11 error, 39 ok"
    assert max(map(len, lines)) <= 120


def test_what_a_probe_measured_stands_beside_what_was_counted_before():
    one = server(8000, "ok", probe={"verdict": "pass", "acceptance_length": 7.9})
    other = server(8001, "ok", probe={"verdict": "not probed"})
    lines = doctor_table({"gpu1": {"health": "ok", "findings": [], "servers": [one, other]}}).splitlines()
    assert "1.01, now 7.90  ok" in lines[1]
    assert "1.01            ok" in lines[2]
