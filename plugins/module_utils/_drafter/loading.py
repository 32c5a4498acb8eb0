# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking transformers itself what it makes of a config."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import ERROR, WARNING, Case, Finding, spoken
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.effective import DEFAULTS, Effective
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import MISSING
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError
from ansible_collections.llmops.vllm.plugins.module_utils._host import owners, programs

_SECONDS = 120
_SCRIPT = """
import json, sys
from transformers import AutoConfig
asked, facts = json.load(sys.stdin)
try:
    config = AutoConfig.for_model(**asked)
except Exception as e:
    answer = {"refusal": str(e)}
else:
    values = {fact: getattr(config, fact, None) for fact in facts}
    answer = {"values": {**values, "rope_theta": (config.rope_parameters or {}).get("rope_theta")}}
print("answer:" + json.dumps(answer))
"""


def ask(python: str, config: Mapping[str, Any]) -> Effective:
    """What the transformers of a Python make of a config, which it gets on its standard input. It runs as whoever can change it."""
    environment = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    try:
        owner = owners.become(owners.whose(shutil.which(python) or python))
        process = programs.run(
            [python, "-I", "-W", "ignore", "-c", _SCRIPT],
            input=json.dumps([dict(config), list(DEFAULTS)]),
            env={**owners.environment(), **environment},
            text=True,
            timeout=_SECONDS,
            **owner,
        )
    except KeyError as e:
        raise RefusedError(
            f"python: {python} is in the hands of a user whom the host does not know: {e.args[0]}"
        ) from None
    except OSError as e:
        raise RefusedError(f"python: {python} can't be run: {e.strerror}") from None
    except subprocess.TimeoutExpired:
        raise RefusedError(f"python: {python} gave no answer in {_SECONDS} s") from None
    answers = [line[7:] for line in process.stdout.splitlines() if line.startswith("answer:")]
    if not answers:
        last = (process.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise RefusedError(f"python: {python} can't be asked about transformers: {last}")
    answer = json.loads(answers[-1])
    if "refusal" in answer:
        return Effective({}, ("config.json", " ".join(answer["refusal"].split())))
    return Effective(answer["values"])


def compare(case: Case, answer: Effective, python: str) -> Iterator[Finding]:
    """Where transformers makes another thing of a config than was predicted."""
    evidence = f"the transformers of {python}"
    if answer.refusal and not case.effective.refusal:
        yield Finding(
            "config.json", MISSING, MISSING, ERROR, f"the loader refuses the file: {answer.refusal[1]}", evidence
        )
    for fact, value in answer.values.items():
        predicted = case.effective.values.get(fact)
        if value != predicted and fact in case.form.places:
            yield case.say(
                fact, f"loaded it is {spoken(value)}, where {spoken(predicted)} was expected", evidence, WARNING
            )
