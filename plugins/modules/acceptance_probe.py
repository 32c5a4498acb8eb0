#!/usr/bin/python
# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
---
module: acceptance_probe
short_description: Measure how much of what the drafter proposes a running vLLM accepts
version_added: "0.1.0"
author: The llmops.vllm authors (@llmops)
description:
  - Sends real requests to a running vLLM server and takes the differences of its counters of speculative decoding. The
    requests are greedy (temperature 0) and streamed.
  - Judges the acceptance length, the acceptance of the first drafted token, and a drop against an earlier measurement,
    and says in words what the pattern of the figures points to.
  - Fails unless the verdict is V(pass). The figures are returned either way. Without a limit it only measures, and warns
    where the figures show a fault.
  - A wrong drafter changes no text; it shows only here and in the speed.
options:
  url:
    description: The root of the server, without C(/v1).
    type: str
    default: http://127.0.0.1:8000
  api_key:
    description: The key that the server was started with.
    type: str
  validate_certs:
    description: Whether to check the certificate of an C(https) server.
    type: bool
    default: true
  model:
    description: The served model's name. By default the first that the server lists.
    type: str
  prompts:
    description:
      - What to ask. By default twelve built-in English prompts, four each of code, maths and prose.
    type: list
    elements: str
  prompts_file:
    description:
      - A file on the managed host with one prompt a line.
      - A line may also be a JSON string, or a JSON object with the prompt as C(prompt), so that a prompt can hold line breaks.
    type: path
  unique_prefix:
    description:
      - Put a few unique characters before every prompt, so that the server's prefix cache can't know it.
      - Turn it off for a model that only knows its prompts by heart.
    type: bool
    default: true
  phases:
    description:
      - V(short) asks the prompts as they are.
      - V(long) puts a long text before each, to see whether the drafter's sliding window survives.
      - V(repeated) asks every prompt twice and measures the second time, to see whether prefix caching spoils the drafter.
        Unless O(unique_prefix) is off, one text of a quarter of O(long_tokens) stands before all of them.
      - The limits hold in each of them.
    type: list
    elements: str
    choices: [short, long, repeated]
    default: [short]
  long_tokens:
    description:
      - About how many tokens of text the phase V(long) puts before a prompt, as far as the model's length allows. Take
        about twice the drafter's window.
    type: int
    default: 4096
  requests:
    description: Requests in each phase; prompts are taken in turn. By default each prompt once.
    type: int
  concurrency:
    description: Requests at the same time.
    type: int
    default: 1
  max_tokens:
    description: The most tokens that an answer may have.
    type: int
    default: 256
  chat_template_kwargs:
    description:
      - What to hand to the chat template. A drafter trained without thinking wants C(enable_thinking) to be false.
    type: dict
    default: {}
  request_timeout:
    description: Seconds for one request, from its start to its last token.
    type: float
    default: 120
  timeout:
    description: Seconds for the whole probe.
    type: float
    default: 900
  log:
    description:
      - The server's log, for where the server shows no counters at C(/metrics). The lines on speculative decoding that it
        gains during the probe are added up, as every version of vLLM writes them.
      - The server writes such a line every 10 seconds; for the last one this module waits 30 seconds at most.
    type: path
  acceptance_length:
    description: The least acceptance length (1 + accepted / drafts) that passes, in every phase.
    type: float
  position_0:
    description: The least fraction of drafts whose first token is accepted that passes, in every phase.
    type: float
  acceptance_rate:
    description:
      - The least fraction of drafted tokens accepted that passes, in every phase. It falls as the number of drafted
        tokens rises, so prefer O(acceptance_length) and O(position_0).
    type: float
  min_drafts:
    description: With fewer drafts than this the verdict is V(insufficient).
    type: int
    default: 100
  baseline:
    description:
      - What this module returned earlier, or a dictionary with at least C(acceptance_length).
      - Phases that both have are compared with each other, otherwise the whole with the whole.
    type: dict
  max_drop:
    description: The largest drop of the acceptance length against O(baseline) that passes, as a fraction.
    type: float
    default: 0.1
