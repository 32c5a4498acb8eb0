# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the target says that its drafter must agree with: its layers, its sizes, its special tokens."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import is_int
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.jsontext import unusable
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError

_INNER = ("text_config", "llm_config", "language_config", "thinker_config")
_ROLES = ("pad", "eos", "bos")
_LIMIT, _TOKENS = 64 * 1024 * 1024, 8 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Token:
    """name: what it is, in words."""

    id: int
    name: str
    evidence: str


@dataclasses.dataclass(frozen=True)
class Target:
    """special: the tokens that mean something else than "to be predicted". mask: the one that is named the mask."""

    config: str
    num_hidden_layers: int | None
    hidden_size: int | None
    vocab_size: int | None
    special: dict[int, Token]
    mask: Token | None
    tokens: dict[str, int]


def read_target(directory: str) -> Target:
    path = os.path.join(directory, "config.json")
    config = _json(path)
    if config is None:
        raise RefusedError(f"{directory} is no target: it has no config.json")
    text = _language_model(config)
    path_of_tokenizer = os.path.join(directory, "tokenizer_config.json")
    tokenizer = _json(path_of_tokenizer) or {}
    tokens = _added_tokens(tokenizer, os.path.join(directory, "tokenizer.json"))
    generation = os.path.join(directory, "generation_config.json")
    special: dict[int, Token] = {}
    for place, file in ((config, path), (text, path), (_json(generation) or {}, generation)):
        for number, role in special_ids(place):
            special.setdefault(number, Token(number, f"{role} token", f"{file}: {role}_token_id"))
    for role in _ROLES:
        word = _word(tokenizer.get(f"{role}_token"))
        if word in tokens:
            token = Token(tokens[word], f"{role} token {word}", f"{path_of_tokenizer}: {role}_token")
            special.setdefault(token.id, token)
    mask = _word(tokenizer.get("mask_token"))
    return Target(
        path,
        _positive(text.get("num_hidden_layers")),
        _positive(text.get("hidden_size")),
        _positive(text.get("vocab_size", config.get("vocab_size"))),
        special,
        Token(tokens[mask], mask, f"{path_of_tokenizer}: mask_token {mask}") if mask in tokens else None,
        tokens,
    )


def _language_model(config: dict[str, Any]) -> dict[str, Any]:
    """The language model's own section, in a model that sees or hears as well."""
    inner = (config[name] for name in _INNER if isinstance(config.get(name), dict))
    section = next(inner, None)
    return config if section is None else _language_model(section)


def special_ids(config: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for role in _ROLES:
        ids = config.get(f"{role}_token_id")
        for number in ids if isinstance(ids, list) else [ids]:
            if isinstance(number, int) and is_int(number):
                yield number, role


def _added_tokens(tokenizer: dict[str, Any], path: str) -> dict[str, int]:
    listed = tokenizer.get("added_tokens_decoder")
    entries = listed.items() if isinstance(listed, dict) else ()
    found = {_word(entry): int(number) for number, entry in entries if number.isascii() and number.isdigit()}
    for entry in () if found else _added_of(path):
        if isinstance(entry, dict) and is_int(entry.get("id")):
            found[_word(entry)] = entry["id"]
    found.pop("", None)
    return found


def _added_of(path: str) -> list[Any]:
    """The added tokens of a tokenizer.json. They stand before the vocabulary, whose megabytes nobody needs here."""
    text = (_bytes(path, _TOKENS) or b"").decode("utf-8", "ignore")
    named = text.find('"added_tokens"')
    try:
        listed, _end = json.JSONDecoder().raw_decode(text, text.index("[", named)) if named >= 0 else ([], 0)
    except (ValueError, RecursionError):
        raise RefusedError(f"{path} has no readable list of added_tokens") from None
    return list(listed)


def _word(entry: Any) -> str:
    word = entry.get("content") if isinstance(entry, dict) else entry
    return word if isinstance(word, str) else ""


def _positive(value: Any) -> int | None:
    return value if is_int(value) and value > 0 else None


def _bytes(path: str, limit: int) -> bytes | None:
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise RefusedError(f"{path} is no regular file")
        with open(path, "rb") as f:
            return f.read(limit)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise RefusedError(f"{path} can't be read: {e.strerror}") from None


def _json(path: str) -> dict[str, Any] | None:
    raw = _bytes(path, _LIMIT)
    if raw is None:
        return None
    try:
        found = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        raise RefusedError(f"{path} is no JSON, or cut short. Fetch it again") from None
    if not isinstance(found, dict):
        raise RefusedError(f"{path} is no JSON object")
    if unusable(found):
        raise RefusedError(f"{path} is no usable JSON: {unusable(found)}")
    return found
