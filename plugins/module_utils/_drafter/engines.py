# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which vLLM can do what with a DFlash drafter."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError

# The first release that has it; the number is that of the pull request or issue.
DFLASH = (0, 20)  # 36847
SHIFTED_IDS = (0, 22)  # 40727; inferred, since 0.21 hasn't it and 0.32 has
WINDOWS = (0, 25)  # 46104; before it every drafter layer is silently full attention
MIXED_LAYERS = (0, 26)  # 47914; by the V2 model runner only
DFLASH2 = (0, 28)  # 52816; by the V2 model runner only
QUANTISED = (0, 30)  # 51581 is open on 0.29
CHOOSES_V2 = (0, 32)  # takes the V2 model runner by itself where a drafter needs it


@dataclasses.dataclass(frozen=True)
class Engine:
    """version: empty if not known. runner: v1, v2, or empty if not known. from_source: built from some commit."""

    version: str = ""
    numbers: tuple[int, ...] = ()
    runner: str = ""
    from_source: bool = False

    def lacks(self, since: tuple[int, int]) -> bool:
        return bool(self.numbers) and self.numbers < since

    @property
    def takes_ids_as_they_are(self) -> bool:
        return self.lacks(SHIFTED_IDS)

    def __str__(self) -> str:
        runner = f" with the {self.runner.upper()} model runner" if self.runner else ""
        return f"vLLM {self.version or 'of a version not told'}{runner}"


def parse(version: str | None, runner: str | None) -> Engine:
    """An engine by a version such as 0.32.0, 0.32.0+cpu or 0.19.2.dev8+ga8062413a."""
    if not version:
        return Engine(runner=runner or "")
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?![\d.]*\d)", version)
    if not match:
        raise RefusedError(f"engine.version: {version} is no version of vLLM; it should look like 0.32.0")
    numbers = tuple(int(number) for number in match.groups() if number is not None)
    return Engine(version, numbers, runner or "", bool(re.search(r"dev|\+g[0-9a-f]{6}", version)))
