# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drafter as it lies on disk: its config.json as text and as a value, its weights' headers, and the names it goes by."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import Format, detect
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.jsontext import unusable
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.weights import Weights, read_weights

_LIMIT = 4 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Drafter:
    directory: str
    text: str
    config: dict[str, Any]
    form: Format
    weights: Weights
    names: tuple[str, ...]

    @property
    def path(self) -> str:
        return os.path.join(self.directory, "config.json")

    @property
    def fixed(self) -> str | None:
        """Why the config.json must not be changed where it is; None if it may be."""
        real = os.path.realpath(self.path)
        if os.path.islink(self.path):
            return f"{self.path} is a link to {real}, which other revisions may share"
        if re.search(r"/models--[^/]+/(snapshots|blobs)/", real):
            return f"{self.path} lies in a hub's cache, where the next download would undo the mend"
        return None


def read_drafter(path: str) -> Drafter:
    """The drafter in a directory, or beside a config.json."""
    if not os.path.lexists(path):
        raise RefusedError(f"{path} is not there")
    directory = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(path) and os.path.basename(path) != "config.json":
        raise RefusedError(f"{path} is neither a directory nor a config.json")
    text, config = read_config(os.path.join(directory, "config.json"))
    form = detect(config)
    if form is None:
        raise RefusedError(
            f"{directory}/config.json is no DFlash drafter's: it has neither a dflash_config nor a speculators_model_type of dflash"
        )
    return Drafter(directory, text, config, form, read_weights(directory), _names(directory, config))


def read_config(path: str) -> tuple[str, dict[str, Any]]:
    """A config.json as text and as a value."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise RefusedError(f"{path} is no regular file")
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            if size > _LIMIT:
                raise RefusedError(f"{path} is no config: it has {size} bytes, and none has over {_LIMIT}")
            raw = f.read()
    except OSError as e:
        raise RefusedError(f"{path} can't be read: {e.strerror}") from None
    if not raw.strip():
        raise RefusedError(f"{path} is empty")
    if raw.startswith(b"\xef\xbb\xbf"):
        raise RefusedError(f"{path} begins with a byte order mark, which transformers refuses")
    try:
        text = raw.decode("utf-8")
        config = json.loads(text)
    except UnicodeDecodeError as e:
        raise RefusedError(f"{path} is not UTF-8: {e.reason} at byte {e.start}") from None
    except json.JSONDecodeError as e:
        raise RefusedError(
            f"{path} is no JSON, or cut short: {e.msg} at line {e.lineno}. Mend it, or fetch it again"
        ) from None
    except (ValueError, RecursionError) as e:
        raise RefusedError(f"{path} is no usable JSON: {e}") from None
    if not isinstance(config, dict):
        raise RefusedError(f"{path} is no JSON object but a {type(config).__name__}")
    if unusable(config):
        raise RefusedError(f"{path} is no usable JSON: {unusable(config)}")
    return text, config


def _names(directory: str, config: dict[str, Any]) -> tuple[str, ...]:
    """The names a drafter may go by, most telling first: those in its path (of a hub's cache, too), then its own."""
    found = []
    stated = config.get("_name_or_path")
    for path in (os.path.abspath(directory), os.path.realpath(directory)):
        above, last = os.path.split(path)
        hub, snapshots = os.path.split(above)
        # Only a revision is called by what it lies in: a directory's neighbours are other drafters.
        revision = re.fullmatch("[0-9a-f]{4,64}", last)
        place = hub if snapshots == "snapshots" else above if revision else path
        name = re.sub(r"^models--", "", os.path.basename(place)).replace("--", "/")
        found.append(re.sub(r"-[0-9a-f]{12}$", "", name))
    if isinstance(stated, str):
        found.append(stated)
    return tuple(dict.fromkeys(name.lower() for name in found if name))