extends_documentation_fragment:
  - llmops.vllm.read_only
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - In check mode nothing is sent and nothing is judged, so there is no verdict; it says what it would do.
"""

EXAMPLES = r"""
- name: Let no drafter pass that is accepted less than this
  llmops.vllm.acceptance_probe:
    url: http://127.0.0.1:8000
    acceptance_length: 3.0
    position_0: 0.5

- name: Look also at long contexts and at repeated prefixes
  llmops.vllm.acceptance_probe:
    phases: [short, long, repeated]
    acceptance_length: 2.5

- name: Measure before an upgrade
  llmops.vllm.acceptance_probe:
  register: before

- name: Compare with that after it
  llmops.vllm.acceptance_probe:
    baseline: "{{ before }}"
    max_drop: 0.1

- name: Measure with prompts of one's own, through a gateway that hides the counters
  llmops.vllm.acceptance_probe:
    url: https://llm.example.com
    api_key: "{{ vaulted_key }}"
    prompts_file: /srv/prompts.jsonl
    concurrency: 4
    log: /var/log/vllm/server.log
"""

RETURN = r"""
verdict:
  description:
    - V(pass) or V(fail) as demanded.
    - V(insufficient) if the figures can't carry a judgement.
    - V(no_speculation) if the server answers without drafting.
    - V(unreachable) if it gives no usable answer. It is down, asleep or hanging, wants another key, does not serve the
      model, refuses the requests, or dies of them.
  returned: not in check mode
  type: str
  sample: pass
diagnosis:
  description: What the figures point to and what to do, in words.
  returned: not in check mode
  type: str
acceptance_length:
  description: 1 + accepted / drafts, over all phases.
  returned: when the server answered
  type: float
  sample: 4.12
acceptance_rate:
  description: Accepted / drafted.
  returned: when the server answered
  type: float
  sample: 0.208
position_0:
  description: The fraction of drafts whose first token was accepted.
  returned: when the server answered
  type: float
  sample: 0.81
per_position:
  description: The same for every position.
  returned: when the server answered
  type: list
  elements: float
drafts:
  description: Drafts made.
  returned: when the server answered
  type: int
drafted:
  description: Tokens drafted.
  returned: when the server answered
  type: int
accepted:
  description: Tokens of them accepted.
  returned: when the server answered
  type: int
tokens:
  description: Tokens received.
  returned: when the server answered
  type: int
tokens_per_second:
  description: Tokens received per second of wall time of the requests.
  returned: when the server answered
  type: float
time_to_first_token:
  description: The median over the requests, in seconds.
  returned: when the server answered
  type: float
requests:
  description: Requests answered.
  returned: when the server answered
  type: int
prompt_tokens:
  description: Tokens of all prompts.
  returned: when the server answered
  type: int
cache_hits:
  description: Prompt tokens that the server took from its prefix cache; null if it does not tell.
  returned: when the server answered
  type: int
phases:
  description: The same figures for each phase.
  returned: when the server answered
  type: dict
model:
  description: The model that was asked.
  returned: when the server answered
  type: str
version:
  description: The server's version of vLLM.
  returned: when the server answered
  type: str
