# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a build failed, told from what its tools said, each cause with its remedy."""

from __future__ import annotations

import dataclasses
import re
import signal
from collections.abc import Sequence


class BuildError(Exception):
    """A build that can't go on: the cause, and what to do about it."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause}. {remedy}." if remedy else f"{cause}.")


@dataclasses.dataclass(frozen=True)
class Cause:
    """pattern: searched in the output. Its groups, and by {code} the exit code, fill words and remedy."""

    pattern: str
    words: str
    remedy: str


# The first that matches is the cause, so what stands here first is what the others follow from.
CAUSES = (
    Cause(
        r"No space left on device|\[Errno 28\]|Disk quota exceeded",
        "the disk is full",
        "Free some space under vllm_home (a build takes 2 to 15 GB), or lower vllm_build_keep",
    ),
    Cause(
        r"Killed signal terminated program|\bKilled \(program|died due to signal 9\b|(?m:^\s*(?:.*: )?Killed$)|"
        r"line \d+:\s+\d+ Killed\b|FAILED: \[code=137\]|out of memory allocating|virtual memory exhausted|"
        r"\[Errno 12\] Cannot allocate memory",
        "the compiler was killed, mostly because memory ran out",
        "Set vllm_build_max_jobs to fewer jobs at a time, or give the host more memory",
    ),
    Cause(
        r"couldn't find remote ref (\S+)",
        "the repository has no {0}",
        "Check vllm_build_ref: the head of pull request N is refs/pull/N/head, a branch is refs/heads/NAME",
    ),
    Cause(
        r"detected dubious ownership in repository at '([^']+)'",
        "git does not trust {0}, which belongs to another user",
        "Allow it on the host: git config --system --add safe.directory {0}",
    ),
    Cause(
        r"(?:could not read Username|Authentication failed|Permission denied \(publickey|HTTP Error 40[13]|"
        r"40[13] Client Error|requested URL returned error: 40[13])",
        "the server refused access",
        "Give credentials in vllm_build_repo or vllm_build_index_url, from a vault",
    ),
    Cause(
        r"does not appear to be a git repository|repository '?([^'\s]+)'? (?:does not exist|not found)",
        "there is no repository where vllm_build_repo points",
        "Check vllm_build_repo",
    ),
    Cause(
        r"(Temporary failure in name resolution|Failed to connect to [^\n]*|Could not resolve host[^\n]*|Name or service not known|Connection refused|"
        r"Network is unreachable|No route to host|[Cc]onnection timed out|[Rr]ead timed out|[Tt]ls handshake eof|"
        r"handshake (?:failure|timed out|eof)|SSLError|CERTIFICATE_VERIFY_FAILED|client error \(Connect\))",
        "no way through the network: {0}",
        "See to the host's network or proxy (vllm_build_env), name a reachable vllm_build_index_url, "
        "or build from a wheelhouse (vllm_build_wheelhouse)",
    ),
    Cause(
        r"unknown url type: '?([^'\s]+)|FileNotFoundError: .*'([^']*\.whl)'|(?:Invalid|Could not find)[^\n]*?(\S+\.whl)",
        "there is no wheel at {0}",
        "Set vllm_build_wheel to the absolute path of a wheel on the host, to a URL or to an upstream commit",
    ),
    Cause(
        r"BadZipFile|zipfile\.BadZipFile|is not a valid wheel|invalid wheel|has an invalid wheel",
        "the wheel is damaged",
        "Fetch it again",
    ),
    Cause(
        r"(?:No published precompiled wheel[^\n]*|No precompiled (?:vllm )?wheel (?:found|is published)[^\n]*|"
        r"Failed to fetch precompiled wheel metadata[^\n]*|metadata\.json[^\n]*404|HTTP Error 404)",
        "there is no precompiled wheel for this commit",
        "Set vllm_build_wheel to the commit of an upstream build that has one, or vllm_build_kernels to compile",
    ),
    Cause(
        r"((?:gcc|g\+\+|GCC|clang|nvcc|CUDA|CMake|cmake)\b[^\n]{0,60}?(?:is too old|or (?:higher|newer|later) is required)[^\n]*|"
        r"unsupported GNU version[^\n]*|unrecognized command[- ]line option '-std=[^\n]*|"
        r"(?:\w{1,9} backend )?requires (?:gcc|g\+\+|GCC)[^\n]*|GCC >= \S+ is required[^\n]*)",
        "the compiler does not fit: {0}",
        "Install a newer compiler on the host and name it by CC and CXX in vllm_build_env",
    ),
    Cause(
        r"No CMAKE_CXX_COMPILER could be found|CMAKE_CXX_COMPILER not set|(g\+\+|gcc|cc|c\+\+|nvcc): (?:command )?not found|CUDA_HOME is not set|"
        r"Could not find nvcc",
        "there is no compiler on the host",
        "Install one (Debian: build-essential; for CUDA: the toolkit, with CUDA_HOME in vllm_build_env), "
        "or set vllm_build_kernels to precompiled",
    ),
    Cause(
        r"requires a different Python: (\S+) not in '([^']+)'|current Python version \((\S+)\) does not satisfy (\S+)",
        "this vLLM is not for Python {0}, it wants {1}",
        "Set vllm_build_python to one that fits",
    ),
    Cause(
        r"ensurepip is not available|No module named (?:venv|ensurepip)",
        "the host's Python can't make a venv",
        "Install its package python3-venv, or set vllm_build_tool to uv",
    ),
    Cause(
        r"ResolutionImpossible|conflicting dependencies|No solution found when resolving",
        "the constraints contradict what the package asks for",
        "Relax vllm_build_constraints",
    ),
    Cause(
        r"No matching distribution found for ([^\s;]+)|Because (\S+) was not found in the (?:package registry|provided)",
        "no index or wheelhouse offers {0}",
        "Check the version, the Python that it is for, vllm_build_index_url and vllm_build_wheelhouse",
    ),
    Cause(
        r"is not a supported wheel on this platform",
        "the wheel is for another platform or Python",
        "Take one that fits",
    ),
    # None of the known ones: what a tool says itself, though not when it only says that another failed.
    Cause(r"CMake Error(?: at [^\n]*\(\w+\):\s*|: )(\S[^\n]*)", "CMake says: {0}", ""),
    Cause(r"(?m)^\s*((?!subprocess\.)[\w.]+(?:Error|Exception): .+)", "{0}", ""),
    Cause(
        r"(?m)^\s*(?:ERROR|error|fatal): (?!subprocess-exited|metadata-generation|Failed b|Failed to b|Could not build wheels|failed-)(.+)",
        "{0}",
        "",
    ),
)

# What pip tried again, and so didn't fail from. Its last try, of which it says total=0, counts: what follows may be due to it.
_RETRIED = re.compile(r"(?m)^.*WARNING: Retrying \(Retry\(total=[1-9].*$")


def explain(output: str, code: int, what: str) -> BuildError:
    """The error for a command that failed. what: the command, for people."""
    for said in (_RETRIED.sub("", output), output):
        for cause in CAUSES:
            match = re.search(cause.pattern, said)
            if match:
                groups = [group for group in match.groups() if group] or [match[0]]
                return BuildError(_fill(cause.words, groups), _fill(cause.remedy, groups))
    if code == -signal.SIGKILL:
        return BuildError(
            f"{what} was killed, mostly because memory ran out", "Set vllm_build_max_jobs to fewer jobs at a time"
        )
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return BuildError(f"{what} {how}", "Its words stand above in the log")


def _fill(text: str, groups: Sequence[str]) -> str:
    return re.sub(
        r"\{(\d)\}", lambda m: (groups[int(m[1])] if int(m[1]) < len(groups) else "another").strip().rstrip("."), text
    )
