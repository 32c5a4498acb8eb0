# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with what a server was given: its drafter, its build, its version, its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._build import proof
from ansible_collections.llmops.vllm.plugins.module_utils._doctor import features, known
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.finding import ERROR, NOTE, WARNING, Finding
from ansible_collections.llmops.vllm.plugins.module_utils._doctor.subject import Subject
from ansible_collections.llmops.vllm.plugins.module_utils._drafter import asking
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.case import spoken
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError
from ansible_collections.llmops.vllm.plugins.module_utils._engine import arguments


def drafter(subject: Subject) -> Iterator[Finding]:
    told, said = subject.server.speculative, subject.server.flags.get("speculative-config")
    if said is not None and not isinstance(said, dict):
        yield Finding(
            "drafter", ERROR, f"What it was told of its drafter is no dictionary: {said!r}.", "its --speculative-config",
            "Write it as JSON, and see that no shell takes its quotes away: {\"method\": \"dflash\", \"model\": ..., ...}.",
        )  # fmt: skip
        return
    if not told:
        yield Finding(
            "drafter", NOTE, "It runs without a drafter, so there is no speculative decoding.", "its arguments hold no --speculative-config",
            "If it should have one, give it: {\"method\": \"dflash\", \"model\": ..., \"num_speculative_tokens\": ...}.",
        )  # fmt: skip
        return
    if told.get("model") and not subject.drafter and (subject.server.hidden or subject.blind):
        yield Finding(
            "drafter",
            NOTE,
            f"Where the drafter {told['model']} lies can't be seen by this user.",
            f"not seen: {', '.join(subject.server.hidden or ['its files'])}",
            "Look as root (become).",
        )
        return
    if told.get("model") and not subject.drafter:
        yield Finding(
            "drafter", ERROR, f"The drafter {told['model']} is not on this host where the server looks for it.", "its --speculative-config",
            "Fetch it, and name its directory.",
        )  # fmt: skip
        return
    if not subject.is_dflash or not subject.drafter:
        return
    params = {
        "path": subject.drafter, "values": {}, "reference": None, "profile": "auto", "profiles": {}, "target": subject.target or None,
        "engine": {"version": subject.version if subject.numbers else None, "runner": subject.runner or None}, "python": None,
    }  # fmt: skip
    try:
        judged = asking.judge(params, mended=False)
    except RefusedError as e:
        yield Finding(
            "drafter",
            ERROR,
            f"The drafter can't be judged: {e}.",
            subject.drafter,
            "Give it a config.json and weights that are whole.",
        )
        return
    for found in judged.findings:
        told, wanted = found.public()["found"], found.public()["wanted"]
        yield Finding(
            "drafter", found.severity,
            f"{found.key} {'is missing' if told is None else f'is {spoken(told)}'}"
            + (f" and should be {spoken(wanted)}" if wanted is not None else "") + f": {found.why.partition('; assert ')[0]}.",
            f"{judged.drafter.path}; {found.evidence}", _remedy(found.key, wanted, found.evidence),
        )  # fmt: skip
    layers, taken = judged.public()["expected_aux_layers"], subject.facts.get("auxiliary_layers")
    if layers and subject.log and subject.log.ready and layers != taken:
        said = (
            f"hands the layers {taken} of the target to the drafter"
            if taken
            else "names no layers that it hands to the drafter"
        )
        yield Finding(
            "drafter", ERROR, f"The engine {said}, and by its config these are {layers}.", subject.server.log,
            "Either the config.json was changed since, or this vLLM counts them in another way: take 0.22 or later.",
        )  # fmt: skip


def _remedy(key: str, wanted: Any, evidence: str) -> str:
    if wanted is not None:
        return f"Set {key} to {spoken(wanted)} (the module drafter_config does it in a copy), and restart."
    if evidence.startswith("vLLM "):
        return "Take a vLLM that can do it, or a drafter that this one can run."
    return f"Look up what {key} is where the drafter was published, write that into its config.json, and restart."


def build(subject: Subject) -> Iterator[Finding]:
    if subject.found is None or not subject.found.distributions:
        return
    for found in proof.quick(subject.found, proof.Wanted()):
        yield Finding("build", WARNING, found.why, found.evidence, "Install vLLM anew, into a new venv.")


def versions(subject: Subject) -> Iterator[Finding]:
    for fault in known.that_apply(subject.numbers, features.of(subject)):
        evidence = f"vLLM {subject.version or 'of any version'}, {fault.source}"
        doubtful = subject.from_source and not fault.of_any_version and fault.severity == ERROR
        yield Finding("versions", WARNING if doubtful else fault.severity, fault.symptom, evidence, fault.remedy)


def launch(subject: Subject) -> Iterator[Finding]:
    server = subject.server
    own = (*arguments.NOT_HERE, "api-key", "hf-token")
    flags = {name: value for name, value in server.flags.items() if name not in own}
    judged = arguments.Launch(
        args=flags,
        speculative={"num_speculative_tokens": 1, **server.speculative},
        drafter=subject.config(subject.drafter),
        version=subject.version,
        environment={
            name: server.variable(name) for name in (arguments.RUNNER, arguments.READY_TIMEOUT) if server.variable(name)
        },
    )
    for fault in arguments.faults(judged):
        what, _colon, remedy = fault.rpartition(": ")
        yield Finding("arguments", WARNING, f"{what}.", "its arguments", f"{remedy[:1].upper()}{remedy[1:]}")
