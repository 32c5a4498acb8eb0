# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be shown of a server's arguments and variables: a secret is known by its name, however it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import cmdline
from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import MASK, mask

# Not a tokenizer, nor tokens that are counted, nor the place of one in a vocabulary or among files.
SECRET = re.compile(
    r"(?i)secret|passw(?:or)?d|passphrase|credential|(?:api|access|private|auth)_?(?:key|token)s"
    r"|(?:key|(?P<token>token))(?![a-z])(?!_(?:ids?|index|path|file)(?![a-z]))"
)
NO_SECRET = re.compile(r"(?i)(?:none|null|true|false|0|1|)$")
NO_TOKEN = re.compile(r"<|\[")
ASSIGNED = re.compile(r"(?<!\S)(\w+)=(?!['\"])(\S+)")
TEMPLATE = ("{{", "{%", "{#")
"""What Ansible would carry out where it reads variables, and whoever may start a process may have written."""
VOCABULARY = 10**6
"""What is named a token and is a lower number, is one of a model's."""


def shown(name: str, value: Any) -> Any:
    """A value without its secrets, whatever it is made of; all of it is one if its name says so."""
    if _is_secret(name, value):
        return MASK
    if isinstance(value, Mapping):
        return {_plain(key) if isinstance(key, str) else key: shown(str(key), one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(name, one) for one in value]
    return text(value) if isinstance(value, str) else value


def text(words: str) -> str:
    """JSON by its keys, variables by their names, and all else by its looks."""
    value = cmdline.read(words)
    if isinstance(value, (dict, list)):
        hidden = shown("", value)
        words = words if hidden == value else json.dumps(hidden)
    return _plain(mask(ASSIGNED.sub(lambda one: f"{one[1]}={MASK}" if _is_secret(one[1], one[2]) else one[0], words)))


def _plain(words: str) -> str:
    """Bytes that are no text are written out, as Ansible refuses all that comes along with them."""
    return words.encode("utf-8", "backslashreplace").decode()


def arguments(argv: Iterable[str]) -> list[str]:
    """A secret may be a word of its own, after the flag that it belongs to."""
    told, flag = [], ""
    for word in argv:
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            told.append(shown(flag, word))
            continue
        flag = name.lstrip("-") if "." in name else cmdline.long_name(name)
        told.append(f"{_plain(name)}={shown(flag, value)}" if equals else text(word))
    return told


def having(value: Any, marks: Sequence[str], name: str = "") -> Iterator[str]:
    """The dotted names of what has such a mark in a value."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from having(one, marks, f"{name}.{key}" if name else str(key))
    elif _has(value, marks):
        yield name


def without(value: Any, marks: Sequence[str]) -> Any:
    """A dictionary without what has such a mark in it, and without what is empty then."""
    if not isinstance(value, Mapping):
        return value
    kept = {key: without(one, marks) for key, one in value.items() if isinstance(one, Mapping) or not _has(one, marks)}
    return {key: one for key, one in kept.items() if one != {} or value[key] == {}}


def _has(value: Any, marks: Sequence[str]) -> bool:
    return any(mark in str(value) for mark in marks)


def _is_secret(name: str, value: Any) -> bool:
    match = SECRET.search(re.sub(r"([a-z])([A-Z])", r"\1_\2", name).replace("-", "_"))
    if not match or value is None or isinstance(value, bool) or (isinstance(value, str) and NO_SECRET.match(value)):
        return False
    if not match["token"]:
        return True
    return not NO_TOKEN.match(value) if isinstance(value, str) else not (isinstance(value, int) and value < VOCABULARY)
