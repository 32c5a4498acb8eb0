"""What a person reads: pages, their blocks of code, and what in them has to be true of the collection."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from ansible.module_utils import basic
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.loader import fragment_loader, module_loader
from ansible.utils.plugin_docs import get_docstring

CLONE = Path(__file__).parents[3]
PACKAGE = "ansible_collections.llmops.vllm.plugins"
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)((?:    .*\n|\n(?=    ))+)")


@dataclasses.dataclass(frozen=True)
class Block:
    """where: for the name of a test and for whoever has to mend it."""

    where: str
    language: str
    text: str


def pages() -> list[Path]:
    """Every page of the project that is written by hand."""
    found = [CLONE / "README.md", *CLONE.glob("docs/**/*.md"), *CLONE.glob("[a-z]*/**/README.md")]
    return sorted({page for page in found if not any(part.startswith(".") for part in page.relative_to(CLONE).parts)})


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    name = page.relative_to(CLONE)
    for match in FENCE.finditer(text):
        indent, language, code = match.groups()
        line = text[: match.start()].count("\n") + 1
        yield Block(f"{name}:{line}", language, re.sub(f"^{indent}", "", code, flags=re.MULTILINE))
    bare = FENCE.sub(lambda m: "\n" * m[0].count("\n"), text)
    for match in INDENTED.finditer(bare):
        line = bare[: match.start()].count("\n") + 1
        yield Block(f"{name}:{line}", "", re.sub("^    ", "", match[0], flags=re.MULTILINE))


class _Loader(yaml.SafeLoader):
    """Takes what Ansible adds to YAML, as text that is only known later."""


for _tag in ("!vault", "!unsafe"):
    _Loader.add_constructor(_tag, lambda loader, node: "{{ " + node.tag[1:] + " }}")


def load(text: str) -> list[Any]:
    return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]


def is_open(value: Any) -> bool:
    """Whether a value is only known later: a template, or a word that the reader puts his own in place of."""
    return isinstance(value, str) and ("{{" in value or re.search(r"<[^>]+>", value) is not None)


@functools.cache
def roles() -> dict[str, dict[str, Any]]:
    """By role, what each of its entry points is."""
    return {
        path.parents[1].name: yaml.safe_load(path.read_text())["argument_specs"]
        for path in sorted(CLONE.glob("roles/*/meta/argument_specs.yml"))
    }


@functools.cache
def variables() -> dict[str, dict[str, Any]]:
    """The variables that an inventory may set, with what each may be. Of those of a playbook that isn't known."""
    named = {name: {} for name in words("playbooks/**/*.yml")}
    return named | {
        name: spec for role in roles().values() for point in role.values() for name, spec in point["options"].items()
    }


@functools.cache
def words(pattern: str) -> set[str]:
    """All names of the collection's own kind that its files have."""
    return {word for path in CLONE.glob(pattern) for word in re.findall(r"\bvllm_[a-z0-9_]+\b", path.read_text())}


class _SeenError(Exception):
    pass


@functools.cache
def specification(module: str) -> dict[str, Any]:
    """What a module of ours hands to AnsibleModule, as it runs."""

    def seen(_self: Any, *args: Any, **named: Any) -> None:
        raise _SeenError({**({"argument_spec": args[0]} if args else {}), **named})

    with mock.patch.object(basic.AnsibleModule, "__init__", seen):
        try:
            importlib.import_module(f"{PACKAGE}.modules.{module}").main()
        except _SeenError as e:
            return e.args[0]
    raise AssertionError(f"{module} makes no AnsibleModule")


@functools.cache
def documented(module: str) -> frozenset[str]:
    """The options that the documentation of anybody's module has."""
    path = module_loader.find_plugin_with_context(module).plugin_resolved_path
    assert path, f"there is no module {module}"
    options = get_docstring(path, fragment_loader)[0].get("options") or {}
    return frozenset([*options, *(alias for option in options.values() for alias in option.get("aliases", ()))])


def faults_of_module(module: str, given: Mapping[str, Any]) -> list[str]:
    """What is wrong with a task of the collection's own module."""
    spec = dict(specification(module))
    options = spec.pop("argument_spec")
    rules = {
        name: spec[name]
        for name in ("mutually_exclusive", "required_together", "required_one_of", "required_if", "required_by")
        if name in spec
    }
    return _validate(options, given, **rules)


def faults_of_variable(name: str, value: Any) -> list[str]:
    spec = variables().get(name)
    if spec is None:
        return [f"there is no variable {name}"]
    return _validate({name: spec}, {name: value}) if spec else []


def _validate(options: Mapping[str, Any], given: Mapping[str, Any], **rules: Any) -> list[str]:
    filled = {name: _filled(value, options.get(name, {})) for name, value in given.items()}
    return list(ArgumentSpecValidator(dict(options), **rules).validate(filled).error_messages)


def _filled(value: Any, spec: Mapping[str, Any]) -> Any:
    """The value with something of the right type wherever it is only known later."""
    if is_open(value):
        kind = spec.get("type", "str")
        return (spec.get("choices") or [{"int": 1, "float": 1, "bool": True, "dict": {}, "list": []}.get(kind, "x")])[0]
    options = spec.get("options") or {}
    if isinstance(value, Mapping):
        return {name: _filled(part, options.get(name, {})) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, {"type": spec.get("elements", "str"), "options": options}) for part in value]
    return value
