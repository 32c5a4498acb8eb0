# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What vLLM's log lines mean. Data: every pattern has a name, a kind, a hint and sample texts that it must match.

Patterns see the text of a line, without the process, level, time and place before it. Lines at level INFO and WARNING are
never fatal by these patterns: vLLM says many alarming things in passing.
"""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Pattern:
    """name: of this pattern; kind: the sort of thing it tells; hint: what to do about it.

    raw: it may also find itself in what stands before the text.
    """

    name: str
    kind: str
    regex: re.Pattern[str]
    hint: str = ""
    samples: tuple[str, ...] = ()
    raw: bool = False


def _p(name: str, kind: str, regex: str, *samples: str, hint: str = "") -> Pattern:
    return Pattern(name, kind, re.compile(regex), hint, samples)


KILLED = (
    "Who is killed from outside is most often killed by the kernel, for want of memory: see `journalctl -k | grep -i"
    " 'out of memory'` or `dmesg -T`, and the memory limit of its unit or container."
)
CRASHED = (
    "Native code crashed. A bus error points to a full /dev/shm or a damaged library, anything else to a build that does not"
    " match this host; `coredumpctl info` may tell more."
)

ELSEWHERE = (
    "Another process of this server has gone or never came, and this log does not know why: the log of its host does. If that one"
    " says nothing either, it was killed there (`journalctl -k | grep -i 'out of memory'`), or the network between them failed."
)

PEER = "peer"
"""The kind of a cause that only says that a process on another host has left, and not why."""

GONE = (
    r"(?:Connection (?:closed|reset) by peer|Broken pipe|(?:send|recv)(?:Value|Bytes)? failed|failed to (?:send|recv)\b"
    r"|remote process exit(?:ed|ing)|\d+/\d+ clients joined|wait timeout after \d+ ?ms)"
)
"""So gloo, NCCL and torch's store say that a process at the other end has gone, or never came."""

ANEW = (b"non-default args: ", b") headless multiproc executor, ")
"""After a failure or a stop, only another launch matters: every line that begins one holds one of these."""

ANCHORS = (
    b"ERROR",
    b"Traceback (most recent call last):",
    b"engine core exited unexpectedly",
    b"[shutdown] API server: shutdown triggered",
    b"     Shutting down",
    b"Failed to connect to GCS within ",
    *ANEW,
)
"""Once a start's first megabytes are past, every line that matters holds one of these, or one of:"""
ANCHORS_OF_READY = (b"Application startup complete.",)

READY = (_p("startup_complete", "ready", r"^Application startup complete\.", "Application startup complete."),)

LAUNCH = _p(
    "arguments",
    "launch",
    r"^non-default args: |^Launching vLLM \(v\S+\) headless multiproc executor, ",
    "non-default args: {'model_tag': '/srv/models/target'}",
    "Launching vLLM (v0.32.0) headless multiproc executor, with head node address 192.0.2.1:29501 for torch.distributed process group.",
)
"""Of what follows a head on another host the second one is the first line that can't be taken for anything else."""

STOPPING = (
    _p(
        "signal",
        "stopping",
        r"^\[shutdown\] API server: shutdown triggered",
        "[shutdown] API server: shutdown triggered",
    ),
    _p("shutting_down", "stopping", r"^Shutting down\.?$", "Shutting down"),
    _p("interrupt", "stopping", r"^KeyboardInterrupt(?:: \w+)?$", "KeyboardInterrupt", "KeyboardInterrupt: terminated"),
)

PROCESS = _p("process", "signature", r"^Process (\S+):$", "Process EngineCore_DP0:")
"""Whose traceback comes next, written without the process before each line."""

