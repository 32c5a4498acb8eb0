from __future__ import annotations

import copy

import pytest

from ansible_collections.llmops.vllm.plugins.filter.deployment_faults import deployment_faults

SPECULATION = '{"method": "dflash", "model": "%s", "num_speculative_tokens": 15}'


def muster(rank: int, home: str = "/opt") -> dict:
    return {
        "step": "written",
        "commit": "a8062413a" + 31 * "0",
        "models": {f"{home}/target": "t", f"{home}/drafter": "d"},
        "content": {
            "id": f"release{rank}",
            "url": "" if rank else "http://127.0.0.1:8000",
            "build": {"id": "b1", "venv": f"{home}/venv", "version": "0.32.1.dev2+ga8062413a"},
            "target": {"path": f"{home}/target", "repo": "Qwen/Qwen3.6-27B", "revision": "r", "digest": "x"},
            "drafter": {"path": f"{home}/drafter", "digest": "y"},
            "deployment": {"name": "big", "rank": rank, "hosts": ["gpu1", "gpu2"], "executor": "mp"},
            "argv": [
                f"{home}/venv/bin/vllm",
                "serve",
                f"{home}/target",
                *(["--headless"] if rank else ["--host=127.0.0.1", "--port=8000"]),
                "--max-model-len=512",
                f"--node-rank={rank}",
                "--lora-modules",
                "one",
                "two",
                "--speculative-config=" + SPECULATION % home,
            ],
        },
    }


@pytest.fixture
def musters():
    return {"gpu1": muster(0), "gpu2": muster(1, "/srv")}


def test_those_that_differ_by_rank_and_place_only_go_together(musters):
    assert deployment_faults(musters, "written", []) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m["content"]["build"].update(version="0.32.0"), "the version of vLLM is 0.32.1.dev2+ga8062413a on gpu1 and 0.32.0 on gpu2."),
        (lambda m: m["content"]["build"].update(id="b2"), "the build is b1 on gpu1 and b2 on gpu2."),
        (lambda m: m.update(commit="b" * 40), f"the commit of vLLM is a8062413a{31 * '0'} on gpu1 and {40 * 'b'} on gpu2."),
        (lambda m: m["content"]["target"].update(revision="s"), "the revision of the target is r on gpu1 and s on gpu2."),
        (lambda m: m["content"]["drafter"].pop("digest"), "the digest of the drafter is y on gpu1 and not set on gpu2."),
        (lambda m: m["models"].update({"/srv/drafter": "e"}), "What /opt/drafter holds on gpu1 is not what /srv/drafter holds on gpu2"),
        (lambda m: m["content"]["argv"].append("--max-model-len=256"), "--max-model-len is 512 on gpu1 and 256 on gpu2."),
        (lambda m: m["content"]["argv"].append("--enforce-eager"), "--enforce-eager is not set on gpu1 and  on gpu2."),
        (lambda m: m["content"]["argv"].remove("two"), "--lora-modules is one two on gpu1 and one on gpu2."),
        (
            lambda m: m["content"]["argv"].append("--speculative-config=" + (SPECULATION % "/srv").replace("15", "7")),
            "num_speculative_tokens in --speculative-config is 15 on gpu1 and 7 on gpu2.",
        ),
        (
            lambda m: m["content"]["deployment"].update(hosts=["gpu2", "gpu1"]),
            'the deployment\'s hosts is ["gpu1", "gpu2"] on gpu1 and ["gpu2", "gpu1"] on gpu2.',
        ),
    ],
)  # fmt: skip
def test_what_is_not_the_same_is_told(musters, change, said):
    change(musters["gpu2"])
    (found,) = deployment_faults(musters, "written", [])
    assert said.replace("and  on", "and set on") in found


def test_venvs_that_somebody_made_are_known_by_their_version(musters):
    for i, told in enumerate(musters.values()):
        told["content"]["build"]["id"] = f"existing-{i}"
    assert deployment_faults(musters, "written", []) == []


def test_who_failed_before_is_named_and_nothing_else(musters):
    for left in (None, {**copy.deepcopy(musters["gpu2"]), "step": "read"}):
        assert deployment_faults({**musters, "gpu2": left}, "written", []) == [
            "gpu2 has not come as far as this: see above."
        ]
    assert deployment_faults({**musters, "gpu2": None}, "written", ["gpu2"]) == [
        "gpu2 has failed, or is out of reach: see above."
    ]


def by_ray(rank: int) -> dict:
    told = muster(rank)
    content = told["content"]
    content["deployment"]["executor"] = "ray"
    ray = ["/opt/venv/bin/ray", "start", "--block", f"--node-ip-address=192.0.2.{rank + 1}", "--num-gpus=8"]
    if rank:
        content["argv"] = [*ray, "--address=192.0.2.1:29501"]
    else:
        content["ray"] = [*ray, "--head", "--port=29501", "--include-dashboard=false"]
    return {**told, "ray": "ray-2.60.0 of python3.12"}


def test_over_ray_a_follower_is_held_against_what_ray_is_told_at_the_head():
    assert deployment_faults({"gpu1": by_ray(0), "gpu2": by_ray(1)}, "written", []) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.update(ray="ray-2.59.0 of python3.12"), "the Ray is ray-2.60.0 of python3.12 on gpu1 and ray-2.59.0 of python3.12 on gpu2."),
        (lambda m: m["content"]["argv"].append("--num-gpus=4"), "--num-gpus of Ray is 8 on gpu1 and 4 on gpu2."),
        (lambda m: m["content"]["argv"].append("--address=192.0.2.9:29501"), "where Ray meets is 192.0.2.1:29501 on gpu1 and 192.0.2.9:29501 on gpu2."),
        (lambda m: m["content"]["target"].update(path="/srv/target"), "the path of the target is /opt/target on gpu1 and /srv/target on gpu2."),
    ],
)  # fmt: skip
def test_over_ray_what_is_not_the_same_is_told(change, said):
    follower = by_ray(1)
    change(follower)
    (found,) = deployment_faults({"gpu1": by_ray(0), "gpu2": follower}, "written", [])
    assert said in found


def test_a_ray_that_is_not_seen_is_not_compared():
    assert deployment_faults({"gpu1": by_ray(0), "gpu2": {**by_ray(1), "ray": ""}}, "written", []) == []
