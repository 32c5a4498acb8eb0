"""Every known fault applies where it should and nowhere else: a row here for each, in its order."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import ERROR, NOTE, WARNING
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.known import FAULTS, that_apply

CASES = [
    # id, a version and features that have it, a version and features that don't
    ("kv-layout", (0, 22), {"dflash"}, (0, 23), {"dflash"}),
    ("fp8-kv", (0, 21), {"dflash", "fp8-kv"}, (0, 21), {"dflash"}),
    ("prefix-caching", (0, 32), {"dflash", "prefix-caching"}, (0, 32), {"prefix-caching"}),
    ("acceptance-0.28", (0, 28), {"dflash"}, (0, 27), {"dflash"}),
    ("exit-code-0", None, {"unit-restarts-on-failure"}, None, set()),
    ("notify", (0, 32), {"unit-waits-for-notify"}, (0, 32), {"dflash"}),
    ("orphans", None, {"unit-spares-children"}, (0, 32), set()),
]


def test_every_fault_has_a_case():
    assert [fault.id for fault in FAULTS] == [case[0] for case in CASES]


@pytest.mark.parametrize(("id", "version", "features", "other", "lacking"), CASES, ids=[case[0] for case in CASES])
def test_where_it_applies(id, version, features, other, lacking):
    assert id in [fault.id for fault in that_apply(version, features)]
    assert id not in [fault.id for fault in that_apply(other, lacking)]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.id for fault in FAULTS])
def test_what_it_tells(fault):
    assert fault.severity in (ERROR, WARNING, NOTE)
    assert fault.symptom.endswith(".")
    assert fault.remedy.endswith(".")
    assert fault.source
    assert fault.first < fault.before or (fault.first, fault.before) == ((0, 0), (999, 0))
