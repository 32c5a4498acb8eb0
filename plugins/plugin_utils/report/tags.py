# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTML by functions: text is escaped because it is text, so that nobody has to think of it."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Union

VOID = ("meta",)


class Markup(str):
    """What is HTML already."""


Content = Union[str, None, Iterable["Content"]]


def markup(content: Content) -> Markup:
    """Text, markup, or any nest of them, as markup. None is nothing."""
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(html.escape(content))
    return Markup("".join(map(markup, content)))


def tag(name: str, /, *content: Content, **attributes: object) -> Markup:
    """An element. In the names of attributes `_` is a hyphen, and one at the end is dropped; an attribute that is None is left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{told}>" if name in VOID else f"<{name}{told}>{markup(content)}</{name}>")
