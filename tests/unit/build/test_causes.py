"""What tools say when they fail, and the cause that is told from it. The words are theirs: recorded, or as the issue quotes them."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._build.causes import explain

CASES = [
    ("fatal: couldn't find remote ref refs/pull/4/head", "the repository has no refs/pull/4/head", "refs/pull/N/head"),
    (
        # z-lab/dflash#93: taken for a missing ref, and was none
        "error: Failed to fetch: `https://host/whl/`\n  Caused by: client error (Connect)\n  Caused by: tls handshake eof",
        "no way through the network: client error (Connect)",
        "vllm_build_index_url",
    ),
    (
        "fatal: unable to access 'https://host/vllm.git/': Could not resolve host: host",
        "no way through the network: Could not resolve host: host",
        "proxy",
    ),
    ("fatal: '/nowhere/vllm.git' does not appear to be a git repository", "there is no repository", "vllm_build_repo"),
    (
        "fatal: could not read Username for 'https://host': terminal prompts disabled",
        "the server refused access",
        "vault",
    ),
    (
        # vllm-project/vllm#34139
        "urllib.error.HTTPError: HTTP Error 404: Not Found\nError fetching .../vllm/metadata.json",
        "there is no precompiled wheel for this commit",
        "vllm_build_kernels",
    ),
    (
        # ai-dynamo/nixl#2123
        "ValueError: No precompiled vllm wheel found for architecture aarch64 from repo",
        "there is no precompiled wheel for this commit",
        "compile",
    ),
    ("ValueError: unknown url type: 'kernels.whl'", "there is no wheel at kernels.whl", "vllm_build_wheel"),
    (
        # vllm-project/vllm#8878
        "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\nninja: build stopped",
        "the compiler was killed, mostly because memory ran out",
        "vllm_build_max_jobs",
    ),
    ("Killed\nninja: build stopped: subcommand failed.", "the compiler was killed", "vllm_build_max_jobs"),
    ("cc1plus: out of memory allocating 65536 bytes after a total of 98304 bytes", "the compiler was killed", "memory"),
    ("g++: internal compiler error: Killed (program cc1plus)", "the compiler was killed", "memory"),
    ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "the compiler was killed", "memory"),
    ("CMake Error: GCC 11 is too old, vLLM wants 12.3", "the compiler does not fit", "CXX"),
    (
        "CMake Error at CMakeLists.txt:9:\n  CMake 3.26 or higher is required.  You are running 3.18",
        "the compiler does not fit",
        "newer",
    ),
    (
        "#error -- unsupported GNU version! gcc versions later than 13 are not supported!",
        "the compiler does not fit",
        "newer",
    ),
    (
        "CMake Error at cmake/cpu_extension.cmake:136 (message):\n  X86 backend requires gcc/g++ >= 12.3\nCall Stack",
        "the compiler does not fit: X86 backend requires gcc/g++ >= 12.3",
        "CXX",
    ),
    (
        "CMake Error at CMakeLists.txt:25 (message):\n  GCC >= 11.3 is required to build vLLM (found 10.2.1).  PyTorch's C++20\n  headers",
        "the compiler does not fit: GCC >= 11.3 is required to build vLLM (found 10.2.1)",
        "CXX",
    ),
    ("CMake Error: No CMAKE_CXX_COMPILER could be found.", "there is no compiler on the host", "build-essential"),
    (
        'CMake Error: CMake was unable to find a build program corresponding to "Unix Makefiles".\n'
        "CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage",
        "there is no compiler on the host",
        "build-essential",
    ),
    (
        "CMake Error at CMakeLists.txt:90 (message):\n  Torch is missing.\n\n\nERROR: Could not build wheels for vllm, which is",
        "CMake says: Torch is missing",
        "",
    ),
    ("OSError: [Errno 28] No space left on device: 'vllm/_C.abi3.so'", "the disk is full", "vllm_build_keep"),
    (
        "ERROR: Package 'vllm' requires a different Python: 3.10.13 not in '<3.15,>=3.11'",
        "this vLLM is not for Python 3.10.13, it wants <3.15,>=3.11",
        "vllm_build_python",
    ),
    ("ERROR: No matching distribution found for vllm==9.9.9", "no index or wheelhouse offers vllm==9.9.9", "version"),
    (
        "The virtual environment was not created successfully because ensurepip is not available.",
        "the host's Python can't make a venv",
        "python3-venv",
    ),
    ("zipfile.BadZipFile: File is not a zip file", "the wheel is damaged", "again"),
    ("      ValueError: odd\n    error: subprocess-exited-with-error\n", "ValueError: odd", ""),
]


@pytest.mark.parametrize(("said", "cause", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_the_cause_and_its_remedy(said, cause, remedy):
    words = str(explain(f"some words before\n{said}\nand after\n", 1, "the tool"))
    assert words.startswith(cause)
    assert remedy in words.removeprefix(cause)


RETRYING = (
    "WARNING: Retrying (Retry(total={}, connect=None, read=None, redirect=None, status=None)) after connection broken by "
    "'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object at 0x7f27>: "
    "Failed to establish a new connection: [Errno 111] Connection refused')': /simple/vllm/\n"
)
NONE = "ERROR: No matching distribution found for vllm==9.9.9\n"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (RETRYING.format(4) + NONE, "no index or wheelhouse offers vllm==9.9.9"),
        ("  " + RETRYING.format(4) + "  ValueError: odd\n", "ValueError: odd"),
        ("".join(RETRYING.format(left) for left in (1, 0)) + NONE, "no way through the network: Connection refused"),
        (RETRYING.format(4), "no way through the network: Connection refused"),
    ],
    ids=["another failure", "in a build of its own", "no try was left", "nothing else"],
)
def test_what_was_tried_again_is_not_the_cause(said, cause):
    assert str(explain(said, 1, "the tool")).startswith(cause)


def test_a_silent_death():
    assert str(explain("", -9, "the compilation")).startswith(
        "the compilation was killed, mostly because memory ran out"
    )
    assert str(explain("", -11, "pip")).startswith("pip was ended by SIGSEGV")
    assert str(explain("", 3, "pip")).startswith("pip ended with 3")
