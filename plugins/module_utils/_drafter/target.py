# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the target says that its drafter must agree with: its layers, its sizes, and its special tokens."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import is_int

_INNER = ("text_config", "llm_config", "language_config", "thinker_config")
_LIMIT = 64 * 1024 * 1024


class UnreadableTargetError(Exception):
    """The target's config can't be read; the message is one line that names the file and the cause."""


@dataclasses.dataclass(frozen=True)
class Token:
    id: int
    word: str
    evidence: str


@dataclasses.dataclass(frozen=True)
class Target:
    """special: the tokens that mean something else than "to be predicted", by id. mask: the one named a mask."""

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
        raise UnreadableTargetError(f"{directory} is no model: it has no config.json")
    text = _text_config(config)
    tokenizer = _json(os.path.join(directory, "tokenizer_config.json")) or {}
    tokens = _added_tokens(directory, tokenizer)
    special: dict[int, Token] = {}
    generation = os.path.join(directory, "generation_config.json")
    for place, where in ((config, path), (text, path), (_json(generation) or {}, generation)):
        for role in ("pad", "eos", "bos"):
            ids = place.get(f"{role}_token_id")
            for number in ids if isinstance(ids, list) else [ids]:
                if is_int(number):
                    special.setdefault(number, Token(number, f"{role} token", f"{where}: {role}_token_id"))
    for role in ("pad", "eos", "bos"):
        word = _word(tokenizer.get(f"{role}_token"))
        if word in tokens:
            special.setdefault(
                tokens[word], Token(tokens[word], f"{role} token {word}", f"{directory}/tokenizer_config.json")
            )
    mask = _word(tokenizer.get("mask_token"))
    return Target(
        path,
        _int(text.get("num_hidden_layers")),
        _int(text.get("hidden_size")),
        _int(text.get("vocab_size", config.get("vocab_size"))),
        special,
        Token(tokens[mask], mask, f"{directory}/tokenizer_config.json: mask_token") if mask in tokens else None,
        tokens,
    )


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The language model's own config, inside a model of several modes."""
    for name in _INNER:
        inner = config.get(name)
        if isinstance(inner, dict):
            return _text_config(inner)
    return config


def _added_tokens(directory: str, tokenizer: dict[str, Any]) -> dict[str, int]:
    listed = tokenizer.get("added_tokens_decoder")
    found: dict[str, int] = {}
    if isinstance(listed, dict):
        for number, entry in listed.items():
            word = _word(entry)
            if word and str(number).isdigit():
                found[word] = int(number)
    if found:
        return found
    for entry in _added_of_tokenizer_json(os.path.join(directory, "tokenizer.json")):
        word = _word(entry)
        if word and is_int(entry.get("id")):
            found[word] = entry["id"]
    return found


def _added_of_tokenizer_json(path: str) -> list[Any]:
    """The list of added tokens alone: the vocabulary behind it is many megabytes that nobody needs here."""
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read(_LIMIT)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as e:
        raise UnreadableTargetError(f"{path} can't be read: {e}") from None
    at = text.find("[", text.find('"added_tokens"'))
    try:
        listed, _end = json.JSONDecoder().raw_decode(text, at) if at > 0 else ([], 0)
    except ValueError as e:
        raise UnreadableTargetError(f"{path} is no JSON: {e}") from None
    return [entry for entry in listed if isinstance(entry, dict)]


def _word(entry: Any) -> str:
    word = entry.get("content") if isinstance(entry, dict) else entry
    return word if isinstance(word, str) else ""


def _int(value: Any) -> int | None:
    return value if is_int(value) else None


def _json(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as f:
            found = json.loads(f.read(_LIMIT).decode("utf-8"))
    except FileNotFoundError:
        return None
    except OSError as e:
        raise UnreadableTargetError(f"{path} can't be read: {e.strerror}") from None
    except (ValueError, RecursionError) as e:
        raise UnreadableTargetError(f"{path} is no JSON: {e}") from None
    if not isinstance(found, dict):
        raise UnreadableTargetError(f"{path} is no JSON object")
    return found
