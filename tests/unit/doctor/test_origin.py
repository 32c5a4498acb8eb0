"""What keeps a process is told by its control group, as systemd and the container runtimes name them."""

from __future__ import annotations

import signal
import subprocess

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor.origin import container, ignores_hangup, unit

HEX = "0f" * 32


@pytest.mark.parametrize(
    ("group", "inside"),
    [
        (f"/system.slice/docker-{HEX}.scope", "docker container 0f0f0f0f0f0f"),
        (f"/docker/{HEX}", "docker container 0f0f0f0f0f0f"),
        (f"/machine.slice/libpod-{HEX}.scope/container", "podman container 0f0f0f0f0f0f"),
        ("/lxc.payload.gpu-box/system.slice/vllm.service", "LXC container gpu-box"),
        ("/lxc/gpu-box", "LXC container gpu-box"),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a2b3c4d_5e6f.slice/cri-containerd-0f.scope",
            "Kubernetes pod 1a2b3c4d_5e6f",
        ),
        ("/machine.slice/systemd-nspawn@gpu.service/payload/system.slice/vllm.service", "systemd-nspawn container gpu"),
        ("/system.slice/vllm.service", ""),
        ("/", ""),
    ],
)
def test_the_container(group, inside):
    assert container(group) == inside


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("/system.slice/vllm.service", "vllm.service"),
        ("/system.slice/system-vllm.slice/vllm@one.service", "vllm@one.service"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/llm.service", "llm.service"),
        ("/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope", ""),
        ("/user.slice/user-0.slice/session-3.scope", ""),
        ("/system.slice/ssh.service", ""),
        ("/system.slice/cron.service", ""),
        ("", ""),
    ],
)
def test_the_unit(group, name):
    assert unit(group) == name


@pytest.mark.parametrize(("hangup", "kept"), [(signal.SIG_IGN, True), (signal.SIG_DFL, False)])
def test_nohup(hangup, kept):
    with subprocess.Popen(["sleep", "600"], preexec_fn=lambda: signal.signal(signal.SIGHUP, hangup)) as process:
        try:
            assert ignores_hangup(process.pid) is kept
        finally:
            process.kill()
