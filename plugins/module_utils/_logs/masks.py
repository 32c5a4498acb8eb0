"""Secrets that logs give away: what is shown of a log goes through here."""

from __future__ import annotations

import re

MASK = "********"

_NAMES = r"(?:[\w-]*(?:api|access|secret|private|auth)[_-]?(?:key|token)s?|(?:\w*_)?(?:hf|hub|bearer)[_-]?token|token|password|passwd|secret)"
_NAMED = re.compile(rf"""(?i)(?<![\w-])({_NAMES})(['"]?\s*[=:]\s*\[?\s*|\s+(?=['"]))(['"]?)([^\s'",\]&}}]{{4,}})""")
_FLAG = re.compile(r"(--(?:api-key|hf-token|token)[= ]+)(\S+)")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}")
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})"
)
_URL = re.compile(r"(?<!\w)(\w+://)[^/\s@]+@")


def mask(text: str) -> str:
    """The text without what looks like a token, a key or a password."""
    text = _SHAPES.sub(MASK, text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _FLAG.sub(rf"\1{MASK}", text)
    text = _NAMED.sub(_named, text)
    return _URL.sub(rf"\1{MASK}@", text)


def _named(match: re.Match[str]) -> str:
    if match[4] in ("None", "null", "True", "False", MASK) or match[4].lower() in ("none", "null", "true", "false"):
        return match[0]
    return f"{match[1]}{match[2]}{match[3]}{MASK}"
