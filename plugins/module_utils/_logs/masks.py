"""Secrets that logs give away: what is shown of a log goes through here."""

from __future__ import annotations

import re

MASK = "********"

# The name of a secret, as a variable, an argument, a header or a key has it. Tokens of a model have such names, too.
_NAME = (
    r"(?:[\w-]*(?:(?:api|access|secret|private|auth)[_-]?(?:key|token)s?|password|passwd|passphrase|secret|credentials?)"
    r"|(?:[\w-]*[_-])?(?P<token>token))"
)
_VALUE = (
    r"(?:[bru]?(?P<quote>['\"])(?P<quoted>(?:(?!(?P=quote)).)+)"
    r"|\[(?P<list>[^\]\n]+)|\w+\((?P<call>[^)\n]+)|(?P<bare>[^\s'\",\[\]&}]{4,}))"
)
# Not what argparse says of an argument, as in "argument --api-key: expected one argument".
_NAMED = re.compile(rf"(?i)(?<![\w-])(?!--[\w-]+: ){_NAME}(?:\\*['\"]?\s*[=:]\s*\\*|\s+(?=['\"])){_VALUE}")
_NO_SECRET = re.compile(r"(?i)(?:none|null|true|false)$")
_NO_TOKEN = re.compile(r"-?\d+$|<|\[")
# Of an argument that takes several values, those that do not look like words are taken for more of them.
# The beginning of a name is as good as the name, as argparse has it.
_FLAG = re.compile(
    r"((?<![\w-])--(?:[\w-]*[_-])?(?:api[_-]k(?:ey?)?|password|passphrase|secret)[= ]+|--(?:hf[_-]t(?:o(?:k(?:en?)?)?)?|token)[= ]+)"
    r"([^\s\[]\S*(?: (?!-)\S*[\d_-]\S*)*)"
)
_SCHEME = re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}")
_HEADER = re.compile(r"(?i)\b(authorization['\"]?\s*[=:]\s*['\"]?(?:\w+ )?)[^\s'\",]{6,}")
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abpr]-[\w-]{10,}|nvapi-[\w-]{20,}|AIza[\w-]{30,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{10,2048}\.[\w-]{10,}\.[\w-]{5,})"
)
_URL = re.compile(r"(?<!\w)(\w+://)[^/\s?#'\"<>]+@")
_SIGNED = re.compile(r"(?i)([?&](?:[\w-]*signature|sig|policy)=)[^&\s'\"]+")


def mask(text: str) -> str:
    """The text without what looks like a token, a key or a password."""
    text = _SHAPES.sub(MASK, text)
    text = _SCHEME.sub(rf"\1{MASK}", text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    text = _FLAG.sub(rf"\1{MASK}", text)
    text = _NAMED.sub(_named, text)
    text = _SIGNED.sub(rf"\1{MASK}", text)
    return _URL.sub(rf"\1{MASK}@", text)


def _named(match: re.Match[str]) -> str:
    kind = next(kind for kind in ("quoted", "list", "call", "bare") if match[kind])
    value = match[kind]
    if _NO_SECRET.match(value) or (match["token"] and _NO_TOKEN.match(value)):
        return match[0]
    begin, end = (place - match.start() for place in match.span(kind))
    return f"{match[0][:begin]}{MASK}{match[0][end:]}"
