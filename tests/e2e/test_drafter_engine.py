"""What the drafter modules say of the loader, against the transformers and the vLLM of the build that will load it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import effective, formats, loading

pytestmark = pytest.mark.engine
CLONE = Path(__file__).parents[2]
TABLES = CLONE / "tests/unit/drafter"


@pytest.fixture(scope="module")
def python(site):
    """The Python of the demo's build, which the first run of site.yml makes."""
    found = sorted((CLONE / ".demo/vllm/builds").glob("*/venv/bin/python"))
    if not found:
        assert site.play("site").code == 0
        found = sorted((CLONE / ".demo/vllm/builds").glob("*/venv/bin/python"))
    return str(found[-1])


@pytest.fixture
def measuring(monkeypatch):
    """The table of files and what was measured of them, from beside the unit tests."""
    monkeypatch.syspath_prepend(str(TABLES))
    import effective_measured
    import measure_effective

    yield measure_effective, effective_measured.MEASURED
    for name in ("effective_measured", "measure_effective"):
        sys.modules.pop(name)


def test_the_table_is_what_this_engine_measures(python):
    done = subprocess.run([python, TABLES / "measure_effective.py"], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[1:] == (TABLES / "effective_measured.py").read_text().splitlines()[1:], done.stderr


@pytest.mark.parametrize("row", [4, 13])
def test_asking_this_engine_gives_what_is_predicted(python, measuring, row):
    rows, measured = measuring
    kind, changes, _values = measured[row]
    config = rows.complete(kind, changes)
    answer, predicted = loading.ask(python, config), effective.predict(config, formats.ZLAB_LEGACY)

    assert bool(answer.refusal) == bool(predicted.refusal)
    assert answer.refusal or answer.values == predicted.values