FATAL = (
    _p(
        "engine_failed",
        "fatal",
        r"^EngineCore (?:failed to start|hit an exception|encountered a fatal error)\b",
        "EngineCore failed to start.",
        "EngineCore hit an exception: Traceback (most recent call last):",
        "EngineCore encountered a fatal error.",
    ),
    _p("worker_failed", "fatal", r"^(?:Ray)?WorkerProc failed to start\b", "WorkerProc failed to start."),
    _p(
        "process_died",
        "fatal",
        r"\bdied unexpectedly\b",
        "Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.",
        "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
    ),
    _p(
        "ray_ended",
        "fatal",
        r"(?:^Ray ended with -?\d+|\(raylet\) rpc_client\.h:\d+: Failed to connect to GCS within \d+ seconds)",
        "Ray ended with 1, before it was up.",
        "2026-12-01 07:48:28,135\tERR scripts.py:122 -- [2026-12-01 07:48:27,284 E 75 75] (raylet) rpc_client.h:204: Failed to connect to"
        " GCS within 10 seconds. GCS may have been killed.",
    ),
    _p(
        "startup_failed",
        "fatal",
        r"^(?:Application startup failed\. Exiting|Timed out waiting for (?:new )?engine core)",
        "Application startup failed. Exiting.",
        "Timed out waiting for engine core processes to start.",
    ),
    _p(
        "bind_failed",
        "fatal",
        r"^\[Errno 98\] ",
        "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
    ),
    _p(
        "usage",
        "fatal",
        r"^(?:\S*vllm\b|\S*api_server(?:\.py)?)[\w -]*: error: ",
        "vllm: error: unrecognized arguments: --no-such-flag 1",
        "vllm serve: error: argument --speculative-config/-sc: Value { cannot be converted to <function loads>.",
        "api_server.py: error: unrecognized arguments: --no-such-flag",
    ),
    _p(
        "crashed",
        "fatal",
        r"^(?:\S+: line \d+: +)?(?:\d+ )?(?:Killed|Segmentation fault|Aborted|Bus error|Illegal instruction)(?: |$)"
        r"|^Fatal Python error: |^terminate called after throwing",
        "Killed",
        "/opt/vllm/start.sh: line 9: 4121 Killed                  vllm serve /srv/models/target",
        "Segmentation fault (core dumped)",
        "Fatal Python error: Segmentation fault",
        "terminate called after throwing an instance of 'c10::Error'",
    ),
    _p(
        "no_program",
        "fatal",
        r"\bvllm: (?:(?:command )?not found|No such file or directory)$|No module named '?vllm\b",
        "bash: line 1: vllm: command not found",
        "/bin/sh: 1: exec: /opt/vllm/builds/b1/venv/bin/vllm: not found",
        "/usr/bin/python3: No module named vllm",
    ),
)

UNDERSTATED = (
    _p(
        "engine_gone",
        "fatal",
        r"^\[shutdown\] MPClient: engine core exited unexpectedly",
        "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
    ),
    _p(
        "unit_killed",
        "fatal",
        r"^\S+\.service: (?:A process of this unit has been killed by the OOM killer|Main process exited, code=(?:killed|dumped), status=(?!15/TERM|2/INT))",
        "vllm.service: A process of this unit has been killed by the OOM killer.",
        "vllm.service: Main process exited, code=killed, status=9/KILL",
    ),
)
"""Fatal, though said at WARNING or without a level."""

TROUBLE = (
    _p(
        "worker_exception",
        "trouble",
        r"^WorkerProc hit an exception\b",
        "WorkerProc hit an exception.",
    ),
)
"""Announces an exception that matters if the server dies of it, and need not."""

WRAPPERS = (
    _p(
        "see_above",
        "wrapper",
        r"(?i)\b(?:see|check) (?:the )?(?:root cause|stack trace)\b|\broot cause (?:above|of)",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
        "Exception: WorkerProc initialization failed due to an exception in a background process."
        " See stack trace for root cause.",
        "RuntimeError: Worker failed with error 'index out of range in self', please check the stack trace above for"
        " the root cause",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the"
        " root cause.",
    ),
    _p(
        "echo",
        "wrapper",
        r"^(?:\S+\.)?(?:EngineDeadError|CancelledError|BrokenPipeError|SystemExit|ConnectionResetError)\b"
        r"|^RuntimeError: cancelled$|^RuntimeError: Executor failed\.$|died with exit code|died unexpectedly"
        r"|^(?:\S+\.)?(?:DistBackendError|DistNetworkError|DistStoreError|RuntimeError): [\s\S]*" + GONE,
        "EngineDeadError",
        "asyncio.exceptions.CancelledError",
        "RuntimeError: cancelled",
        "RuntimeError: Executor failed.",
        "RuntimeError: Process ApiServer_0 (PID: 12) died with exit code 1",
        "RuntimeError: [../third_party/gloo/transport/tcp/pair.cc:534] Connection closed by peer [192.0.2.2]:41234",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3699, remote process exited or there was a network"
        " error, NCCL version 2.27.3",
    ),
)
"""Exceptions that only pass on what another process or an earlier line says."""

