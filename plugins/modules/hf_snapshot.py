#!/usr/bin/python

# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_snapshot
short_description: Have one revision of a model on the host, whole and verified
version_added: "0.1.0"
author:
  - The llmops.vllm authors (@llmops)
description:
  - Fetches one commit of a model's repository onto the host, and verifies every file.
  - A snapshot is a directory C(<org>--<name>/<commit>) below O(dest) with the files of one commit of a repository on a hub. The size and
    the hash of each are those that the hub lists (SHA-256 for what is in LFS, git's own for the rest), wherever the content comes from.
  - It is fetched aside, by a job of the host that outlives the connection, and gets its name when it is whole. What an interrupted job
    left is gone on with. C(.snapshot.json) in it records what was found right; while nothing was written to since, no request is made.
  - The job speaks to a hub by huggingface_hub, under a Python of its own. If the transfer backend (Xet) fails, it goes on without.
options:
  repo:
    description: The repository of the model, as V(Qwen/Qwen3.6-27B).
    type: str
    required: true
  revision:
    description: A commit, all 40 digits. A branch or a tag is looked up at the hub each time, and becomes the commit that it is at.
    type: str
    required: true
  dest:
    description: The directory of all models of the host.
    type: path
    required: true
  allow:
    description: Patterns of the files to have, as V(*.safetensors). All if there is none. V(a/) means all that is in that directory.
    type: list
    elements: str
    default: []
  ignore:
    description: Patterns of files not to have.
    type: list
    elements: str
    default: []
  endpoint:
    description: The hub. Its address holds no password.
    type: str
    default: https://huggingface.co
  token:
    description:
      - What the hub knows its user by. It is in no argument, no log and no result, and the job removes the file that it came by.
    type: str
    default: ""
  source:
    description:
      - Where the content comes from if not from the hub. An absolute path of a directory (as one of a hub's cache) or of a tar archive of
        the host, or a URL that begins with http, below which the files lie.
      - The listing still is the hub's. Where that can't be reached, that of a snapshot's own record at the source is taken, with a
        warning; with a O(digest) there is no need to ask the hub.
    type: str
    default: ""
  source_token:
    description: What the web server of the O(source) wants. A token, or user:password.
    type: str
    default: ""
  digest:
    description: The RV(digest) that the listing must have. Another host or an earlier run tells it.
    type: str
    default: ""
  verify:
    description: V(full) hashes what is there once more, and fetches again what is not as published. V(quick) looks at sizes and times.
    type: str
    choices: [quick, full]
    default: quick
  python:
    description: A Python of the host that has huggingface_hub. Without it a venv is made once, in O(tools).
    type: path
  tools:
    description: The directory for that venv. The default is V(tools) beside O(dest).
    type: path
  requirements:
    description: What is installed in it.
    type: list
    elements: str
    default: [huggingface_hub==2.4.0, hf-xet==1.8.0]
  index_url:
    description: The package index that it comes from, if not the one that the host is set up for. It may hold a password.
    type: str
    default: ""
  wheelhouse:
    description: A directory of wheels on the host that it comes from instead.
    type: path
  environment:
    description:
      - The environment that the job gets besides, as a JSON object, for proxies. It is one text so that all of it can be hidden.
    type: str
    default: "{}"
  user:
    description: The user that the job runs as, and that owns the snapshot.
    type: str
  fetch:
    description: Whether to fetch what is lacking. If not, it only looks at what is there, and asks nobody.
    type: bool
    default: true
  wait:
    description: Whether to wait for the job. If not, M(llmops.vllm.log_wait) follows it, and shows its progress.
    type: bool
    default: true
  timeout:
    description: Seconds after which waiting ends. The job goes on, and the next run joins it.
    type: int
    default: 14400
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - Asks the hub for the listing and for access, looks at the disk, and says how many bytes would come. Nothing is hashed.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
    details:
      - Shows the files that were lacking, with their sizes and hashes.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: full
seealso:
  - module: llmops.vllm.drafter_config
"""

EXAMPLES = r"""
- name: Have the target
  llmops.vllm.hf_snapshot:
    repo: Qwen/Qwen3.6-27B
    revision: 6d0c5a3b9e1f4c7d8a2b0e9f1c3d5a7b9e2f4c6d
    dest: /opt/vllm/models
    token: "{{ vaulted_token }}"
    user: vllm

- name: Is every byte still as published?
  llmops.vllm.hf_snapshot:
    repo: Qwen/Qwen3.6-27B
    revision: 6d0c5a3b9e1f4c7d8a2b0e9f1c3d5a7b9e2f4c6d
    dest: /opt/vllm/models
    verify: full

- name: Take over what lies in a hub's cache, without a network
  llmops.vllm.hf_snapshot:
    repo: Qwen/Qwen3.6-27B
    revision: 6d0c5a3b9e1f4c7d8a2b0e9f1c3d5a7b9e2f4c6d
    dest: /opt/vllm/models
    source: /root/.cache/huggingface/hub/models--Qwen--Qwen3.6-27B/snapshots/6d0c5a3b9e1f4c7d8a2b0e9f1c3d5a7b9e2f4c6d
"""

RETURN = r"""
path:
  description: The directory of the snapshot.
  returned: success
  type: str
  sample: /opt/vllm/models/Qwen--Qwen3.6-27B/6d0c5a3b9e1f4c7d8a2b0e9f1c3d5a7b9e2f4c6d
revision:
  description: The commit.
  returned: success
  type: str
digest:
  description: The digest of the listing. Whoever knows it needs no hub to know what is right.
  returned: when the listing is known
  type: str
files:
  description: How many files are wanted.
  returned: when the listing is known
  type: int
bytes:
  description: How many bytes they have.
  returned: when the listing is known
  type: int
bytes_to_fetch:
  description: How many of them were not there, or are to come.
  returned: when the listing is known
  type: int
whole:
  description: Whether all is there now.
  returned: success
  type: bool
started:
  description: Whether a job works on it that was not waited for.
  returned: success
  type: bool
pidfile:
  description: The pid file of the job.
  returned: when there was a job
  type: str
log:
  description: Its log.
  returned: when there was a job
  type: str
mark:
  description: Where in the log it begins, for M(llmops.vllm.log_wait).
  returned: when there was a job
  type: dict
said:
  description: The last line of the job.
  returned: when it was waited for
  type: str
"""

import json
import os
import pwd
import sys
import time
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, locks, processes
from ansible_collections.llmops.vllm.plugins.module_utils._host.kept import Kept
from ansible_collections.llmops.vllm.plugins.module_utils._host.supervisor import SupervisorError
from ansible_collections.llmops.vllm.plugins.module_utils._models import errors, listing, package, snapshot, web
from ansible_collections.llmops.vllm.plugins.module_utils._models.errors import FetchError
from ansible_collections.llmops.vllm.plugins.module_utils._models.fetcher import Fetch
from ansible_collections.llmops.vllm.plugins.module_utils._models.hub import Hub
from ansible_collections.llmops.vllm.plugins.module_utils._models.listing import File, Listing
from ansible_collections.llmops.vllm.plugins.module_utils._models.request import Request

POLL = 0.2  # seconds


class Snapshot:
    """The wanted snapshot, and the way to it."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, Any] = module.params
        self.request = self.read()
        self.place = self.request.place

    def read(self) -> Request:
        p = self.params
        for name in ("endpoint", "source"):
            if web.has_credentials(p[name]):
                self.fail(
                    f"The address in {name} holds a password. Give it as {'token' if name == 'endpoint' else 'source_token'}."
                )
        if not listing.REPO.fullmatch(p["repo"]) or ".." in p["repo"]:
            self.fail(f"{p['repo']} is no name of a repository. It is written as organisation/name.")
        if p["source"] and not p["source"].startswith(("/", "http://", "https://")):
            self.fail(
                f"{p['source']} is no source. It is an absolute path of the host, or a URL that begins with http."
            )
        return Request(
            models=p["dest"],
            revision=self.commit(),
            allow=tuple(p["allow"]),
            ignore=tuple(p["ignore"]),
            deep=p["verify"] == "full",
            python=p["python"] or "",
            tools=p["tools"] or os.path.join(os.path.dirname(p["dest"].rstrip("/")), "tools"),
            requirements=tuple(p["requirements"]),
            wheelhouse=p["wheelhouse"] or "",
            environment={name: str(value) for name, value in self.environment().items()},
            repo=p["repo"],
            endpoint=p["endpoint"].rstrip("/"),
            token=p["token"],
            source=p["source"],
            source_token=p["source_token"],
            digest=p["digest"],
            index_url=p["index_url"],
        )

    def environment(self) -> dict[str, Any]:
        try:
            data = json.loads(self.params["environment"])
        except ValueError:
            data = None
        if not isinstance(data, dict):
            self.fail("The environment is no JSON object.")
        return data

    def commit(self) -> str:
        p = self.params
        if listing.SHA.fullmatch(p["revision"]):
            return str(p["revision"])
        os.environ.update({name: str(value) for name, value in self.environment().items()})
        return Hub(p["endpoint"], p["repo"], p["token"]).resolve(p["revision"])

    def ensure(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "changed": False,
            "path": self.place.path,
            "revision": self.place.revision,
            "started": False,
        }
        record = snapshot.read(self.place.path)
        lacking: list[File] | None = None
        if record and self.request.digest in ("", record.listing.digest):
            lacking = self.lacking(record.listing, record)
            result.update(self.measure(record.listing, lacking))
            if not lacking and not self.request.deep:
                return result
        if not self.params["fetch"]:
            return {"whole": False, **result}
        if self.module.check_mode:
            if lacking != []:
                lacking = self.plan(result)
            return {**result, "changed": bool(lacking), **self.diff(lacking or [])}
        job = self.start()
        result.update(pidfile=job.pidfile, log=job.started.log, mark=job.started.mark)
        if not self.params["wait"]:
            return {**result, "changed": record is None, "started": True, "whole": lacking == []}
        result["said"] = self.follow(job)
        after = snapshot.read(self.place.path)
        if not after or self.lacking(after.listing, after):
            self.fail(f"The job ended, and the snapshot is not whole. Its log is {job.log}.")
        came = self.measure(after.listing, lacking or [])
        changed = record is None or ", nothing fetched," not in result["said"]
        if lacking is None:
            lacking = after.listing.wanted(self.request.allow, self.request.ignore)
            came["bytes_to_fetch"] = came["bytes"]
        return {**result, **came, "changed": changed, "whole": True, **self.diff(lacking)}

    def lacking(self, of: Listing, record: snapshot.Record | None) -> list[File]:
        wanted = of.wanted(self.request.allow, self.request.ignore)
        there = snapshot.untouched(self.place.path, record, wanted)
        return [file for file in wanted if file.path not in there]

    def measure(self, of: Listing, lacking: list[File]) -> dict[str, Any]:
        wanted = of.wanted(self.request.allow, self.request.ignore)
        return {
            "digest": of.digest,
            "files": len(wanted),
            "bytes": sum(file.size for file in wanted),
            "bytes_to_fetch": sum(file.size for file in lacking),
            "whole": not lacking,
        }

    def plan(self, result: dict[str, Any]) -> list[File]:
        """What would come, as the hub tells it."""
        os.environ.update(self.request.environment)
        fetch = Fetch(self.request, self.module.warn)
        told = fetch.listing()
        lacking = self.lacking(told, snapshot.read(self.place.path))
        result.update(self.measure(told, lacking))
        if lacking and not self.request.source:
            fetch.hub.refuse_without_access(self.place.revision, lacking[0].path)
        fetch.refuse_a_small_disk(lacking)
        result["bytes_to_fetch"] -= min(fetch.came(), result["bytes_to_fetch"])
        return lacking

    def diff(self, lacking: list[File]) -> dict[str, Any]:
        rows = "".join(f"{file.hash[:12]} {file.size:>14} {file.path}\n" for file in lacking)
        return {"diff": {"before": "", "after": rows, "after_header": self.place.path}} if rows else {}

    def start(self) -> Kept:
        """The job, started now or found running."""
        place = self.place
        ids = self.ids()
        os.makedirs(place.models, mode=0o755, exist_ok=True)
        for directory in (os.path.dirname(place.path), place.job, self.request.tools):
            if ids:
                files.give(directory, ids)
            else:
                os.makedirs(directory, mode=0o755, exist_ok=True)
        pidfile, script = os.path.join(place.job, "fetch.pid"), os.path.join(place.job, "fetch.pyz")
        log = os.path.join(place.job, "fetch-{n}.log")
        with locks.locked(f"{pidfile}.lock"):
            job = Kept(pidfile, [sys.executable, script, place.job], log, user=self.params["user"])
            if not job.active():
                files.write(script, package.archive(), mode=0o644, owner=ids)
                hindrance = job.hindrance()
                if hindrance:
                    self.fail(hindrance)
                asked = os.path.join(place.job, "request.json")
                files.write(asked, self.request.plain().encode(), mode=0o600, owner=ids)
                job.start()
        return job

    def ids(self) -> tuple[int, int] | None:
        if not self.params["user"]:
            return None
        try:
            user = pwd.getpwnam(self.params["user"])
        except KeyError:
            self.fail(f"There is no user {self.params['user']}.")
        return (user.pw_uid, user.pw_gid) if user.pw_uid != os.geteuid() else None

    def follow(self, job: Kept) -> str:
        """Wait for the job, and return its last line. Fails with the cause if it failed."""
        deadline = time.monotonic() + self.params["timeout"]
        while job.active():
            if time.monotonic() > deadline:
                self.fail(
                    f"After {self.params['timeout']} s the job still runs. The next run joins it. Its log is {job.started.log}."
                )
            time.sleep(POLL)
        for line in reversed(processes.read_log(job.started)):
            if line.startswith("WHOLE "):
                return line
            if line.startswith("FAILED: "):
                self.fail(line[len("FAILED: ") :], log=job.started.log)
        self.fail(f"The job was ended before it was done. Run it again: {errors.KEPT}.", log=job.started.log)

    def fail(self, msg: str, **more: Any) -> NoReturn:
        self.module.fail_json(msg=errors.sentence(msg), **more)
        raise AssertionError("fail_json returned")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "repo": {"type": "str", "required": True},
            "revision": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "allow": {"type": "list", "elements": "str", "default": []},
            "ignore": {"type": "list", "elements": "str", "default": []},
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "token": {"type": "str", "default": "", "no_log": True},
            "source": {"type": "str", "default": ""},
            "source_token": {"type": "str", "default": "", "no_log": True},
            "digest": {"type": "str", "default": ""},
            "verify": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
            "python": {"type": "path"},
            "tools": {"type": "path"},
            "requirements": {"type": "list", "elements": "str", "default": ["huggingface_hub==2.4.0", "hf-xet==1.8.0"]},
            "index_url": {"type": "str", "default": "", "no_log": True},
            "wheelhouse": {"type": "path"},
            "environment": {"type": "str", "default": "{}", "no_log": True},
            "user": {"type": "str"},
            "fetch": {"type": "bool", "default": True},
            "wait": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 14400},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)  # the server's user has to enter all of these directories, whatever root's habit is
    try:
        result = Snapshot(module).ensure()
    except FetchError as e:
        module.fail_json(msg=errors.sentence(str(e)))
    except SupervisorError as e:
        module.fail_json(msg=str(e))
    except OSError as e:
        module.fail_json(msg=errors.sentence(str(errors.of_system(e, module.params["dest"]))))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
