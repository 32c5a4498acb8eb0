# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a user may run a command, asked as that user, before anything is stopped for it."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Sequence


def hindrance(argv: Sequence[str], chdir: str = "/", user: str | None = None) -> str:
    """What speaks against the command, with its remedy; empty if nothing does.

    The last word may be a script, which the user then has to be allowed to read.
    """
    program = shutil.which(argv[0])
    if not program and not os.path.exists(argv[0]):
        return f"There is no program {argv[0]} on this host."
    try:
        account = pwd.getpwnam(user) if user else None
    except KeyError:
        return f"There is no user {user} on this host: let the role vllm_host make it, or name another."
    if account and account.pw_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        return (
            f"The command is to run as {user}, and only root may start it so: connect as {user}, or as root (become)."
        )
    if account and account.pw_uid != os.geteuid():
        return _asked_as(account, program or argv[0], argv[-1], chdir)
    return _refused(program or argv[0], argv[-1], chdir)


def _refused(program: str, script: str, chdir: str) -> str:
    me = pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else "root"
    if not os.path.isdir(chdir):
        return f"There is no directory {chdir} to start in."
    for path, right, word in ((chdir, os.X_OK, "enter"), (program, os.X_OK, "run"), (script, os.R_OK, "read")):
        if os.path.isabs(path) and (path != script or _is_file(path)) and not os.access(path, right):
            if _missing(path):
                return f"There is no {path}."
            return f"{me} may not {word} {path}{_because(path)}."
    return ""


def _is_file(path: str) -> bool:
    return os.path.isfile(path) or not os.access(os.path.dirname(path), os.X_OK)


def _missing(path: str) -> bool:
    """Whether it is not there, rather than out of sight."""
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        path, above = above, os.path.dirname(above)
    return not os.path.lexists(path) and os.access(above, os.X_OK)


def _because(path: str) -> str:
    """The first directory on the way that is closed."""
    way = os.path.dirname(path)
    parents = [way]
    while way != "/":
        way = os.path.dirname(way)
        parents.append(way)
    closed = next((parent for parent in reversed(parents) if not os.access(parent, os.X_OK)), "")
    return (
        f": {closed} is closed to it. Open that (chmod a+x), or choose another place"
        if closed
        else ": its mode forbids it"
    )


def _asked_as(account: pwd.struct_passwd, program: str, script: str, chdir: str) -> str:
    """The same question in a child that has become the user, as the server will."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            os.write(writing, _refused(program, script, chdir).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return said