CAUSES = (
    _p(
        "port_in_use",
        "port",
        r"\[Errno 98\]|[Aa]ddress already in use|EADDRINUSE",
        "OSError: [Errno 98] Address already in use",
        "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
        hint="Another process holds the port, often an earlier server: find it with `ss -ltnp`, end it, or take another port.",
    ),
    _p(
        "memory_taken",
        "memory",
        r"Free memory on device .* (?:on startup )?is less than",
        "ValueError: Free memory on device cuda:0 (20.1/79.2 GiB) on startup is less than desired GPU memory utilization"
        " (0.9, 71.3 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        hint="Something else already uses this GPU, often an engine left over from an earlier server: look with `nvidia-smi`"
        " for VLLM:: processes before lowering --gpu-memory-utilization.",
    ),
    _p(
        "no_memory_for_cache",
        "memory",
        r"No available memory for the cache blocks|is larger than the available KV cache memory"
        r"|Cannot auto-fit max_model_len|less than requested memory for kv",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        "ValueError: To serve at least one request with the model's max seq len (262144), (16.00 GiB KV cache is needed,"
        " which is larger than the available KV cache memory (7.31 GiB).",
        "ValueError: Available memory on node 0 (10.28/12.84 GiB) on kv cache allocation is less than requested memory"
        " for kv (500.0 GiB).",
        hint="The KV cache does not fit beside the weights: lower --max-model-len or --max-num-seqs, raise"
        " --gpu-memory-utilization, or spread the model over more GPUs (--tensor-parallel-size).",
    ),
    _p(
        "out_of_memory",
        "memory",
        r"CUDA out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|HIP out of memory|\bMemoryError\b|Cannot allocate memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: Cannot allocate"
        " memory (12)",
        hint="Out of memory: lower --gpu-memory-utilization, --max-num-seqs or --max-num-batched-tokens, or use more GPUs;"
        " and see with `nvidia-smi` whether another process holds memory.",
    ),
    _p(
        "window_missing",
        "window",
        r"DFlash sliding attention requires a window size",
        "ValueError: DFlash sliding attention requires a window size configured in dflash_config.swa_window_size or the"
        " top-level sliding_window.",
        hint="The drafter's config.json has sliding layers without a window: set sliding_window and use_sliding_window: true"
        " (llmops.vllm.drafter_config finds and mends it).",
    ),
    _p(
        "mixed_attention",
        "runner",
        r"DFlash drafters with mixed sliding/full attention require",
        "NotImplementedError: DFlash drafters with mixed sliding/full attention require the V2 model runner.",
        hint="From vLLM 0.26 on set VLLM_USE_V2_MODEL_RUNNER=1; 0.25 cannot serve this drafter.",
    ),
    _p(
        "drafter_shape",
        "drafter_shape",
        r"Tried to load weights of size|mat1 and mat2 shapes cannot be multiplied|size mismatch for"
        r"|param_data\.shape == loaded_weight\.shape",
        "AssertionError: Tried to load weights of size torch.Size([64, 192])to a parameter of size torch.Size([64, 128])",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8192x10240 and 12800x2560)",
        hint="Weights and config disagree, usually a drafter made for another target or a changed target_layer_ids: compare"
        " the number of target_layer_ids with the width of fc.weight (llmops.vllm.drafter_info shows both).",
    ),
    _p(
        "token_out_of_range",
        "mask",
        r"^IndexError: index out of range in self|index out of bounds|device-side assert triggered",
        "IndexError: index out of range in self",
        "RuntimeError: CUDA error: device-side assert triggered",
        hint="A token or layer number lies outside its table: check the drafter's mask_token_id against the vocabulary and"
        " target_layer_ids against the target's layers (llmops.vllm.drafter_info).",
    ),
    _p(
        "no_attention_backend",
        "attention_backend",
        r"No valid attention backend|Selected backend .* is not valid for this configuration|Invalid attention backend",
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=256). Reasons: {}.",
        "ValueError: Selected backend AttentionBackendEnum.FLASH_ATTN is not valid for this configuration.",
        hint="No attention kernel serves this combination of GPU, head size and KV type; the drafter needs a non-causal one:"
        " try --attention-backend flash_attn, or the speculative config's attention_backend, and a KV cache in bfloat16.",
    ),
    _p(
        "negative_budget",
        "budget",
        r"max_num_scheduled_tokens is set to -\d+|not in \[1, ?\d+\]",
        "ValueError: max_num_scheduled_tokens is set to -1792 based on the speculative decoding settings",
        hint="Drafted tokens use up the token budget: --max-num-batched-tokens must exceed num_speculative_tokens x"
        " --max-num-seqs; 32768 is common.",
    ),
    _p(
        "missing_library",
        "missing_library",
        r"cannot open shared object file|undefined symbol: |version `\S+' not found",
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "ImportError: /opt/vllm/venv/lib/python3.12/site-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda",
        hint="The build does not match the libraries of this host: rebuild it against the torch and CUDA that are installed"
        " (role vllm_build), or set LD_LIBRARY_PATH.",
    ),
    _p(
        "compiling",
        "compiling",
        r"CppCompileError|InductorError: |Failed to find C compiler|InvalidCxxCompiler|triton\.compiler\.errors|fatal error: Python\.h",
        "torch._inductor.exc.InductorError: CppCompileError: C++ compile error\nCommand:\ng++ main.cpp\nOutput:\nmain.cpp:1: error: no",
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        hint="Some kernels are compiled when they are first needed, and that failed: the compiler's own words stand above. The host"
        " needs gcc and g++ and the headers of its Python, and the server's cache a path that compilers take (no blanks or quotes).",
    ),
    _p(
        "missing_kernel",
        "missing_kernel",
        r"no kernel image is available|has no attribute '_C'|_OpNamespace|not compiled with CUDA|sm_\d+ is not compatible",
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        "AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'",
        hint="This build holds no kernels for this GPU: build for its compute capability (TORCH_CUDA_ARCH_LIST), or install"
        " a wheel that has them.",
    ),
    _p(
        "driver",
        "gpu",
        r"NVIDIA driver on your system is too old|no NVIDIA driver|No CUDA GPUs are available|has no GPU available"
        r"|Failed to infer device type|CUDA driver version is insufficient",
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: Failed to infer device type, please set the environment variable",
        "ValueError: Current node has no GPU available. current_node_resource={}",
        hint="vLLM sees no usable GPU: check `nvidia-smi`, CUDA_VISIBLE_DEVICES and the driver; across hosts, VLLM_HOST_IP.",
    ),
    _p(
        "quantised_drafter",
        "quantisation",
        r"QKVParallelLinear' object has no attribute 'weight'",
        "AttributeError: 'QKVParallelLinear' object has no attribute 'weight'",
        hint="vLLM up to 0.29 cannot serve a weight-quantised drafter: use an unquantised one, or a newer vLLM.",
    ),
    _p(
        "bad_json",
        "config",
        r"is not a valid JSON file|JSONDecodeError",
        "OSError: It looks like the config file at '/srv/models/draft/config.json' is not a valid JSON file.",
        hint="The file is cut off or edited wrongly: fetch the model again, or write the drafter's config with"
        " llmops.vllm.drafter_config.",
    ),
    _p(
        "unknown_architecture",
        "config",
        r"Model architectures \[.*\] (?:are not supported|failed to be inspected)|does not recognize this architecture",
        "ValueError: Model architectures ['DFlashDraftModel'] are not supported for now.",
        hint="This vLLM, or its transformers, does not know the model: DFlash needs vLLM 0.20 or later; check the version.",
    ),
    _p(
        "remote_code",
        "arguments",
        r"trust_remote_code=True",
        "ValueError: The repository /srv/models/target contains custom code; please pass the argument"
        " `trust_remote_code=True`",
        hint="The model brings code of its own: read it, then pass --trust-remote-code.",
    ),
    _p(
        "hub_access",
        "hub",
        r"GatedRepoError|RepositoryNotFoundError|LocalEntryNotFoundError|OfflineModeIsEnabled|couldn't connect to '?https?://"
        r"|\b(?:401|403|429) Client Error|Too Many Requests|CAS service error|Cannot access gated repo|MaxRetryError"
        r"|outgoing traffic has been disabled",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error.",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder",
        hint="The server tried to fetch from the Hugging Face hub: fetch the model beforehand (role vllm_models) and serve"
        " its path with HF_HUB_OFFLINE=1; for gated models give a token.",
    ),
    _p(
        "no_such_model",
        "model",
        r"HFValidationError: Repo id must be|Invalid repository ID or local directory|No such file or directory: .*config\.json"
        r"|does not appear to have a file named config\.json|Cannot find any model weights",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name':"
        " '/srv/models/nope'. Use `repo_type` argument if needed.",
        "RuntimeError: Cannot find any model weights with `/srv/models/target`",
        hint="There is no model at this path: check it on the host (spelling, mount, permissions), or fetch it first.",
    ),
    _p(
        "ready_timeout",
        "timeout",
        r"Timed out waiting for (?:new )?engine core",
        "TimeoutError: Timed out waiting for engine core processes to start.",
        hint="The engine took longer than VLLM_ENGINE_READY_TIMEOUT_S: set it to at least the timeout of the wait.",
    ),
    _p(
        "no_interface",
        "interface",
        r"Unable to find (?:address|interface) for: |no socket interface found",
        "RuntimeError: [enforce fail at /__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr."
        " Unable to find address for: nosuch0",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:77, internal error\nBootstrap : no socket"
        " interface found",
        hint="This host has no network interface of that name with an address: see `ip -brief address`, and name one that the other"
        " hosts reach in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME.",
    ),
    _p(
        "peer_left",
        PEER,
        r"^RuntimeError: cancelled$|(?:gloo|c10d|NCCL|ncclRemoteError|Dist(?:Backend|Network|Store)Error|TCPStore)\b[\s\S]*"
        + GONE,
        "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer"
        " [192.0.2.2]:11400. This is typically caused by a remote worker crashing.",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3699, remote process exited or there was a network"
        " error, NCCL version 2.27.3",
        "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d"
        " key-value store by key '0', but store->get('0') got error: failed to recv, got 0 bytes",
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
        "RuntimeError: cancelled",
        hint=ELSEWHERE,
    ),
    _p(
        "ray_peer_left",
        PEER,
        r"\bRayWorkerProc rank=\[[\d, ]+\] died unexpectedly|Failed to connect to GCS within \d+ seconds",
        "RayWorkerProc rank=[1] died unexpectedly, shutting down executor.",
        "2026-12-01 07:48:28,135\tERR scripts.py:122 -- [2026-12-01 07:48:27,284 E 75 75] (raylet) rpc_client.h:204: Failed to connect to"
        " GCS within 10 seconds. GCS may have been killed.",
        hint=ELSEWHERE,
    ),
    _p(
        "ray_token",
        "token",
        r"AuthenticationError: .*(?:InvalidAuthToken|[Aa]uthentication token)",
        "ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: Authentication token is missing or incorrect.",
        hint="This host's Ray and the head's have not the same token: set vllm_deployment_ray_token, or vllm_serve_api_key of which it is"
        " made, once for the group, and deploy all of its hosts.",
    ),
    _p(
        "ray_platform",
        "platform",
        r"current platform \S+ does not support ray",
        "ValueError: current platform cpu does not support ray.",
        hint="This build of vLLM knows no devices that Ray could divide: set vllm_deployment_executor to mp, which needs no Ray.",
    ),
    _p(
        "no_answer",
        PEER,
        r"RPC call to \w+ timed out",
        "TimeoutError: RPC call to execute_model timed out.",
        hint="A worker did not answer within VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS. If it is on another host, that one or the network"
        " between them is gone: see the log there. Else its GPU hangs: see `nvidia-smi` and `dmesg -T | grep -i xid`.",
    ),
    _p(
        "network",
        "network",
        r"\bNCCL\b.*\berror\b|ncclSystemError|ncclUnhandledCudaError|ncclInternalError|gloo.*connect|DistNetworkError|DistStoreError",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled system error",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect",
        hint="The workers cannot talk to each other: check NCCL_SOCKET_IFNAME / GLOO_SOCKET_IFNAME and VLLM_HOST_IP, /dev/shm,"
        " and try NCCL_P2P_DISABLE=1.",
    ),
    _p(
        "arguments",
        "arguments",
        r": error: |^(?:\S*\.)?ValidationError: |Value error, |ArgumentError",
        "vllm: error: unrecognized arguments: --no-such-flag 1",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, User-specified"
        " max_model_len (999999) is greater than the derived max_model_len",
        hint="vLLM refuses an argument: correct it in vllm_serve_args, vllm_serve_speculative or the command line;"
        " `vllm serve --help=all` lists what this version takes.",
    ),
    _p(
        "no_program",
        "missing_program",
        r"\bvllm: (?:(?:command )?not found|No such file or directory)$|No module named '?vllm\b",
        "bash: line 1: vllm: command not found",
        "ModuleNotFoundError: No module named 'vllm'",
        hint="vLLM is not installed where the launch looks for it: check the build's venv (role vllm_build).",
    ),
    _p(
        "missing_module",
        "missing_library",
        r"^ModuleNotFoundError: |^ImportError: ",
        "ModuleNotFoundError: No module named 'flash_attn'",
        hint="A Python package is missing or of the wrong version in the build's venv: build it anew (role vllm_build).",
    ),
    _p(
        "killed",
        "killed",
        r"(?:^| )Killed(?: |$)|exit code: -9\b|\bSIGKILL\b|status=9/KILL|killed by the OOM killer",
        "Killed",
        "vllm.service: Main process exited, code=killed, status=9/KILL",
        "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.",
        hint=KILLED,
    ),
    _p(
        "crashed",
        "crashed",
        r"Segmentation fault|Fatal Python error|terminate called|Aborted|Bus error|Illegal instruction",
        "Segmentation fault (core dumped)",
        "Fatal Python error: Segmentation fault",
        "terminate called after throwing an instance of 'c10::Error'",
        hint=CRASHED,
    ),
    _p(
        "engine_died",
        "engine_died",
        r"died unexpectedly|exited unexpectedly|Engine core initialization failed|EngineDeadError|^Exception: WorkerProc initialization failed",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
        "Exception: WorkerProc initialization failed due to an exception in a background process."
        " See stack trace for root cause.",
        hint=KILLED,
    ),
)

