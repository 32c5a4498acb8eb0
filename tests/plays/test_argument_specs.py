"""A role's specification only validates: what it promises as a default has to stand in defaults/ too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROLES = sorted((Path(__file__).parents[2] / "roles").iterdir())


def load(path):
    return yaml.safe_load(path.read_text()) if path.exists() else {}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_and_specification_have_the_same_keys(role):
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    options = {name: option for spec in specs.values() for name, option in spec["options"].items()}
    defaults = load(role / "defaults/main.yml")
    assert set(defaults) == set(options)
    assert {name: option["default"] for name, option in options.items() if "default" in option} == {
        name: defaults[name] for name, option in options.items() if "default" in option
    }


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_entry_point_has_its_tasks(role):
    if role.name == "vllm":  # variables only
        return
    for entry_point in load(role / "meta/argument_specs.yml")["argument_specs"]:
        assert (role / "tasks" / f"{entry_point}.yml").exists()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_option_is_used(role):
    if role.name == "vllm":
        return
    used = "".join(f.read_text() for d in ("tasks", "vars", "templates") for f in role.glob(f"{d}/*"))
    used += (role / "defaults/main.yml").read_text()
    # In defaults once as a key, so that must not count.
    assert [name for name in load(role / "defaults/main.yml") if not re.search(rf"\b{name}\b(?!:)", used)] == []
