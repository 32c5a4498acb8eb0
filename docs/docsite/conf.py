"""How Sphinx makes the site of the guides in docs/ and of the reference that antsibull-docs writes. `make docs` runs it."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes

CLONE = Path(__file__).parents[2]
REPOSITORY = "https://github.com/llmops/ansible-collection-vllm/blob/main"
ANSIBLE = "https://docs.ansible.com/projects/ansible/latest"
LABELS = {
    "action_plugins": "plugins/action",
    "ansible_configuration_settings": "reference_appendices/config",
    "callback_plugins": "plugins/callback",
    "common_return_values": "reference_appendices/common_return_values",
}
"""What antsibull-docs refers to besides plugins."""

project = "llmops.vllm"
copyright = "the llmops.vllm authors"
html_title = project
extensions = ["myst_parser", "sphinx_antsibull_ext"]
myst_heading_anchors = 3
html_theme = "furo"
html_theme_options = {"source_repository": "https://github.com/llmops/ansible-collection-vllm"}
html_show_sphinx = False
html_copy_source = False
html_use_index = False
# For pictures that a page names in HTML, one for light and one for dark.
html_extra_path = [str(picture) for picture in sorted(CLONE.glob("docs/*.png"))]
html_static_path = [str(CLONE / "docs/docsite/site.css")]
html_css_files = ["site.css"]
pygments_style = "ansible"
pygments_dark_style = "github-dark"
highlight_language = "none"


def contents(text: str) -> str:
    """The tables of contents, out of the page that lists the guides, which is the first page here."""
    parts = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        entries = re.findall(r"^- \[[^]]*\]\(([a-z-]+)\.md\)", section, flags=re.MULTILINE)
        parts.append((section.splitlines()[0], entries))
    parts.append(("Reference", ["Modules, filters, roles <reference/index>", "Changelog <changelog>"]))
    return "".join(
        "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(entries) + "\n```\n"
        for caption, entries in parts
    )


def guide(name: str, text: str) -> str:
    """A page of docs/."""
    text = re.sub(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)", lambda match: f"]({place(match[1])}{match[2] or ''})", text)
    return text + contents(text) if name == "index" else text


def place(link: str) -> str:
    """Where a link from a page of docs/ leads: to a page here, or into the repository."""
    if re.fullmatch(r"[\w-]+\.(?:md|png)", link):
        return link.replace("README", "index")
    return f"{REPOSITORY}/{posixpath.normpath(f'docs/{link}')}"


def reference(text: str) -> str:
    """A page of antsibull-docs, with short names at the side, and without the contents that the theme shows anyway."""
    text = re.sub(r"^\.\. contents::\n(?:   .*\n)*", "", text, flags=re.MULTILINE)
    return re.sub(r"^    ((\w+)_(?:module|filter|callback|role))$", r"    \2 <\1>", text, flags=re.MULTILINE)


def read(_app: Any, name: str, source: list[str]) -> None:
    source[0] = reference(source[0]) if name.startswith("reference/") else guide(name, source[0])


def elsewhere(_app: Any, _env: Any, node: nodes.Element, shown: nodes.Element) -> nodes.reference | None:
    """Ansible's own pages, by the addresses that they have, so that the site is made without a network."""
    target = node.get("reftarget", "")
    match = re.fullmatch(r"ansible_collections\.ansible\.builtin\.(\w+?)(?:__.*)?", target)
    page = f"collections/ansible/builtin/{match[1]}" if match else LABELS.get(target)
    return nodes.reference("", "", shown, refuri=f"{ANSIBLE}/{page}.html") if page else None


def setup(app: Any) -> None:
    app.connect("source-read", read)
    app.connect("missing-reference", elsewhere)
