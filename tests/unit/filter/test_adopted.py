"""What a server that is there becomes in the words of the roles, and what that would change."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.llmops.vllm.plugins.filter.adopted import adopted
from ansible_collections.llmops.vllm.plugins.filter.adoption_plan import adoption_plan

SHA = "0123456789abcdef0123456789abcdef01234567"
SERVER = {
    "pid": 4711,
    "user": "llm",
    "keeper": "systemd unit llm.service",
    "unit": "llm.service",
    "python": "/srv/venv/bin/python",
    "version": "0.32.0",
    "target": f"/srv/hub/models--Qwen--Qwen3.6-27B/snapshots/{SHA}",
    "drafter": "/srv/models/draft",
    "build": {"version": "0.32.0", "commit": "a8062413a", "method": "git", "device": "cuda"},
    "digests": {"drafter": "ab" * 32},
    "host": "127.0.0.1",
    "port": 8001,
    "flags": {
        "host": "127.0.0.1",
        "port": 8001,
        "api-key": "********",
        "tensor-parallel-size": 2,
        "enable-prefix-caching": False,
        "speculative-config": {"method": "dflash", "model": "x/draft", "num_speculative_tokens": 15, "attention_backend": "FLASH_ATTN"},
    },
    "environment": {"HF_TOKEN": "********", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "0,1", "LLMOPS_VLLM_LAUNCH": "/x"},
    "findings": [
        {"check": "drafter", "severity": "error", "what": "mask_token_id is 4 and should be 3."},
        {"check": "safety", "severity": "note", "what": "It runs as root."},
    ],
}  # fmt: skip


def test_its_variables():
    assert adopted(SERVER) == {
        "vllm_user": "llm",
        "vllm_build_mode": "existing",
        "vllm_build_venv": "/srv/venv",
        "vllm_models_target": {"path": SERVER["target"]},
        "vllm_models_drafter": {"path": "/srv/models/draft"},
        "vllm_serve_host": "127.0.0.1",
        "vllm_serve_port": 8001,
        "vllm_serve_args": {"tensor-parallel-size": 2, "enable-prefix-caching": False},
        "vllm_serve_speculative": {"num_speculative_tokens": 15, "attention_backend": "FLASH_ATTN"},
        "vllm_serve_env": {"CUDA_VISIBLE_DEVICES": "0,1"},
    }


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"keeper": "docker container 0f0f0f0f0f0f"}, "runs in a docker container 0f0f0f0f0f0f"),
        ({"python": "python3"}, "its venv of pid 4711 is not known"),
        (
            {"flags": {"speculative-config": "{method:dflash}"}},
            "is no dictionary, but '{method:dflash}'. vLLM takes JSON there",
        ),
        ({"flags": {"speculative-config": ["a", "b"]}}, "is no dictionary"),
        ({"flags": {"speculative-config": True}}, "is no dictionary, but True"),
        ({"target": "", "drafter": ""}, "its target and its drafter of pid 4711 is not known"),
    ],
)
def test_what_can_not_be_adopted(other, words):
    with pytest.raises(AnsibleFilterError, match=words):
        adopted({**SERVER, **other})


def test_the_plan():
    assert adoption_plan(SERVER).splitlines() == [
        "Seen as pid 4711 of llm, kept by systemd unit llm.service; vLLM 0.32.0.",
        "The build: 0.32.0, installed from git at commit a8062413a.",
        f"The target: {SERVER['target']}, Qwen/Qwen3.6-27B at {SHA}.",
        f"The drafter: /srv/models/draft; config.json sha256:{'ab' * 32}.",
        "site.yml would:",
        "- serve the drafter from a copy with a mended config.json: mask_token_id is 4 and should be 3.",
        "- start the server under systemd where that runs the host, and by itself elsewhere, and measure it.",
        "Left to you:",
        "- end the server that is there first, as it holds port 8001 and the GPUs: systemctl disable --now llm.service",
        "- put HF_TOKEN into vllm_serve_env by a vault: secrets are not written here",
        "- put --api-key into vllm_serve_api_key by a vault: secrets are not written here",
    ]


def test_what_is_masked_in_part_or_within_is_left_to_a_person():
    flags = {
        "otlp-traces-endpoint": "http://********@h:1",
        "kv-transfer-config": {"kv_connector": "x", "extra": {"secret_key": "********"}},
        "lora-modules": ["a=/a", "b=http://********@h"],
        "speculative-config": {"method": "dflash", "num_speculative_tokens": 7, "hub": {"token": "********"}},
    }
    server = {
        **SERVER,
        "flags": flags,
        "environment": {"HF_ENDPOINT": "http://********@hub", "VLLM_API_KEY": "********"},
    }
    variables = adopted(server)
    assert variables["vllm_serve_args"] == {"kv-transfer-config": {"kv_connector": "x"}}
    assert variables["vllm_serve_speculative"] == {"num_speculative_tokens": 7}
    assert "vllm_serve_env" not in variables
    assert [line.split(" by ")[0] for line in adoption_plan(server).splitlines() if line.startswith("- put")] == [
        "- put HF_ENDPOINT into vllm_serve_env",
        "- put VLLM_API_KEY into vllm_serve_api_key",
        "- put --otlp-traces-endpoint into vllm_serve_args",
        "- put --kv-transfer-config.extra.secret_key into vllm_serve_args",
        "- put --lora-modules into vllm_serve_args",
        "- put --speculative-config.hub.token into vllm_serve_speculative",
    ]


def test_nothing_is_written_that_ansible_would_carry_out():
    run = "{{ lookup('pipe', 'id') }}"
    flags = {"chat-template": "{% if x %}", "x": {"y": run, "z": 1}, "served-model-name": ["a", run]}
    server = {**SERVER, "flags": flags, "environment": {"HF_HOME": run}, "host": run}
    assert adopted(server)["vllm_serve_args"] == {"x": {"z": 1}}
    assert not {"vllm_serve_env", "vllm_serve_host"} & set(adopted(server))
    said = [line.split(" as ")[0] for line in adoption_plan(server).splitlines() if "!unsafe" in line]
    assert said == [
        "- put HF_HOME into vllm_serve_env",
        "- put --chat-template into vllm_serve_args",
        "- put --x.y into vllm_serve_args",
        "- put --served-model-name into vllm_serve_args",
    ]


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028"])
def test_a_line_of_the_plan_stays_one(end):
    assert len(adoption_plan({**SERVER, "target": f"/a{end}b: c"}).splitlines()) == len(
        adoption_plan(SERVER).splitlines()
    )


def test_without_a_unit_its_process_is_to_be_ended():
    plan = adoption_plan({**SERVER, "unit": "", "environment": None})
    assert "the GPUs: kill 4711" in plan
    assert "- look at its environment, which could not be read" in plan
