# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which named changes a build has: yes, no or unknown, and by what that is known."""

from __future__ import annotations

import dataclasses
import os
import re

from ansible_collections.llmops.vllm.plugins.module_utils._build import git
from ansible_collections.llmops.vllm.plugins.module_utils._build.installed import Installed, read_text


@dataclasses.dataclass(frozen=True)
class Patch:
    """A change with the traces that it leaves.

    commit: in git. files and pattern: a text in one of these installed files. since: the first release that has it.
    pull: the number of the pull request whose head brings it.
    """

    name: str
    commit: str = ""
    files: tuple[str, ...] = ()
    pattern: str = ""
    since: tuple[int, ...] = ()
    pull: int = 0


CATALOGUE = (
    # vllm-project/vllm#40727: target_layer_ids count from the layers' outputs, the auxiliary layers from their inputs.
    Patch(
        "layer-id-offset",
        files=("vllm/v1/worker/gpu_model_runner.py", "vllm/v1/worker/gpu/spec_decode/eagle/eagle3_utils.py"),
        pattern=r"\bi \+ 1 for i in \(?\w+(?:\.get\()?[\"']?target_layer_ids",
        since=(0, 22),
    ),
    # vllm-project/vllm#40898, closed unmerged; #46104 brought it otherwise.
    Patch(
        "drafter-sliding-window",
        files=("vllm/model_executor/models/qwen3_dflash.py",),
        pattern=r"\blayer_types\b[\s\S]*\bsliding_window\b",
        since=(0, 25),
        pull=40898,
    ),
    # vllm-project/vllm#40898 again; 0.32 has an option for it.
    Patch(
        "eagle-cache-drop",
        files=("vllm/config/speculative.py",),
        pattern=r"\bdisable_eagle_block_drop\b",
        since=(0, 32),
        pull=40898,
    ),
)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a build comes from, as far as it is known."""

    repository: str = ""
    commit: str = ""
    ref: str = ""


@dataclasses.dataclass(frozen=True)
class Answer:
    has: str
    """yes, no or unknown"""
    by: str


def answer(patch: Patch, found: Installed, origin: Origin) -> Answer:
    """What speaks loudest: the installed text, then the history, then the version."""
    text = _text(patch, found)
    if text:
        return Answer("yes", "its text is installed")
    if patch.pull and re.fullmatch(rf"refs/pull/{patch.pull}/head", origin.ref):
        return Answer("yes", f"it was built from pull request {patch.pull}")
    ancestor = _ancestor(patch, origin)
    if ancestor:
        return Answer("yes", "its commit is in the history")
    release = _release(patch, found)
    if release:
        version = ".".join(map(str, patch.since))
        # A file that was rewritten since need not say the same words.
        return Answer("unknown" if text is False else "yes", f"releases have it since {version}")
    if text is False:
        return Answer("no", "its text is not in the installed files")
    if ancestor is False:
        return Answer("no", "its commit is not in the history")
    if release is False:
        return Answer("no", f"{found.version} is before {'.'.join(map(str, patch.since))}")
    if patch.commit and origin.repository:
        return Answer("unknown", f"{origin.repository} can't tell: it is shallow, or lacks one of the commits")
    return Answer("unknown", "nothing here tells")


def _text(patch: Patch, found: Installed) -> bool | None:
    """Whether a file has the text; None if there is no text to look for or none of the files is there."""
    there = [path for path in (os.path.join(found.root, name) for name in patch.files) if os.path.exists(path)]
    if not patch.pattern or not there:
        return None
    return any(re.search(patch.pattern, read_text(path)) for path in there)


def _ancestor(patch: Patch, origin: Origin) -> bool | None:
    if not (patch.commit and origin.repository and origin.commit):
        return None
    return git.is_ancestor(origin.repository, patch.commit, origin.commit)


def _release(patch: Patch, found: Installed) -> bool | None:
    """Whether the version alone tells. A build from source before that release may still have the patch on top."""
    numbers = re.match(r"\d+(?:\.\d+)*", found.version or "")
    if not patch.since or not numbers:
        return None
    if tuple(int(n) for n in numbers[0].split(".")) >= patch.since:
        return True
    return None if "dev" in (found.version or "") or found.method in ("source", "editable", "git") else False
