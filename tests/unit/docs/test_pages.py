"""What the pages say is so: parts made of data, links, names of variables, and commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from ansible.cli.adhoc import AdHocCLI
from ansible.cli.doc import DocCLI
from ansible.cli.playbook import PlaybookCLI

from ansible_collections.llmops.vllm.tests import tested
from ansible_collections.llmops.vllm.tests.unit.docs import documents, rendered
from ansible_collections.llmops.vllm.tests.unit.docs.documents import CLONE, Block

PAGES = documents.pages()
HANDBOOK = sorted(set(CLONE.glob("docs/*.md")) - {CLONE / "docs/README.md"})
MADE = rendered.pages()
SHELL = [block for page in PAGES for block in documents.blocks(page) if block.language in ("", "sh", "bash", "console")]
COMMANDS = {"ansible": AdHocCLI, "ansible-playbook": PlaybookCLI, "ansible-doc": DocCLI}
OTHERS = (
    "ansible-galaxy", "ansible-vault", "apt-get", "cd", "curl", "export", "git", "mkdir", "pip", "python3", "ssh", "#",
)  # fmt: skip
"""Whose arguments nobody here judges."""


def name(page: Path) -> str:
    return str(page.relative_to(CLONE))


@pytest.mark.parametrize("page", MADE, ids=name)
def test_parts_made_of_data_are_as_the_data(page):
    assert page.read_text() == MADE[page], "write it anew: make pages"


def test_every_test_that_is_told_of_is_there():
    assert [test for test in tested.read() if not tested.is_there(test)] == []
    assert [place for never in tested.NEVER for place in never.where if not (CLONE / place).exists()] == []


def test_what_was_never_run_was_not():
    machines = {told["machine"] for told in tested.read().values()}
    assert [n.what for n in tested.NEVER for machine in machines if n.sign and n.sign in machine] == []


def test_the_record_knows_what_tests_there_are():
    here = "tests/unit/docs/test_pages.py"
    assert tested.is_there(f"{here}::test_the_record_knows_what_tests_there_are")
    assert tested.is_there(f"{here}::test_links_lead_somewhere[README.md]")
    assert not tested.is_there(f"{here}::test_that_nobody_wrote")
    assert not tested.is_there("tests/unit/docs/test_gone.py::test_x")


def test_every_guide_is_in_the_table_of_contents():
    contents = re.findall(r"\]\(([a-z-]+\.md)\)", (CLONE / "docs/README.md").read_text())
    assert sorted(contents) == [page.name for page in HANDBOOK]


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = documents.FENCE.sub("", page.read_text())
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = documents.FENCE.sub("", page.read_text())
    text = re.sub(r"`[^`\n]*`", "", text)
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", text)
    for link in ("".join(link) for link in links):
        if re.match(r"[a-z]+:", link):
            continue
        to, _unused, anchor = link.partition("#")
        target = (page.parent / to).resolve() if to else page
        assert target.exists(), link
        assert not anchor or anchor in slugs(target), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_names_are_known(page):
    """Variables, roles, modules, facts: whatever in a page is named like something of ours is in the code."""
    said = {
        word
        for code in re.findall(r"`([^`\n]+)`", page.read_text()) + [block.text for block in documents.blocks(page)]
        for word in re.findall(r"(?<![\w/.-])vllm_[a-z0-9_]+\b(?![\w-])", code)
    }
    known = {
        *documents.variables(),
        *documents.words("roles/**/*.yml"),
        *documents.words("plugins/**/*.py"),
        *(path.stem for kind in ("modules", "filter") for path in CLONE.glob(f"plugins/{kind}/*.py")),
        *documents.roles(),
    }
    assert said <= known


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.where)
def test_commands_can_be_given(block):
    assert [fault for command in commands(block) for fault in faults(command)] == []


def commands(block: Block) -> list[str]:
    """What one would type. A block without a language is one of commands if it begins with one."""
    lines = block.text.replace("\\\n", " ").splitlines()
    first = next((line.split()[0] for line in lines if line.strip()), "")
    if not block.language and first not in (*COMMANDS, "make"):
        return []
    return [line.removeprefix("$ ") for line in lines if line.strip() and not line.startswith((" ", "#"))]


def faults(command: str) -> list[str]:
    words = shlex.split(command, comments=True)
    while words and (re.match(r"[A-Z_]+=", words[0]) or words[0] == "sudo"):
        words.pop(0)
    if not words or words[0] in OTHERS:
        return []
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (CLONE / "Makefile").read_text(), re.MULTILINE)
        return [f"make has no {word}" for word in words[1:] if "=" not in word and word not in targets]
    if words[0] not in COMMANDS:
        return [f"{words[0]} is no command that is known here"]
    cli = COMMANDS[words[0]](words)
    cli.init_parser()
    try:
        given = cli.parser.parse_args(words[1:])
    except SystemExit:
        return [f"{words[0]} does not take that: {command}"]
    found = []
    if words[0] == "ansible-playbook":
        for playbook in given.args:
            path = re.sub(r"^llmops\.vllm\.(\w+)$", r"playbooks/\1.yml", playbook)
            if path.startswith("playbooks/") and not (CLONE / path).exists():
                found.append(f"there is no playbook {playbook}")
        for variables in given.extra_vars:
            for assigned, value in re.findall(r"(vllm_\w+)=(\S+)", variables):
                found += documents.faults_of_variable(assigned, value)
    for inventory in getattr(given, "inventory", None) or []:
        if inventory.startswith("inventories/") and not (CLONE / inventory).exists():
            found.append(f"there is no inventory {inventory}")
    return found


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("make everything", "everything"),
        ("ansible-playbook playbooks/deploy.yml", "deploy"),
        ("ansible-playbook llmops.vllm.deploy", "deploy"),
        ("ansible-playbook llmops.vllm.site --batch 2", "does not take that"),
        ("ansible-playbook llmops.vllm.site -e vllm_serve_prot=1", "vllm_serve_prot"),
        ("ansible-playbook llmops.vllm.site -e vllm_serve_port=a", "int"),
        ("ansible-playbook -i inventories/none llmops.vllm.site", "none"),
        ("vllm-deploy all", "vllm-deploy"),
    ],
)
def test_a_wrong_command_is_found(command, fault):
    assert len(faults(command)) == 1 and fault in faults(command)[0]
