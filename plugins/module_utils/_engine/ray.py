# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ray needs, where it spreads the workers over the hosts. Whether a build has it is for the trial to tell."""

from __future__ import annotations

import os

NAME = "ray"
ROOM = 107 - len("/session_2026-12-01_07-39-22_507658_1234567/sockets/plasma_store")
"""So many bytes a socket's path may have on Linux, less what Ray puts behind its directory, with the longest number of a process."""


def faults(workers: int | None, directory: str, has_token: bool) -> list[str]:
    """What is wrong, each with its remedy. workers: of a host, None where that can't be told."""
    found = []
    if workers is None:
        found.append("Ray has to be told how many workers each host has: write the parallel sizes as numbers.")
    length = len(os.fsencode(directory))
    if length > ROOM:
        found.append(
            f"Ray would put its sockets under {directory}, which has {length} bytes, and Linux takes no longer path than {ROOM} there: "
            f"choose a vllm_home, vllm_instance or vllm_user that is shorter by {length - ROOM}, or vllm_deployment_executor mp."
        )
    if not has_token:
        found.append(
            "Whoever reaches the ports of a Ray without a token runs any code on its hosts: set vllm_serve_api_key, of which one is "
            "made, or vllm_deployment_ray_token, from a vault."
        )
    return found
