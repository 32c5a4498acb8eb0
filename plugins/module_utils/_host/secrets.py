# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be told of what holds secrets: addresses without them, and digests of which they can't be guessed."""

from __future__ import annotations

import hashlib
import re
import urllib.parse

ROUNDS = 100_000
"""So often a text is digested that may have keys in it, as the digest may be read by all: a guess has to cost."""

_USER = re.compile(r"(\b\w[\w+.-]*://)([^/?#\s'\"]+)@")
_QUERY = re.compile(r"(\b\w[\w+.-]*://[^?#\s'\"]*)\?([^#\s'\"]*)")
SHORT = 8
"""A value shorter than that, such as 1, true or git, is no secret, and masking it would make a log unreadable."""


def digest(text: str) -> str:
    """The same for the same text everywhere, 32 hex digits, and slow on purpose."""
    return hashlib.pbkdf2_hmac("sha256", text.encode(), b"llmops.vllm", ROUNDS, 16).hex()


def bare(text: str) -> str:
    """The text with its addresses as they are for everybody: without a user, a password or a query, which may be a signature."""
    return _QUERY.sub(r"\1", _USER.sub(r"\1", text))


def masked(text: str) -> str:
    """The same for people, who see that there was something."""
    return _QUERY.sub(r"\1?***", _USER.sub(r"\1***@", text))


def of_addresses(text: str) -> set[str]:
    """The passwords, users and queries of a text's addresses, in all the ways in which a tool may write them."""
    found = set()
    for _scheme, user in _USER.findall(text):
        name, colon, password = user.partition(":")
        found |= {user, password} if colon else {name} if len(name) >= SHORT else set()
    for _address, query in _QUERY.findall(text):
        values = [field.rpartition("=")[2] for field in query.split("&")]
        found |= {value for value in (query, *values) if len(value) >= SHORT}
    return {way for secret in found if secret for way in (secret, urllib.parse.unquote(secret))}
