"""Runs as rollout.yml makes them, told to the recorder event by event."""

from __future__ import annotations

from typing import Any

from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Run
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.recorder import Recorder, Result

BEGAN = 1_790_000_000.0  # 2026-09-21T14:13:20Z
OLD, NEW = "1730ac2535cd", "b955212ee891"
CURRENT = {
    "id": OLD,
    "argv": ["vllm", "serve", "--max-num-seqs=4"],
    "drafter": {"path": "/opt/vllm/overlays/draft-1155c2798b38"},
}
CONTENT = {
    "id": NEW,
    "argv": ["vllm", "serve", "--max-num-seqs=8"],
    "drafter": {"path": "/opt/vllm/overlays/draft-77aa02bd9f10"},
}
FINDINGS = [
    {
        "key": "dflash_config.mask_token_id",
        "found": 4,
        "wanted": 3,
        "severity": "error",
        "why": "it is the target's pad token, which stands for something else; the token named the mask is <|mask|>",
        "evidence": "your values",
    },
    {
        "key": "layer_types",
        "found": ["full_attention"] * 3,
        "wanted": ["sliding_attention"] * 3,
        "severity": "error",
        "why": "the right value is another",
        "evidence": "your values",
    },
    {
        "key": "max_window_layers",
        "found": None,
        "wanted": 3,
        "severity": "warning",
        "why": "written with the window, so that the loader keeps it",
        "evidence": "the rules of the loader",
    },
]
STEPS = [
    {"name": "reading the configuration", "seconds": 10.0},
    {"name": "starting the engine", "seconds": 12.0},
    {"name": "loading the weights", "seconds": 2.0},
    {"name": "sizing the KV cache", "seconds": 2.0},
]
GOOD = {
    "verdict": "pass",
    "diagnosis": "Acceptance length 7.92, as wanted.",
    "acceptance_length": 7.9225,
    "acceptance_rate": 0.9889,
    "per_position": [1.0, 1.0, 1.0, 0.9922, 0.9845, 0.9767, 0.969],
    "tokens_per_second": 356.2,
    "drafts": 129,
}
EARLIER = {**GOOD, "acceptance_length": 6.31, "tokens_per_second": 301.7, "drafts": 160}
POOR = {
    "verdict": "fail",
    "diagnosis": "Nearly nothing is accepted, at no position. The drafter is wired up wrongly: its mask token or its layers are others than it was trained on.",
    "acceptance_length": 1.012,
    "acceptance_rate": 0.0017,
    "per_position": [0.012, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "tokens_per_second": 41.2,
    "drafts": 1005,
}
WRITTEN = {"id": NEW, "content": CONTENT, "current": CURRENT, "current_measured": EARLIER}
SHORT = "Acceptance length 1.01, less than the 7.00 wanted.\nEvidence: 12 of 7035 drafted tokens accepted (0.2%) in 1005 drafts."


class Story:
    """Tells a recorder what its hosts do, one task after the other."""

    def __init__(self, hosts: list[str], playbook: str = "rollout") -> None:
        self.at, self.hosts = BEGAN, hosts
        self.recorder = Recorder(playbook, BEGAN)

    def batch(self, *hosts: str) -> None:
        self.recorder.play("one", "Roll out", self.hosts, hosts)

    def task(
        self,
        host: str,
        role: str,
        took: float,
        module: str = "",
        data: dict[str, Any] | None = None,
        *,
        failed: str = "",
        task: str = "A task",
    ) -> None:
        self.recorder.start(host, role, self.at)
        self.at += took
        told = {"msg": failed, **(data or {})} if failed else data or {}
        self.recorder.end(Result(host, task, role, module, told, self.at, failed=bool(failed)))

    def prepare(self, host: str) -> None:
        self.task(host, "vllm", 0.1)
        self.task(host, "vllm_host", 1)
        self.task(host, "vllm_build", 9)
        self.task(host, "vllm_models", 1)
        self.task(host, "vllm_drafter", 2, "drafter_config", {"findings": FINDINGS})

    def serve(self, host: str, release: dict[str, Any]) -> None:
        self.task(host, "vllm_serve", 27, "log_wait", {"verdict": "ready", "stages": STEPS})
        self.task(host, "vllm_serve", 1, "set_fact", {"ansible_facts": {"vllm_serve_result": {"content": release}}})

    def good(self, host: str) -> None:
        self.prepare(host)
        self.task(host, "vllm_serve", 1, "vllm_release", WRITTEN)
        self.serve(host, CONTENT)
        self.task(host, "vllm_verify", 4, "acceptance_probe", GOOD)

    def goes_back(self, host: str) -> None:
        self.prepare(host)
        self.task(host, "vllm_serve", 1, "vllm_release", WRITTEN)
        self.serve(host, CONTENT)
        self.task(host, "vllm_verify", 25, "acceptance_probe", POOR)
        self.task(host, "vllm_verify", 0.1, failed=SHORT, task="Refuse a drafter that falls short")
        self.task(host, "", 0.1, "set_fact", {"ansible_facts": {"vllm_rollout_failed": "it"}})
        self.task(host, "vllm_serve", 1, "vllm_instance_info", {"current": CONTENT, "running": NEW, "proven": False})
        self.serve(host, CURRENT)
        self.task(host, "vllm_verify", 4, "acceptance_probe", GOOD)
        self.task(
            host,
            "",
            0.1,
            failed=f"{host} is back at {OLD}, as before. The new release failed:\n{SHORT}",
            task="Refuse to go on",
        )

    def end(self, *failed: str, unreachable: tuple[str, ...] = ()) -> Run | None:
        return self.recorder.finish(self.at, failed, unreachable)


def one() -> Run:
    story = Story(["localhost"], "site")
    story.batch("localhost")
    story.good("localhost")
    return story.end()


def third_of_five() -> Run:
    """Batches of one; what the third serves falls short."""
    hosts = [f"gpu{n}" for n in range(1, 6)]
    story = Story(hosts)
    for host in hosts[:2]:
        story.batch(host)
        story.good(host)
    story.batch(hosts[2])
    story.goes_back(hosts[2])
    return story.end(hosts[2])


def two_hundred() -> Run:
    """One, fifty, and of the rest five go back and one is lost. Long names, as clouds give them."""
    hosts = [f"inference-{n:03}.zone-{n % 3}.example.com" for n in range(200)]
    story = Story(hosts)
    bad, lost = hosts[60:160:20], hosts[99]
    for batch in (hosts[:1], hosts[1:51], hosts[51:]):
        story.batch(*batch)
        began = ended = story.at
        for n, host in enumerate(batch):
            story.at = began + n % 7
            if host == lost:
                story.prepare(host)
                story.task(
                    host,
                    "vllm_serve",
                    5,
                    failed="Failed to connect to the host via ssh: No route to host",
                    task="Start it",
                )
            else:
                (story.goes_back if host in bad else story.good)(host)
            ended = max(ended, story.at)
        story.at = ended
    return story.end(*bad, unreachable=(lost,))


def doctor() -> Run:
    """Fifty hosts: most are well, some share a fault, one has orphans, one can't be reached."""
    hosts = [f"gpu{n:02}.example.com" for n in range(1, 51)]
    story = Story(hosts, "doctor")
    story.batch(*hosts)

    def found(severity: str, what: str, evidence: str, remedy: str) -> dict[str, str]:
        return {"check": "x", "severity": severity, "what": what, "evidence": evidence, "remedy": remedy}

    mask = found(
        "error", "dflash_config.mask_token_id is 248064 and should be 248070: it is the target's pad token, which stands for something else.",
        "/srv/models/Qwen3.6-27B-DFlash/config.json; /srv/models/Qwen3.6-27B/tokenizer_config.json: mask_token <|mask|>",
        "Set dflash_config.mask_token_id to 248070 (drafter_config does it in a copy), and restart.",
    )  # fmt: skip
    weak = found(
        "error",
        "The drafter's config.json does not fit its weights.",
        "/metrics since its start: acceptance length 1.01",
        "Check it.",
    )
    open_ = found(
        "warning",
        "It listens on 0.0.0.0 without a key, so whoever reaches the host can use it.",
        "its arguments",
        "Give it a key.",
    )
    note = found("note", "It runs as root.", "pid 4711", "Run it as a user of its own.")
    lost = found("error", "Engines without a server: pid 812 (VLLM::EngineCore), of root.", "/proc", "End them.")
    for n, host in enumerate(hosts[:-1]):
        findings = [mask, weak] if n % 7 == 3 else [open_] if n % 10 == 5 else []
        health = "error" if n % 7 == 3 else "warning" if findings else "ok"
        server = {
            "model": "/srv/models/Qwen3.6-27B", "flags": {"served-model-name": "qwen3.6-27b"}, "port": 8000,
            "version": "0.28.1" if n % 7 == 3 or n % 12 == 1 else "0.32.0",
            "keeper": "systemd unit vllm.service" if n % 3 else "nohup", "drafter": "/srv/models/Qwen3.6-27B-DFlash",
            "acceptance_length": 1.01 if health == "error" else 5.87, "health": health, "findings": [*findings, note],
        }  # fmt: skip
        told = {"servers": [] if n == 20 else [server], "findings": [lost] if n == 20 else [], "health": health}
        story.task(host, "", 0.2, "vllm_doctor", told)
    story.task(hosts[-1], "", 0.2, failed="Failed to connect to the host via ssh: No route to host", task="Look")
    return story.end(unreachable=(hosts[-1],))
