# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mask token, which fills the block that is to be predicted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import ERROR, FILE, WARNING, Case, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import is_int, spelt
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.target import Token, special_ids

_DIES = "the server dies at its first request"


def mask_token(case: Case) -> Iterator[Finding]:
    mask, named = case.get("mask_token_id"), _named(case)
    number, impossible = spelt(mask), _impossible(case, mask)
    if not case.has("mask_token_id"):
        yield _wrong(case, "the engine needs one", FILE, named)
    elif is_int(number):
        yield case.say("mask_token_id", f"a string is no token: {_DIES}", wanted=number)
    elif not is_int(mask):
        yield _wrong(case, f"it is no whole number: {_DIES}", FILE, named)
    elif impossible is not None:
        yield _wrong(case, impossible[0], impossible[1], named)
    elif named is not None and mask != named.id:
        settled = "mask_token_id" in case.settled
        why = f"the token named the mask is {named.name}, {named.id}"
        yield case.say("mask_token_id", why, named.evidence, WARNING if settled else ERROR, named.id, mend=not settled)


def _wrong(case: Case, why: str, evidence: str, named: Token | None) -> Finding:
    if named is None:
        return case.say("mask_token_id", f"{why}; assert the drafter's mask token in values", evidence)
    return case.say(
        "mask_token_id", f"{why}; the token named the mask is {named.name}", named.evidence, wanted=named.id
    )


def _impossible(case: Case, mask: Any) -> tuple[str, str] | None:
    """Why a number can't be the mask token, and who says so."""
    if not is_int(mask):
        return None
    rows, evidence = _embedding_rows(case)
    if mask < 0 or (rows is not None and mask >= rows):
        return f"the embedding has {'no such row' if rows is None else f'the rows 0 to {rows - 1}'}: {_DIES}", evidence
    special = _special(case).get(mask)
    if special is not None:
        return f"it is the {special.name}, which stands for something else", special.evidence
    return None


def _embedding_rows(case: Case) -> tuple[int | None, str]:
    proof = case.weights.proofs.get("vocab_size")
    if proof is not None:
        return proof.value, proof.evidence
    if case.target and case.target.vocab_size:
        return case.target.vocab_size, f"{case.target.config}: vocab_size"
    size = case.loaded("vocab_size")
    return (size if is_int(size) and size > 0 else None), f"{FILE}: {case.key('vocab_size')}"


def _special(case: Case) -> dict[int, Token]:
    if case.target is not None:
        return {n: Token(n, f"target's {t.name}", t.evidence) for n, t in case.target.special.items()}
    return {n: Token(n, f"{role} token", f"{FILE}: {role}_token_id") for n, role in special_ids(case.config)}


def _named(case: Case) -> Token | None:
    """The token that the config or the target's tokenizer names the mask."""
    if case.target is None:
        return None
    word = case.get("mask_token")
    if isinstance(word, str) and word in case.target.tokens:
        return Token(case.target.tokens[word], word, f"{FILE}: dflash_config.mask_token {word}")
    return case.target.mask
