# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which vLLM can do what with a DFlash drafter."""

from __future__ import annotations

import dataclasses
import re

# The first release that has it. The pull request that brought it is the source.
DFLASH = (0, 20)  # 36847
SHIFTED_IDS = (0, 22)  # 40727, inferred: not in 0.21, verified in 0.32
WINDOWS = (0, 25)  # 46104; before it every layer is silently full attention
MIXED_LAYERS = (0, 26)  # 47914, by the V2 model runner only
DFLASH2 = (0, 28)  # 52816, by the V2 model runner only
QUANTISED = (0, 30)  # issue 51581 is open on 0.29


@dataclasses.dataclass(frozen=True)
class Engine:
    """version: None if not known. runner: v1, v2, or None if not known."""

    version: tuple[int, ...] | None = None
    text: str = ""
    from_source: bool = False
    runner: str | None = None

    def lacks(self, since: tuple[int, int]) -> bool:
        return self.version is not None and self.version < since

    @property
    def shifts_ids(self) -> bool:
        return not self.lacks(SHIFTED_IDS)


def parse(version: str | None, runner: str | None) -> Engine:
    """An engine by its version, such as 0.32.0, 0.32.0+cpu or 0.19.2.dev8+ga8062413a. Raises ValueError."""
    if not version:
        return Engine(runner=runner)
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    if not match:
        raise ValueError(f"{version!r} is no version of vLLM; it should look like 0.32.0")
    numbers = tuple(int(n) for n in match.groups() if n is not None)
    return Engine(numbers, version, bool(re.search(r"dev|\+g[0-9a-f]{7}", version)), runner)