ENDS = ("killed", "engine_died")
"""Kinds that tell how a process ended, and not why."""

BENIGN = (
    _p(
        "not_loaded",
        "benign",
        r"^(?:Failed to import from vllm\.|Cannot use FA version|Error (?:parsing|retrieving) .*retrying \d+ of \d+$)",
        "Failed to import from vllm._C with ModuleNotFoundError(\"No module named 'vllm._C'\")",
        "Cannot use FA version 2 is not supported due to FA2 is unavailable",
        "Error parsing config for /srv/models/draft: It looks like the file is not JSON, retrying 1 of 2",
    ),
    _p(
        "at_exit",
        "benign",
        r"^(?:Exception ignored |--- Logging error ---)",
        "Exception ignored in: <function WeakKeyDictionary at 0x7f>",
    ),
)

IDLE = (
    _p(
        "still_waiting",
        "idle",
        r"^No available shared memory broadcast block found in \d+|^Waiting for \d+ (?:local|remote)"
        r"|^Waiting for (?:creating|removing) a placement group |^Waiting for the head at "
        r"|^Engine \d+: Avg prompt throughput: 0\.0 tokens/s, Avg generation throughput: 0\.0 tokens/s, Running: 0",
        "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging",
        "Waiting for 1 local, 0 remote core engine proc(s) to start.",
        "Waiting for creating a placement group of specs for 10 seconds. specs=[{'GPU': 1.0}, {'GPU': 1.0}].",
        "Waiting for the head at 192.0.2.1:29501: [Errno 111] Connection refused",
        hint="The processes wait for each other: a long compilation, or a GPU that hangs.",
    ),
)
"""Signs of life that are no progress: they do not count against a stall."""


def literal(pattern: str) -> str:
    """A word that every match of a regular expression holds, where that is easily seen; else nothing."""
    if "|" in pattern or "(?" in pattern:
        return ""
    words, word, depth, at = [], "", 0, 0
    while at < len(pattern):
        char, plain = pattern[at], not depth
        at += 1
        if char == "\\":
            char = pattern[at : at + 1]
            plain = plain and not char.isalnum()  # else a class of characters, or a group again
            at += 1
        elif char in "*?{":
            word, plain = word[:-1], False  # what stood before may be absent
            at = pattern.find("}", at) + 1 or at if char == "{" else at
        elif char == "[":
            at = pattern.find("]", at + 1 + pattern.startswith("^", at)) + 1 or len(pattern)
            plain = False
        elif char in "().^$+":
            depth += (char == "(") - (char == ")")
            plain = False
        if plain:
            word += char
        else:
            words.append(word)
            word = ""
    longest = max([*words, word], key=len)
    return longest if len(longest) >= 4 and longest.isascii() else ""
