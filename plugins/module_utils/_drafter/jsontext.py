# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A JSON document changed as text: what isn't asked for keeps every byte, so a diff shows the mend and nothing else."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from json.decoder import scanstring
from typing import Any, Union

Path = tuple[Union[str, int], ...]

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class NoSuchPlaceError(Exception):
    """The path leads through something that holds no such key."""


@dataclasses.dataclass(frozen=True)
class _Member:
    """A key of an object, or an index of a list, with where its value stands. start: where its key begins."""

    name: str | int
    start: int
    value_start: int
    value_end: int


def set_value(text: str, path: Path, value: Any) -> str:
    """The document with one value replaced or added. A key that isn't there is added in the document's own style."""
    return _set(text, _skip(text, 0), path, value, depth=1)


def _set(text: str, at: int, path: Path, value: Any, depth: int) -> str:
    members = list(_members(text, at))
    # The last of two equal keys is the one that readers take.
    member = next((m for m in reversed(members) if m.name == path[0]), None)
    if member is None:
        for name in reversed(path[1:]):
            if isinstance(name, int):
                raise NoSuchPlaceError(".".join(map(str, path)))
            value = {name: value}
        return _insert(text, at, members, path[0], value, depth)
    if path[1:]:
        if text[member.value_start] in "{[":
            return _set(text, member.value_start, path[1:], value, depth + 1)
        raise NoSuchPlaceError(".".join(map(str, path)))
    old = text[member.value_start : member.value_end]
    inline = old[0] in "[{" and "\n" not in old and len(old) > 2
    new = _render(text, value, depth, inline)
    return text[: member.value_start] + new + text[member.value_end :]


def _insert(text: str, at: int, members: list[_Member], name: str | int, value: Any, depth: int) -> str:
    if isinstance(name, int) or text[at] != "{":
        raise NoSuchPlaceError(str(name))
    pad = _pad(text, depth)
    colon = ":" if _compact(text) else ": "
    new = json.dumps(name, ensure_ascii=text.isascii()) + colon + _render(text, value, depth, inline=False)
    if not members:
        closing = _skip(text, at + 1)
        return text[: at + 1] + pad + new + (_pad(text, depth - 1) if pad else "") + text[closing:]
    names = [str(m.name) for m in members]
    before = next((m for m in members if str(m.name) > str(name)), None) if names == sorted(names) else None
    gap = pad or ("" if _compact(text) else " ")
    if before is not None:
        return text[: before.start] + new + "," + gap + text[before.start :]
    return text[: members[-1].value_end] + "," + gap + new + text[members[-1].value_end :]


def _render(text: str, value: Any, depth: int, inline: bool) -> str:
    indent = None if inline else _indent(text)
    separators = (",", ":") if _compact(text) else (("," if indent else ", "), ": ")
    rendered = json.dumps(value, ensure_ascii=text.isascii(), indent=indent, separators=separators)
    return rendered.replace("\n", _pad(text, depth))


def _pad(text: str, depth: int) -> str:
    """What separates two members at a depth: a line break and the indentation, or nothing in a one-line document."""
    indent = _indent(text)
    return (("\r\n" if "\r\n" in text else "\n") + indent * depth) if indent else ""


def _indent(text: str) -> str | None:
    """The white space before the first key, if it stands on a line of its own."""
    match = re.match(r"\s*\{[ \t]*\r?\n([ \t]+)\"", text)
    return match.group(1) if match else None


def _compact(text: str) -> bool:
    return re.match(r'\s*\{\s*"(?:[^"\\]|\\.)*":\S', text) is not None


def _members(text: str, at: int) -> Iterator[_Member]:
    """The members of the object or list that opens at a position of a valid document."""
    is_object = text[at] == "{"
    at = _skip(text, at + 1)
    index = 0
    while text[at] not in "}]":
        start = at
        name: str | int = index
        if is_object:
            name, at = scanstring(text, at + 1)
            at = _skip(text, _skip(text, at) + 1)
        _value, end = _DECODER.raw_decode(text, at)
        yield _Member(name, start, at, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
