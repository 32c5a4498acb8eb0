#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_host_info
short_description: Tell what of a server's needs a host has
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Looks for shared libraries, the server's user and the directory of all instances, and whether systemd runs the host. All in one round
    trip.
options:
  libraries:
    description: Sonames of the shared libraries that the engine needs.
    type: list
    elements: str
    default: []
  user:
    description: The user that servers run as.
    type: str
    required: true
  home:
    description: The directory that all instances share.
    type: path
    required: true
extends_documentation_fragment:
  - llmops.vllm.read_only
"""

EXAMPLES = r"""
- name: Look at the host
  llmops.vllm.vllm_host_info:
    libraries: [libnuma.so.1]
    user: vllm
    home: /opt/vllm
  register: host
"""

RETURN = r"""
missing:
  description: The libraries that the dynamic linker does not know.
  returned: success
  type: list
  elements: str
user:
  description: Whether there is such a user.
  returned: success
  type: bool
home:
  description: Whether the directory is there, and everybody may enter it and nobody but its owner write to it.
  returned: success
  type: bool
systemd:
  description: Whether systemd runs the host.
  returned: success
  type: bool
"""

import os
import pwd
import stat

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._host import programs

LDCONFIG = "/sbin/ldconfig"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "libraries": {"type": "list", "elements": "str", "default": []},
            "user": {"type": "str", "required": True},
            "home": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    p = module.params
    try:
        missing = missing_libraries(p["libraries"])
    except OSError as e:
        module.fail_json(
            msg=f"The host's shared libraries can't be listed: {e}. {LDCONFIG} comes with glibc, which vLLM needs."
        )
    module.exit_json(
        changed=False,
        missing=missing,
        user=is_user(p["user"]),
        home=is_home(p["home"]),
        systemd=os.path.isdir("/run/systemd/system"),
    )


def missing_libraries(wanted: list[str]) -> list[str]:
    """Those that the dynamic linker does not know. Raises OSError if it can't be asked."""
    if not wanted:
        return []
    told = programs.run([LDCONFIG, "-p"], text=True, errors="replace")
    if told.returncode:
        raise OSError(told.stderr.strip() or f"{LDCONFIG} ended with {told.returncode}")
    known = {words[0] for words in map(str.split, told.stdout.splitlines()) if words}
    return [name for name in wanted if name not in known]


def is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def is_home(path: str) -> bool:
    """Whether it is a directory with the mode that the role gives it."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and stat.S_IMODE(mode) == 0o755


if __name__ == "__main__":
    main()
