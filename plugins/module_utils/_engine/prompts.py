# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked: everyday code, maths and prose, because a drafter's acceptance differs between them."""

from __future__ import annotations

import json

CODE = (
    "Write a Python function that merges two sorted lists into one sorted list, with type hints and three tests.",
    "Write a C function that reverses a singly linked list in place, and explain each line in a comment.",
    "Write a SQL query that lists the ten customers with the highest turnover last year, with their shares of it.",
    "Write a shell script that renames every .jpeg file under a directory to .jpg, and is safe to run twice.",
)
MATHS = (
    "A train leaves at 9:40 and travels 210 km at 84 km/h. When does it arrive? Show every step.",
    "Solve x^2 - 7x + 12 = 0 by factoring, then check both solutions by substituting them.",
    "A shop lowers a price by 20 % and later raises it by 25 %. Is the final price the first one? Prove it.",
    "How many whole numbers from 1 to 300 are divisible by 4 or by 6? Reason step by step.",
)
PROSE = (
    "Explain to a twelve-year-old why the sky is blue and a sunset is red.",
    "Describe a harbour town early on a winter morning, in three paragraphs.",
    "Write a polite letter to a landlord who has not repaired the heating for two weeks.",
    "Summarise how a bill becomes a law in a parliamentary democracy, in plain words.",
)
BUILT_IN = CODE + MATHS + PROSE

_FILLER = (
    "The inspector walked through the hall and wrote down what she saw. Shelf {n} held lamps, ropes, tins of paint and "
    "a box of keys that fitted none of the doors. The caretaker said that nobody had asked for them in years. "
)


def filler(characters: int) -> str:
    """Plain English of about that length in which nothing repeats exactly."""
    text, n = "", 0
    while len(text) < characters:
        n += 1
        text += _FILLER.format(n=n)
    return text[:characters]


def from_lines(text: str) -> list[str]:
    """One prompt a line. A line of JSON stands for the string that it is, or that it holds as prompt; blanks for none."""
    return [_prompt(line) for line in text.splitlines() if line.strip()]


def _prompt(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return line.strip()
    if isinstance(value, dict):
        value = value.get("prompt")
    return value if isinstance(value, str) else line.strip()
