"""A model is found where the server finds it: at a path, or in the cache of the hub's client."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor.hub import directory

SHA = "0123456789abcdef0123456789abcdef01234567"


def model(path: Path) -> str:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    return str(path)


def cached(cache: Path) -> str:
    place = cache / "models--org--draft"
    (place / "refs").mkdir(parents=True)
    (place / "refs/main").write_text(SHA)
    return model(place / "snapshots" / SHA)


def test_a_path_is_taken_from_where_the_server_runs(tmp_path):
    path = model(tmp_path / "models/draft")
    assert directory(path, "", {}, "/") == path
    assert directory("models/draft", "", {}, str(tmp_path)) == path
    assert directory("~/models/draft", "", {"HOME": str(tmp_path)}, "/") == path
    assert directory("/nowhere", "", {}, "/") == ""


@pytest.mark.parametrize(
    ("variable", "below"),
    [
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
        ("HOME", ".cache/huggingface/hub"),
    ],
)
def test_a_name_is_looked_up_in_the_cache_that_its_environment_names(tmp_path, variable, below):
    path = cached(tmp_path / below)
    environment = {"HOME": "/nowhere", variable: str(tmp_path)}
    assert directory("org/draft", "", environment, "/") == path
    assert directory("org/draft", SHA, environment, "/") == path
    assert directory("org/draft", "v2", environment, "/") == ""
    assert directory("org/other", "", environment, "/") == ""
