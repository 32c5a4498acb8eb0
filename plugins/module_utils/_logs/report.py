# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads when a wait has ended."""

from __future__ import annotations

from typing import Any, Optional

from ansible_collections.llmops.vllm.plugins.module_utils._logs.masks import mask


def message(
    verdict: str,
    *,
    source: str,
    elapsed: float,
    limit: float,
    ready: Optional[Any] = None,
    cause: Optional[Any] = None,
    matched: Optional[Any] = None,
    stage: str = "",
    hint: str = "",
    pid: int = 0,
    exit: str = "",
    recent: Optional[list[str]] = None,
    reconnects: int = 0,
) -> str:
    """The verdict in one sentence, then the cause, the evidence and the remedy, a line each."""
    who = f"The server process (pid {pid})" if pid else "The server process"
    during = f" while {stage}" if stage and not ready else ""
    after = f" after {elapsed:.0f} s"
    lines = []
    if verdict == "ready":
        lines.append(f"Ready{after}.")
    elif verdict == "failed" and ready:
        lines.append(
            "The server was ready, then it failed." if cause else f"The server was ready, then {_ended(who, exit)}."
        )
    elif verdict == "failed":
        lines.append(f"The server failed{during}.")
    elif verdict == "exited":
        lines.append(f"{_ended(who, exit)}{during}, and its log does not say why.")
    elif verdict == "stopped":
        lines.append(f"The server was stopped{during}, as somebody asked it to.")
    elif verdict == "stalled":
        lines.append(f"The log says nothing new{during}.")
    elif verdict == "missing":
        lines.append(f"There is no log {source}{after if limit else ''}.")
    elif verdict == "timeout":
        lines.append(f"Not ready after {limit:.0f} s" + (f": still {stage}." if stage else "."))
    else:
        lines.append("Not ready yet" + (f": {stage}." if stage else "."))
    if cause:
        lines.append(f"Cause: {cause.text}")
        by = f" ({cause.process})" if cause.process else ""
        lines.append(f"Where: {source}:{cause.number}{by}")
        if exit:
            lines.append(f"Then {_ended(who, exit, start=False)}.")
        hint = cause.hint or hint
    elif matched and verdict != "ready":
        lines.append(f"Where: {source}:{matched.number}: {matched.text}")
    elif verdict not in ("ready", "missing"):
        lines.append(f"Log: {source}")
        if recent:
            lines.append("Last lines:")
            lines += [f"  {line}" for line in recent[-5:]]
    if hint and verdict != "ready":
        lines.append(f"Remedy: {hint}")
    if reconnects:
        lines.append(f"The connection was lost and made again {reconnects} time{'s' if reconnects > 1 else ''}.")
    return mask("\n".join(lines))


def _ended(who: str, exit: str, start: bool = True) -> str:
    who = who if start else who[0].lower() + who[1:]
    if exit.startswith("killed"):
        return f"{who} was {exit}"
    if exit:
        return f"{who} ended with {exit}"
    return f"{who} is gone (exit code unknown)"
