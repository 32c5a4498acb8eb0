"""Every known fault applies where it should and nowhere else: a row here for each, in its order."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import features, judges_setup
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import ERROR, NOTE, WARNING
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.known import FAULTS, that_apply
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._engine.metrics import Counters, Drafting
from ansible_collections.llmops.vllm.tests.unit.doctor.test_judges import SERVER

ALL = [(0, 0), (0, 32), (1, 0), None]
CASES = [
    # id, what a server must have for it, versions that have it, versions that don't
    ("kv-layout", "dflash", [(0, 22)], [(0, 21), (0, 23), None]),
    ("fp8-kv", "dflash fp8-kv", [(0, 20), (0, 21)], [(0, 19), (0, 22), None]),
    ("flashinfer", "dflash flashinfer", [(0, 20), (0, 21)], [(0, 19), (0, 22), None]),
    ("lm-head", "dflash wrapped-target runner-v2", [(0, 25)], [(0, 24), (0, 26), None]),
    ("acceptance-0.28", "dflash", [(0, 28)], [(0, 27), (0, 29), None]),
    ("frozen-fork", "dflash from-source", [(0, 19), (0, 25)], [(0, 18), (0, 26), None]),
    ("prefix-caching", "dflash prefix-caching", [(0, 20), (0, 32), (1, 0)], [(0, 19), None]),
    ("prefix-hits-early", "dflash2 prefix-caching no-prefix-hits", [(0, 28), (0, 31)], [(0, 27), (0, 32), None]),
    ("prefix-hits", "dflash2 prefix-caching no-prefix-hits", [(0, 32), (1, 0)], [(0, 31), None]),
    ("prefix-warning", "dflash keeps-eagle-blocks", [(0, 32), (1, 0)], [(0, 31), None]),
    ("quantised-target", "dflash quantised-target weak", ALL, []),
    ("drafter-unpinned", "dflash drafter-unpinned", ALL, []),
    ("hub-at-start", "hub-name asks-hub", ALL, []),
    ("asleep", "asleep", ALL, []),
    ("health-lies", "several-hosts", ALL, []),
    ("ray-address", "ray", ALL, []),
    ("exit-code-0", "unit-restarts-on-failure", ALL, []),
    ("notify", "unit-waits-for-notify", ALL, []),
    ("orphans", "unit-spares-children", ALL, []),
]
EACH = pytest.mark.parametrize(("id", "when", "having", "lacking"), CASES, ids=[case[0] for case in CASES])


def test_every_fault_has_a_case():
    assert [fault.id for fault in FAULTS] == [case[0] for case in CASES]


def ids(version, wanted: set[str]) -> list[str]:
    return [fault.id for fault in that_apply(version, wanted)]


@EACH
def test_where_it_applies(id, when, having, lacking):
    assert [version for version in having if id not in ids(version, set(when.split()))] == []


@EACH
def test_where_it_does_not(id, when, having, lacking):
    """In no other version, and to no server that lacks one of the features, whatever else it has."""
    assert [version for version in lacking if id in ids(version, set(features.FEATURES))] == []
    others = [set(features.FEATURES) - {name} for name in when.split()]
    assert [other for version in having for other in others if id in ids(version, other)] == []


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.id for fault in FAULTS])
def test_what_it_tells(fault):
    assert fault.severity in (ERROR, WARNING, NOTE)
    assert fault.symptom.endswith(".")
    assert fault.remedy.endswith(".")
    assert fault.source
    assert set(fault.when) <= set(features.FEATURES)
    assert fault.first < fault.before


def test_every_feature_is_asked_for():
    assert set(features.FEATURES) == {name for fault in FAULTS for name in fault.when}


PLAIN = {
    "flags": {"speculative-config": {"method": "eagle3", "model": "/d"}, "enable-prefix-caching": False},
    "environment": {},
}
DFLASH = {"method": "dflash", "model": "org/d"}


def flags(**more):
    return {"flags": {**PLAIN["flags"], **{name.replace("_", "-"): value for name, value in more.items()}}}


def counted(**more):
    return {"counters": Counters(Drafting(500, 3500, 100, (100.0,)), 30_000.0, heard=True, **more)}


SUBJECTS = [
    # a feature, and what a server is that has it: as it was started, as it was read, the drafter's and the target's config.json
    ("dflash", flags(speculative_config=DFLASH), {}, {}, {}),
    ("dflash2", flags(speculative_config=DFLASH), {}, {"architectures": ["DFlash2DraftModel"]}, {}),
    ("weak", {}, counted(), {}, {}),
    ("drafter-unpinned", flags(speculative_config=DFLASH), {}, {}, {}),
    ("keeps-eagle-blocks", flags(speculative_config={"disable_eagle_block_drop": True}), {}, {}, {}),
    ("wrapped-target", {}, {}, {}, {"architectures": ["Qwen3_5ForConditionalGeneration"]}),
    ("quantised-target", {}, {}, {}, {"quantization_config": {"quant_method": "awq"}}),
    ("quantised-target", flags(quantization="fp8"), {}, {}, {}),
    ("hub-name", {"model": "org/target"}, {}, {}, {}),
    ("asks-hub", {}, {}, {}, {}),
    ("runner-v2", {"environment": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}, {}, {}, {}),
    ("prefix-caching", {"flags": {}}, {}, {}, {}),
    ("no-prefix-hits", {}, counted(cache_hits=0.0), {}, {}),
    ("fp8-kv", flags(kv_cache_dtype="fp8_e4m3"), {}, {}, {}),
    ("flashinfer", flags(attention_backend="FLASHINFER"), {}, {}, {}),
    ("flashinfer", flags(speculative_config={"attention_backend": "FLASHINFER"}), {}, {}, {}),
    ("from-source", {}, {"version": "0.19.2.dev8+ga8062413a"}, {}, {}),
    ("asleep", {}, {"counters": Counters(asleep=True)}, {}, {}),
    ("several-hosts", flags(nnodes=2), {}, {}, {}),
    ("ray", flags(distributed_executor_backend="ray"), {}, {}, {}),
    ("unit-restarts-on-failure", {}, {"unit": {"Restart": "on-failure"}}, {}, {}),
    ("unit-waits-for-notify", {}, {"unit": {"Type": "notify"}}, {}, {}),
    ("unit-spares-children", {}, {"unit": {"KillMode": "process"}}, {}, {}),
]


def subject(tmp_path: Path, server, read, drafter, target) -> Subject:
    for name, config in (("drafter", drafter), ("target", target)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    unit = {"Restart": "always", "KillMode": "control-group", "Type": "exec"}
    places = {"drafter": str(tmp_path / "drafter"), "target": str(tmp_path / "target")}
    return Subject(
        dataclasses.replace(SERVER, **{**PLAIN, **server}), **{"unit": unit, "log": None, "version": "0.32.0", **places, **read}
    )  # fmt: skip


@pytest.mark.parametrize(("name", "server", "read", "drafter", "target"), SUBJECTS)
def test_who_has_a_feature(tmp_path, name, server, read, drafter, target):
    assert name in features.of(subject(tmp_path, server, read, drafter, target))


def test_who_has_none(tmp_path):
    """A server of which all is known, and nothing is out of the ordinary. One that asks no hub is told not to."""
    plain = {"environment": {"HF_HUB_OFFLINE": "1"}}
    assert features.of(subject(tmp_path, plain, {}, {}, {})) == set()
    assert {name for name, *_unused in SUBJECTS} == set(features.FEATURES)


def test_what_can_not_be_read_has_no_feature(tmp_path):
    hidden = {"environment": None, "cwd": "", "model": "org/target", **flags(speculative_config=DFLASH)}
    assert features.of(subject(tmp_path, hidden, {"blind": True}, {}, {})) == {"dflash"}


@pytest.mark.parametrize(("version", "severity"), [("0.21.0", ERROR), ("0.21.1.dev2+ga8062413a", WARNING)])
def test_a_build_from_source_may_have_what_its_version_lacks(tmp_path, version, severity):
    one = subject(tmp_path, flags(speculative_config=DFLASH, kv_cache_dtype="fp8"), {"version": version}, {}, {})
    (found,) = [finding for finding in judges_setup.versions(one) if "KV cache in fp8" in finding.what]
    assert found.severity == severity
