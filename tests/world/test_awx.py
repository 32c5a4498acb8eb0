"""What docs/awx holds: held against the documentation of awx.awx, built by ansible-builder, and complete.

There is no AWX here. What it would run is run by ansible-runner, in test_runner.py.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import zipfile
from typing import Any

import machine
import plays
import pytest
import yaml

AWX = machine.CLONE / "docs/awx"
HOLDS_AWX = "ansible==12.0.0"
"""The last but one release of the community's package with awx.awx in it."""
TYPES = {"str": str, "bool": bool, "int": int, "list": list, "dict": dict, "float": (int, float), "path": str}
SURVEY = {"text", "textarea", "password", "integer", "float", "multiplechoice", "multiselect"}


class Unsafe(yaml.SafeLoader):
    """YAML with Ansible's !unsafe."""


Unsafe.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))
PLAY = yaml.load((AWX / "configure.yml").read_text(), Unsafe)[0]
TASKS = {task["name"]: task for task in PLAY["tasks"]}


def module(task: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Its name without that of the collection, and what it gets, the defaults of the play included."""
    (name,) = [key for key in task if key.startswith("awx.awx.")]
    return name.removeprefix("awx.awx."), {**PLAY["module_defaults"].get(name, {}), **task[name]}


@pytest.fixture(scope="module")
def options():
    """The options of a module of awx.awx, as it documents them."""

    def documented(name: str) -> dict[str, Any]:
        root = "ansible_collections/awx/awx/plugins"
        with zipfile.ZipFile(machine.wheel(HOLDS_AWX)) as wheel:
            tree = ast.parse(wheel.read(f"{root}/modules/{name}.py"))
        (text,) = [
            node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and node.targets[0].id == "DOCUMENTATION"
        ]
        return yaml.safe_load(text)["options"]

    return documented


def faults(given: dict[str, Any], options: dict[str, Any], place: str = "") -> list[str]:
    found = [f"{place}{name} is missing" for name, it in options.items() if it.get("required") and name not in given]
    names = {alias: it for name, it in options.items() for alias in (name, *it.get("aliases", []))}
    for name, value in given.items():
        told = names.get(name)
        if told is None:
            found.append(f"{place}{name} is unknown")
        elif isinstance(value, str) and "{{" in value:
            continue
        elif not isinstance(value, TYPES[told.get("type", "str")]):
            found.append(f"{place}{name} is {value!r}")
        elif "choices" in told and value not in told["choices"]:
            found.append(f"{place}{name} is {value!r}, not of {told['choices']}")
        elif "suboptions" in told:
            for one in value if isinstance(value, list) else [value]:
                found += faults(one, told["suboptions"], f"{place}{name}.")
    return found


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_as_its_module_documents(name, options):
    kind, given = module(TASKS[name])
    assert faults(given, options(kind)) == []


def test_a_fault_would_be_found(options):
    wrong = {"name": "x", "job_type": "dry", "ask_limt_on_launch": True, "credentials": "one", "timeout": "6 h"}
    assert len(faults(wrong, options("job_template"))) == 4
    node = {"identifier": "a", "related": {"success_nodes": [{"identifer": "b"}]}}
    assert faults({"workflow_nodes": [node]}, options("workflow_job_template")) == [
        "name is missing",
        "workflow_nodes.related.success_nodes.identifer is unknown",
    ]


def test_surveys_ask_for_variables_that_there_are():
    from ansible_collections.llmops.vllm.plugins.plugin_utils import variables

    asked = {}
    for task in TASKS.values():
        kind, given = module(task)
        if kind == "job_template":
            assert given["survey_enabled"] is ("survey_spec" in given)
            for question in given.get("survey_spec", {}).get("spec", []):
                asked[question["variable"]] = question
    assert len(asked) == 4
    assert set(asked) <= variables.public()
    for question in asked.values():
        assert question["type"] in SURVEY
        assert {"question_name", "question_description", "required"} <= set(question)
        assert question["type"] != "multiplechoice" or question["default"] in question["choices"]


def test_the_workflow_leads_through_all_its_nodes():
    nodes = {node["identifier"]: node for node in module(TASKS["Chain them"])[1]["workflow_nodes"]}
    templates = {given["name"] for kind, given in map(module, TASKS.values()) if kind == "job_template"}
    reached, ahead = set(), ["dry run"]
    while ahead:
        name = ahead.pop()
        reached.add(name)
        ahead += [step["identifier"] for steps in nodes[name].get("related", {}).values() for step in steps]
    assert reached == set(nodes)
    jobs = [node["unified_job_template"] for node in nodes.values()]
    assert {job["name"] for job in jobs if job["type"] == "job_template"} <= templates


def test_templates_run_playbooks_that_there_are_and_a_rollout_is_never_sliced():
    given = {arguments["name"]: arguments for kind, arguments in map(module, TASKS.values()) if kind == "job_template"}
    for arguments in given.values():
        assert (AWX / "project" / arguments["playbook"]).exists()
        assert arguments["ask_limit_on_launch"] is True
    assert given["vLLM rollout"]["job_slice_count"] == 1
    assert "ask_job_slice_count_on_launch" not in given["vLLM rollout"]


@pytest.mark.parametrize("name", ["Go back", "Stop"])
def test_what_ends_servers_wants_its_hosts_named(name):
    """An empty limit would be all of them at once."""
    arguments = module(TASKS[name])[1]
    (question,) = arguments["survey_spec"]["spec"]
    assert arguments["survey_enabled"] is True
    assert (question["variable"], question["type"], question["required"]) == ("vllm_hosts", "text", True)
    assert "default" not in question


def test_the_project_has_a_thin_playbook_for_each_of_ours():
    wrappers = {file.stem: yaml.safe_load(file.read_text()) for file in (AWX / "project").glob("*.yml")}
    assert sorted(wrappers) == plays.PLAYBOOKS
    for name, content in wrappers.items():
        (only,) = content
        ours = yaml.safe_load((machine.CLONE / f"playbooks/{name}.yml").read_text())
        assert only == {"name": ours[-1]["name"], "ansible.builtin.import_playbook": f"llmops.vllm.{name}"}
    galaxy = yaml.safe_load((machine.CLONE / "galaxy.yml").read_text())
    (asked,) = yaml.safe_load((AWX / "project/collections/requirements.yml").read_text())["collections"]
    assert (asked["name"], asked["type"]) == (f"{galaxy['repository']}.git", "git")


def test_the_builder_makes_the_context_of_an_image(tarball, collections, tmp_path):
    """The image itself needs a registry. Its context holds the collection, and the builder finds what that says it needs."""
    for name in ("execution-environment.yml", tarball.name):
        shutil.copy(AWX / name if name.endswith(".yml") else tarball, tmp_path / name)
    bin = machine.venv("awx", machine.here(), ["requirements/awx.txt"])
    made = subprocess.run(
        [str(bin / "ansible-builder"), "create", "--output-filename", "Containerfile"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    containerfile = (tmp_path / "context/Containerfile").read_text()
    assert "ansible-galaxy collection install" in containerfile
    assert "ansible-core~=2.21.0" in containerfile
    wanted = yaml.safe_load((tmp_path / "context/_build/requirements.yml").read_text())
    (only,) = wanted["collections"]
    assert only["type"] == "file"
    assert (tmp_path / "context/_build" / only["name"]).read_bytes() == tarball.read_bytes()

    # What stands in the image later, as the builder looks at it there.
    command = [str(bin / "ansible-builder"), "introspect", str(collections)]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    told = yaml.safe_load(found)
    assert not told.get("python")
    lines = (machine.CLONE / "meta/bindep.txt").read_text().splitlines()
    assert [line.split("  #")[0].strip() for line in told["system"]] == [
        line for line in lines if not line.startswith("#")
    ]
