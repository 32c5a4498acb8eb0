"""Every example that a person can read is valid: in the modules, the filters, the roles, and on the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import ansible.template
import jinja2
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.mod_args import ModuleArgsParser
from ansible.playbook.block import Block as AnsibleBlock
from ansible.playbook.play import Play
from ansible.playbook.task import Task
from ansible.plugins.loader import fragment_loader
from ansible.utils.plugin_docs import get_docstring

from ansible_collections.llmops.vllm.tests.unit.docs import documents
from ansible_collections.llmops.vllm.tests.unit.docs.documents import CLONE, Block

OURS = "llmops.vllm."
# From ansible-core 2.19 on only what is trusted is taken for a template.
trusted = getattr(ansible.template, "trust_as_template", str)
MODULES = sorted(path.stem for path in CLONE.glob("plugins/modules/*.py"))
FILTERS = sorted(path.stem for path in CLONE.glob("plugins/filter/*.py"))
PLAYBOOKS = sorted(path.stem for path in CLONE.glob("playbooks/*.yml"))


def of_plugin(kind: str, name: str) -> Block:
    path = CLONE / f"plugins/{kind}/{name}.py"
    examples = get_docstring(str(path), fragment_loader)[1]
    return Block(str(path.relative_to(CLONE)), "yaml", examples or "")


def of_roles() -> Iterator[Block]:
    for role, points in documents.roles().items():
        for point, spec in points.items():
            yield Block(f"roles/{role} {point}", "yaml", spec.get("examples", ""))


PLUGINS = [of_plugin("modules", name) for name in MODULES] + [of_plugin("filter", name) for name in FILTERS]
ROLES = list(of_roles())
ON_PAGES = [
    block for page in documents.pages() for block in documents.blocks(page) if block.language in ("yaml", "yml")
]


def named(block: Block) -> str:
    return block.where


@pytest.mark.parametrize("block", PLUGINS + ROLES, ids=named)
def test_there_is_an_example(block):
    assert documents.load(block.text)


@pytest.mark.parametrize("block", PLUGINS + ROLES + ON_PAGES, ids=named)
def test_examples_are_valid(block):
    assert [fault for document in documents.load(block.text) for fault in faults(document)] == []


@pytest.mark.parametrize("block", PLUGINS + ROLES + ON_PAGES, ids=named)
def test_filters_exist_and_templates_parse(block):
    for text in templates(documents.load(block.text)):
        jinja2.Environment().parse(text)
        assert set(re.findall(rf"\b{re.escape(OURS)}(\w+)", text)) <= set(FILTERS)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_gives_what_its_example_says(name):
    """An example that needs no variables may say its result in a comment below."""
    text = of_plugin("filter", name).text
    for expression, said in re.findall(r'msg: "(\{\{.*\}\})"\n +# (.*)', text):
        if not list(jinja2.Environment().parse(expression).find_all(jinja2.nodes.Name)):
            result = ansible.template.Templar(loader=DataLoader()).template(trusted(expression))
            assert result == yaml.safe_load(said)


def templates(value: Any) -> Iterator[str]:
    if isinstance(value, str) and "{{" in value:
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from templates(part)
    elif isinstance(value, list):
        for part in value:
            yield from templates(part)


def faults(document: Any) -> Iterator[str]:
    """What is wrong with a list of plays or tasks, or with a file of variables."""
    yield from _variables(document)
    if not isinstance(document, list):
        return
    for item in document:
        assert isinstance(item, Mapping), f"{item!r} is no play and no task"
        imported = item.get("ansible.builtin.import_playbook")
        if imported:
            yield from _unless(
                imported.removeprefix(OURS) in PLAYBOOKS or "{{" in imported, f"there is no playbook {imported}"
            )
        elif "hosts" in item:
            yield from _keywords(item, Play, "play")
            for role in item.get("roles", []):
                yield from _role(role if isinstance(role, str) else role.get("role", role.get("name")))
            for part in ("pre_tasks", "tasks", "post_tasks", "handlers"):
                yield from faults(item.get(part, []))
        elif "block" in item:
            yield from _keywords(item, AnsibleBlock, "block")
            for part in ("block", "rescue", "always"):
                yield from faults(item.get(part, []))
        elif "name" in item:
            yield from _task(item)


def _task(task: Mapping[str, Any]) -> Iterator[str]:
    action, args, _host = ModuleArgsParser(dict(task)).parse()
    rest = {name: value for name, value in task.items() if name not in (action, "action")}
    yield from _keywords(rest, Task, f"task of {action}")
    if action in ("ansible.builtin.include_role", "ansible.builtin.import_role"):
        yield from _role(args["name"], args.get("tasks_from", "main"))
    if action.startswith(OURS):
        yield from documents.faults_of_module(action.removeprefix(OURS), args)
    elif action not in ("ansible.builtin.set_fact",):
        unknown = set(args) - documents.documented(action)
        yield from _unless(not unknown, f"{action} has no {unknown}")


def _keywords(item: Mapping[str, Any], kind: Any, what: str) -> Iterator[str]:
    unknown = {name for name in item if name not in kind.fattributes and not name.startswith("with_")}
    yield from _unless(not unknown, f"a {what} has no {unknown}")


def _role(name: str, point: str = "main") -> Iterator[str]:
    known = documents.roles().get(name.removeprefix(OURS), {})
    yield from _unless(not name.startswith(OURS) or point in known, f"there is no role {name} with {point}")


def _variables(value: Any) -> Iterator[str]:
    """Whatever is named like a variable of ours is one, wherever it stands, but for what a task registers."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if isinstance(name, str) and name.startswith("vllm_"):
                yield from documents.faults_of_variable(name, part)
            else:
                yield from _variables(part)
    elif isinstance(value, list):
        for part in value:
            yield from _variables(part)


def _unless(right: bool, fault: str) -> Iterator[str]:
    if not right:
        yield fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("vllm_serve_prot: 8000", "there is no variable vllm_serve_prot"),
        ("all: {vars: {vllm_serve_port: no-number}}", "cannot be converted to an int"),
        ("- {name: x, llmops.vllm.hf_prune: {home: /opt/vllm, old: 1}}", "old"),
        ("- {name: x, llmops.vllm.hf_prune: {older: 1}}", "home"),
        ("- {name: x, llmops.vllm.log_wait: {path: /x, profile: other}}", "profile"),
        ("- {name: x, llmops.vllm.hf_prune: {home: /x}, when_: y}", "when_"),
        ("- {name: x, ansible.builtin.copy: {destination: /x}}", "destination"),
        ("- {hosts: all, roles: [llmops.vllm.vllm_server]}", "vllm_server"),
        ("- {name: x, ansible.builtin.include_role: {name: llmops.vllm.vllm_serve, tasks_from: begin}}", "begin"),
        ("- {name: x, ansible.builtin.import_playbook: llmops.vllm.deploy}", "deploy"),
    ],
)
def test_a_wrong_example_is_found(text, fault):
    told = [said for document in documents.load(text) for said in faults(document)]
    assert len(told) == 1 and fault in told[0]
