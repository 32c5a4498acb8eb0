# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user asks for, made into what the wait works with."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._logs.patterns import Pattern
from ansible_collections.llmops.vllm.plugins.module_utils._logs.profile import Profile
from ansible_collections.llmops.vllm.plugins.module_utils._logs.stages import Stage

FIELDS = ("pattern", "name", "kind", "hint", "sample")


class OptionError(ValueError):
    """An option that can't be understood, with its name."""


def profile(params: dict[str, Any]) -> Profile:
    """The patterns of a wait. Raises OptionError."""
    ready, failed, ignore = (
        [_pattern(option, entry) for entry in params[option]] for option in ("ready", "failed", "ignore")
    )
    stages = [Stage("", _regex("stages", text)) for text in params["stages"]]
    return Profile(ready, failed, ignore, stages, params["profile"] == "vllm")


def _pattern(option: str, entry: Any) -> Pattern:
    """A pattern as a regular expression alone, or as a dictionary that tells more."""
    told = entry if isinstance(entry, dict) else {"pattern": entry}
    unknown = sorted(set(told) - set(FIELDS))
    if unknown:
        raise OptionError(f"{option}: {', '.join(map(str, unknown))} is not known here, only {', '.join(FIELDS)} are.")
    wrong = sorted(name for name, value in told.items() if not isinstance(value, str))
    if wrong or "pattern" not in told:
        raise OptionError(f"{option}: {entry!r} is neither a regular expression nor a dictionary with one as pattern.")
    regex = _regex(option, told["pattern"])
    sample = told.get("sample", "")
    if sample and not regex.search(sample):
        raise OptionError(f"{option}: {regex.pattern!r} does not match its own sample {sample!r}.")
    return Pattern(
        told.get("name", regex.pattern), told.get("kind", option), regex, told.get("hint", ""), (sample,), True
    )


def _regex(option: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as e:
        raise OptionError(f"{option}: {text!r} is not a regular expression: {e}.") from e


def mark(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """A mark, checked. Raises OptionError."""
    if not value or "cursor" in value:
        return value
    try:
        numbers = {name: int(value[name]) for name in ("device", "inode", "offset")}
    except (KeyError, TypeError, ValueError) as e:
        raise OptionError(f"mark: {value!r} is not a mark: device, inode and offset have to be numbers.") from e
    if min(numbers.values()) < 0:
        raise OptionError(f"mark: {value!r} is not a mark: no number in one is negative.")
    return {"path": value.get("path"), **numbers}


def url(text: str) -> str:
    """An address to ask. Raises OptionError."""
    try:
        parts = urllib.parse.urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise OptionError(f"probe: {text!r} is not an address like http://127.0.0.1:8000/v1/models.")
    return text
