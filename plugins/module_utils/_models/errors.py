# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a model could not be fetched, each cause with its remedy."""

from __future__ import annotations

import dataclasses
import errno
import re

from ansible_collections.llmops.vllm.plugins.module_utils._host import refusals

KEPT = "what has come is kept"


class FetchError(Exception):
    """A fetch that can't go on: the cause, and what to do about it."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause}. {remedy}." if remedy else f"{cause}.")


@dataclasses.dataclass(frozen=True)
class Place:
    """What was asked for, and where."""

    endpoint: str
    repo: str
    revision: str
    token: bool


@dataclasses.dataclass(frozen=True)
class Answer:
    """A refusal of the hub. code: X-Error-Code, and message: X-Error-Message, where there are any."""

    status: int
    code: str = ""
    message: str = ""
    wait: str = ""


def refused(answer: Answer, place: Place) -> FetchError:
    """What an answer of the hub means. It says 401 for much that is not a wrong token, so its code counts first."""
    whose = "this token was not granted access" if place.token else "no token was given"
    if answer.code == "GatedRepo":
        return FetchError(
            f"{place.repo} is gated, and {whose}",
            f"Ask for access at {place.endpoint}/{place.repo} and set vllm_models_token to a token of that account",
        )
    if answer.code == "RevisionNotFound":
        return FetchError(
            f"{place.repo} has no revision {place.revision}",
            f"Its commits are listed at {place.endpoint}/{place.repo}/commits/main",
        )
    if answer.status == 401 and "credentials" in answer.message.lower():
        return FetchError(f"{place.endpoint} refuses the token", "Make a new one and set vllm_models_token to it")
    if answer.code == "RepoNotFound" or answer.status == 401 or (answer.status == 404 and not answer.code):
        return FetchError(
            f"there is no model {place.repo} at {place.endpoint}, or it is private and {whose}",
            "Check the name, or set vllm_models_token to a token that may read it",
        )
    if answer.status == 429:
        higher = "" if place.token else "; with a token (vllm_models_token) more is allowed"
        return FetchError(
            f"{place.endpoint} limits how often it is asked (429)",
            f"Run it again in {answer.wait or 'some minutes'}: {KEPT}{higher}",
        )
    if answer.status == 403:
        return FetchError(
            f"{place.endpoint} forbids it: {answer.message or whose}",
            "Set vllm_models_token to a token that may read it",
        )
    said = f" ({answer.message})" if answer.message else ""
    return FetchError(f"{place.endpoint} answers {answer.status}{said}", f"Run it again later: {KEPT}")


def unreachable(where: str, reason: str) -> FetchError:
    return FetchError(
        f"no way through the network to {where}: {reason}",
        "See to the host's network, name its proxy (vllm_models_env) or a mirror (vllm_models_endpoint), "
        f"or take the model from elsewhere (source). {KEPT.capitalize()}",
    )


def unreachable_source(where: str, reason: str) -> FetchError:
    return FetchError(
        f"no way through the network to {where}: {reason}",
        f"See to the way there; if it is a host of the site, a firewall may want vllm_models_share_port to be set. {KEPT.capitalize()}",
    )


def full(where: str, needed: int, free: int) -> FetchError:
    return FetchError(
        f"{amount(needed)} are to come, and the disk of {where} has {amount(free)} free",
        "Free some space, remove models that no release names (playbooks/prune_models.yml), or move vllm_home",
    )


def of_system(e: OSError, where: str) -> FetchError:
    """What the operating system refused."""
    if e.errno in (errno.ENOSPC, errno.EDQUOT):
        return FetchError(
            f"the disk of {where} is full",
            "Free some space, or remove models that no release names (playbooks/prune_models.yml). "
            + KEPT.capitalize(),
        )
    if e.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return FetchError(
            f"{e.filename or where}: {e.strerror}",
            "The user of the fetch (vllm_user) has to be able to read or write it",
        )
    return FetchError(f"{e.filename or where}: {e.strerror or e}", refusals.REMEDIES.get(e.errno or 0, ""))


def sentence(text: str) -> str:
    """With a capital letter, unless it begins with a name."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text


def amount(size: int) -> str:
    """A number of bytes, for people."""
    value, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def waiting(retry_after: str, rate_limit: str) -> str:
    """Seconds to wait, as a hub tells them: Retry-After, or t= in RateLimit."""
    found = re.search(r"\bt=(\d+)", rate_limit)
    seconds = retry_after if retry_after.isdigit() else found[1] if found else ""
    return f"{seconds} s" if seconds else ""