"""

import dataclasses
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._engine import probe, prompts, verdict
from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import NoAnswerError, Server


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "default": "http://127.0.0.1:8000"},
            "api_key": {"type": "str", "no_log": True},
            "validate_certs": {"type": "bool", "default": True},
            "model": {"type": "str"},
            "prompts": {"type": "list", "elements": "str"},
            "prompts_file": {"type": "path"},
            "unique_prefix": {"type": "bool", "default": True},
            "phases": {"type": "list", "elements": "str", "choices": list(probe.PHASES), "default": ["short"]},
            "long_tokens": {"type": "int", "default": 4096, "no_log": False},
            "requests": {"type": "int"},
            "concurrency": {"type": "int", "default": 1},
            "max_tokens": {"type": "int", "default": 256, "no_log": False},
            "chat_template_kwargs": {"type": "dict", "default": {}},
            "request_timeout": {"type": "float", "default": 120},
            "timeout": {"type": "float", "default": 900},
            "log": {"type": "path"},
            "acceptance_length": {"type": "float"},
            "position_0": {"type": "float"},
            "acceptance_rate": {"type": "float"},
            "min_drafts": {"type": "int", "default": 100},
            "baseline": {"type": "dict"},
            "max_drop": {"type": "float", "default": 0.1},
        },
        mutually_exclusive=[("prompts", "prompts_file")],
        supports_check_mode=True,
    )
    p = module.params
    try:
        server = Server(p["url"], p["api_key"], p["validate_certs"])
        plan, wanted = _plan(p), _wanted(p)
    except ValueError as e:
        module.fail_json(msg=str(e))
    if module.check_mode:
        what = f"{plan.requests} requests to {server.url} in each phase ({', '.join(plan.phases)})"
        module.exit_json(changed=False, msg=f"Would send {what} and judge what the engine counts meanwhile.")
    try:
        measurement = probe.measure(server, plan)
    except NoAnswerError as e:
        judged = verdict.unreachable(e.cause, e.evidence, e.remedy)
        measured: dict[str, Any] = {}
    else:
        judged = verdict.judge(measurement, wanted)
        measured = {
            "model": measurement.model,
            "version": measurement.version,
            "phases": {name: phase.figures() for name, phase in measurement.phases.items()},
            **measurement.whole.figures(),
        }
    result = {
        "changed": False,
        "msg": judged.message,
        "verdict": judged.verdict,
        "diagnosis": judged.diagnosis,
        **measured,
    }
    if judged.verdict != "pass":
        module.fail_json(**result)
    if judged.pattern.cause:
        module.warn(judged.diagnosis)
    module.exit_json(**result)


def _plan(p: dict[str, Any]) -> probe.Plan:
    for key in ("requests", "concurrency", "max_tokens", "long_tokens", "request_timeout", "timeout"):
        if p[key] is not None and p[key] <= 0:
            raise ValueError(f"{key} must be more than 0, not {p[key]}")
    if not p["phases"]:
        raise ValueError("phases is empty, so there is nothing to measure")
    asked = p["prompts"] or list(prompts.BUILT_IN)
    if p["prompts_file"]:
        try:
            with open(p["prompts_file"], encoding="utf-8") as f:
                asked = prompts.from_lines(f.read())
        except (OSError, UnicodeDecodeError) as e:
            raise ValueError(f"prompts_file {p['prompts_file']} can't be read: {e}") from None
    if not asked or not all(text.strip() for text in asked):
        raise ValueError(
            f"{'prompts_file ' + p['prompts_file'] if p['prompts_file'] else 'prompts'} holds an empty prompt"
        )
    options = {f.name: p[f.name] for f in dataclasses.fields(probe.Plan)}
    options.update(prompts=asked, phases=list(dict.fromkeys(p["phases"])), requests=p["requests"] or len(asked))
    return probe.Plan(**options)


def _wanted(p: dict[str, Any]) -> verdict.Wanted:
    for key in ("position_0", "acceptance_rate", "max_drop"):
        if p[key] is not None and not 0 <= p[key] <= 1:
            raise ValueError(f"{key} is a fraction from 0 to 1 (0.5 is 50 %), not {p[key]}")
    if p["baseline"] is not None:
        phases = p["baseline"].get("phases") or {}
        for figures in (p["baseline"], *(phases.values() if isinstance(phases, dict) else [phases])):
            if not isinstance(figures, dict) or not isinstance(figures.get("acceptance_length"), (int, float)):
                raise ValueError(
                    "baseline holds no number acceptance_length, for itself and for each of its phases: give what this "
                    "module returned when it could measure, or {acceptance_length: 4.1}"
                )
    return verdict.Wanted(**{f.name: p[f.name] for f in dataclasses.fields(verdict.Wanted)})


if __name__ == "__main__":
    main()
