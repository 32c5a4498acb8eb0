# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A JSON document changed as text: what isn't asked for keeps every byte, so a diff shows the mend and nothing else."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any, Union

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError

Path = tuple[Union[str, int], ...]

_DEEPEST, _LONGEST = 50, 10**100
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class NoSuchPlaceError(RefusedError):
    """A path leads through something that has no such key or index."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{'.'.join(map(str, path))} leads through a value that is no section of the config")


@dataclasses.dataclass(frozen=True)
class _Member:
    """A key of an object or an index of a list. start: where its key begins; value and end: where its value stands."""

    name: str | int
    start: int
    value: int
    end: int


def unusable(value: Any, depth: int = 0) -> str:
    """Why a value that JSON can hold is none that a config holds, or that can be told of; empty if it is one."""
    if isinstance(value, str):
        return "it has half a character (a lone surrogate)" if re.search("[\ud800-\udfff]", value) else ""
    if isinstance(value, int):
        return "it has a whole number of over 100 digits" if abs(value) >= _LONGEST else ""
    if not isinstance(value, (dict, list)):
        return ""
    if depth == _DEEPEST:
        return f"it is nested over {_DEEPEST} deep"
    inner = (*value, *value.values()) if isinstance(value, dict) else value
    return next(filter(None, (unusable(item, depth + 1) for item in inner)), "")


def set_value(text: str, path: Path, value: Any) -> str:
    """The document with one value replaced, or added in the document's own style after its alphabetical predecessor."""
    at = _skip(text, 0)
    for depth, name in enumerate(path, 1):
        members = list(_members(text, at))
        # The last of two equal keys is the one that readers take.
        member = next((m for m in reversed(members) if m.name == name), None)
        rest = path[depth:]
        if member is None:
            return _insert(text, at, members, path, depth, value)
        if not rest or text.startswith("null", member.value):
            return _replace(text, member, _nested(rest, value, path), depth)
        if text[member.value] not in "{[":
            raise NoSuchPlaceError(path)
        at = member.value
    raise NoSuchPlaceError(path)


def _replace(text: str, member: _Member, value: Any, depth: int) -> str:
    old = text[member.value : member.end]
    on_one_line = old[0] in "[{" and "\n" not in old and len(old) > 2
    return text[: member.value] + _render(text, value, depth, on_one_line) + text[member.end :]


def _insert(text: str, at: int, members: list[_Member], path: Path, depth: int, value: Any) -> str:
    name = path[depth - 1]
    if isinstance(name, int) or text[at] != "{":
        raise NoSuchPlaceError(path)
    separator = ":" if _compact(text) else ": "
    new = json.dumps(name, ensure_ascii=text.isascii()) + separator
    new += _render(text, _nested(path[depth:], value, path), depth, on_one_line=False)
    line_break = _line_break(text, depth)
    if not members:
        end = _line_break(text, depth - 1) if line_break else ""
        return text[: at + 1] + line_break + new + end + text[_skip(text, at + 1) :]
    gap = line_break or ("" if _compact(text) else " ")
    before = [m for m in members if str(m.name) < name]
    if not before:
        return text[: members[0].start] + new + "," + gap + text[members[0].start :]
    end_of_last = max(before, key=lambda m: (str(m.name), m.start)).end
    return text[:end_of_last] + "," + gap + new + text[end_of_last:]


def _nested(names: Path, value: Any, path: Path) -> Any:
    for name in reversed(names):
        if isinstance(name, int):
            raise NoSuchPlaceError(path)
        value = {name: value}
    return value


def _render(text: str, value: Any, depth: int, on_one_line: bool) -> str:
    indent = "" if on_one_line else _indent(text)
    separators = (",", ":") if _compact(text) else (",", ": ") if indent else (", ", ": ")
    rendered = json.dumps(value, ensure_ascii=text.isascii(), indent=indent or None, separators=separators)
    return rendered.replace("\n", _line_break(text, depth))


def _line_break(text: str, depth: int) -> str:
    """What stands between two members at a depth; nothing in a document of one line."""
    indent = _indent(text)
    return ("\r\n" if "\r\n" in text else "\n") + indent * depth if indent else ""


def _indent(text: str) -> str:
    """The white space before the first key, if that stands on a line of its own."""
    match = re.match(r"\s*\{[ \t]*\r?\n([ \t]+)\"", text)
    return match.group(1) if match else ""


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
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _value, end = _DECODER.raw_decode(text, at)
        yield _Member(name, start, at, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
