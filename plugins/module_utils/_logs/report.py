# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads when a wait has ended: what happened, why, where it stands, and what to do."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from ansible_collections.llmops.vllm.plugins.module_utils._host.processes import Exit
from ansible_collections.llmops.vllm.plugins.module_utils._logs.causes import Trouble
from ansible_collections.llmops.vllm.plugins.module_utils._logs.judge import Match

LAST_LINES = 5
WIDTH = 200
"""So much is shown of a line that is only context."""

# What libraries append to their messages, and what tells nobody anything.
_EMPTY = re.compile(
    r"\s*(?:For further information visit |CUDA kernel errors might be asynchronously |For debugging consider passing "
    r"|Compile with `TORCH_USE_CUDA_DSA`|$)"
)
_REPR = re.compile(r" \[type=\w+, input_value=.*\]$")


@dataclasses.dataclass(frozen=True)
class Ending:
    """All that is known when a wait ends. source: the log as it is named to people; limit: the timeout."""

    verdict: str
    source: str
    elapsed: float
    limit: float
    subject: str = "the server"
    pid: int = 0
    ready: Match | None = None
    decided: Match | None = None
    cause: Trouble | None = None
    dead: bool = False
    exit: Exit | None = None
    missing: str = ""
    stall: float | None = None
    stage: str = ""
    hint: str = ""
    recent: Sequence[str] = ()
    reconnects: int = 0


def message(end: Ending) -> str:
    lines = [_headline(end)]
    if end.verdict in ("ready", "pending") and not end.reconnects:
        return lines[0]
    if end.verdict not in ("ready", "pending"):
        lines += _evidence(end)
    if end.reconnects:
        times = "once" if end.reconnects == 1 else f"{end.reconnects} times"
        lines.append(f"The connection to the host was lost and made again {times}.")
    return "\n".join(lines)


def ended(end: Ending) -> str:
    """ "the server process (pid 7) was killed by signal 9 (SIGKILL)" """
    who = f"{end.subject} process" + (f" (pid {end.pid})" if end.pid else "")
    if end.exit is None:
        return f"{who} is gone, and nobody saw how it ended"
    return f"{who} was {end.exit}" if end.exit.signal is not None else f"{who} ended with {end.exit}"


def _headline(end: Ending) -> str:
    subject = end.subject[0].upper() + end.subject[1:]
    so_far = f" (last stage: {end.stage})" if end.stage and not end.ready else ""
    if end.verdict == "ready":
        return f"{subject} is ready" + (f", after {end.elapsed:.0f} s." if end.elapsed >= 1 else ".")
    if end.verdict == "failed":
        what = f"{subject} was ready, and then it failed" if end.ready else f"{subject} failed{so_far}"
        if end.missing:
            return f"{what}: its process {end.missing} is gone."
        return f"{what}: {ended(end)}." if end.dead and not end.cause else f"{what}."
    if end.verdict == "exited":
        said = ended(end)
        return f"{said[0].upper()}{said[1:]}, and the log does not say why{so_far}."
    if end.verdict == "stopped":
        return f"{subject} was stopped, as somebody asked it to{so_far}."
    if end.verdict == "stalled":
        return f"{subject} has said nothing new for {end.stall:.0f} s{so_far}."
    if end.verdict == "missing":
        return f"There is no {end.source}" + (f", after {end.elapsed:.0f} s." if end.limit else ".")
    still = f": still {end.stage}" if end.stage else ""
    if end.verdict == "timeout":
        return f"{subject} is not ready after {end.limit:.0f} s{still}."
    return f"{subject} is not ready yet{still}."


def _evidence(end: Ending) -> list[str]:
    lines = []
    hint = end.hint
    if end.cause:
        hint = end.cause.hint
        lines.append(f"Cause: {_told(end.cause)}")
        if end.cause.after:
            lines.append(f"After: {_first_line(end.cause.after)}")
        by = f" ({end.cause.process})" if end.cause.process else ""
        lines.append(f"Where: {end.source}:{end.cause.number}{by}")
        if end.dead:
            lines.append(f"Then {ended(end)}.")
    elif end.decided:
        lines.append(f"Where: {end.source}:{end.decided.number}: {end.decided.text}")
    elif end.verdict != "missing":
        lines.append(f"Log: {end.source}" + ("" if end.recent else ", which is empty"))
        lines += [f"  {line[:WIDTH]}" for line in end.recent[-LAST_LINES:]]
    if hint:
        lines.append(f"Remedy: {hint}")
    return lines


def _told(cause: Trouble) -> str:
    """A cause's message without what tells nobody anything."""
    if cause.kind == "engine_died":
        return f"an engine process ended without a word; all that the log says is: {cause.text}"
    first, *more = (_REPR.sub("", line) for line in cause.text.splitlines())
    return "\n".join([first, *(f"  {line.strip()}" for line in more if not _EMPTY.match(line))])


def _first_line(text: str) -> str:
    return text.splitlines()[0][:WIDTH]
