# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drafter's weights prove. Only safetensors headers are read, 8 bytes of length and JSON; never a tensor."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
import struct
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.formats import is_int
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError

INDEX = "model.safetensors.index.json"
_LIMIT = 100_000_000  # the format's own limit for a header
_PLAIN = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})  # one element for each stored number
_QUANTISED = frozenset({"I8", "U8", "I32", "U32", "F8_E4M3", "F8_E5M2"})
_SHARD = re.compile(r"(.+-)\d{5}-of-(\d{5})\.safetensors")
_LAYER = re.compile(r"layers\.(\d{1,6})\.")
_COMMON = ("_proj.weight", "norm.weight")  # what every layer has
# Names that the engine, too, takes for others.
_PREFIXES = (
    ("model.", ""),
    ("midlayer.", "layers.0."),
    ("encoder.output_norm_enc.", "hidden_norm."),
    ("encoder.fc.", "fc."),
)


@dataclasses.dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    dtype: str
    file: str


@dataclasses.dataclass(frozen=True)
class Proof:
    """A value that the weights leave no choice about, and where that stands."""

    value: int
    evidence: str


@dataclasses.dataclass(frozen=True)
class Weights:
    """tensors: by the name that the engine gives them. digests: SHA-256 of each file's header, by the file's name."""

    tensors: dict[str, Tensor]
    digests: dict[str, str]

    def shape(self, name: str, dimensions: int) -> tuple[int, ...] | None:
        """The shape of a tensor that is stored plainly; a packed one is stored in another shape than it stands for."""
        tensor = self.tensors.get(name)
        plain = tensor is not None and tensor.dtype in _PLAIN and len(tensor.shape) == dimensions
        return tensor.shape if tensor and plain and 0 not in tensor.shape else None

    def cite(self, name: str) -> str:
        return f"{self.tensors[name].file}: {name} is {list(self.tensors[name].shape)}"

    @functools.cached_property
    def layers(self) -> list[int]:
        return sorted({int(match.group(1)) for match in map(_LAYER.match, self.tensors) if match})

    @functools.cached_property
    def gap(self) -> int | None:
        """The first layer that is absent among the others."""
        layers = self.layers
        return next((i for i in range(layers[0], layers[-1]) if i not in layers), None) if layers else None

    @functools.cached_property
    def lost(self) -> str | None:
        """A tensor that one layer lacks and another has. Quantised, layers may be stored in different ways."""
        inner = {name.split(".", 2)[2] for name in self.tensors if _LAYER.match(name) and name.endswith(_COMMON)}
        names = (f"layers.{layer}.{rest}" for layer in self.layers for rest in sorted(inner))
        return None if self.quantised else next((name for name in names if name not in self.tensors), None)

    @functools.cached_property
    def quantised(self) -> bool:
        stored = {t.dtype for name, t in self.tensors.items() if re.search(r"_proj\.(q?weight|weight_packed)$", name)}
        return bool(stored & _QUANTISED)

    @functools.cached_property
    def convolves(self) -> bool:
        """Whether these are the weights of a DFlash2 drafter."""
        return any("attention_conv." in name for name in self.tensors)

    @functools.cached_property
    def proofs(self) -> dict[str, Proof]:
        """Every value of a config that the shapes prove, by its canonical name."""
        found: dict[str, Proof] = {}

        def prove(fact: str, name: str, dimensions: int, axis: int = 0, divisor: int = 1) -> None:
            shape = self.shape(name, dimensions)
            if shape and divisor and shape[axis] % divisor == 0:
                found.setdefault(fact, Proof(shape[axis] // divisor, self.cite(name)))

        first = f"layers.{self.layers[0]}." if self.layers else ""
        if self.layers and self.gap is None:
            span = f"the layers {self.layers[0]} to {self.layers[-1]}" if len(self.layers) > 1 else "one layer"
            found["num_hidden_layers"] = Proof(len(self.layers), f"the weights' header: it has {span}")
        prove("hidden_size", "norm.weight", 1)
        prove("hidden_size", "hidden_norm.weight", 1)
        prove("head_dim", f"{first}self_attn.q_norm.weight", 1)
        head = found["head_dim"].value if "head_dim" in found else 0
        prove("num_attention_heads", f"{first}self_attn.q_proj.weight", 2, divisor=head)
        prove("num_key_value_heads", f"{first}self_attn.k_proj.weight", 2, divisor=head)
        prove("intermediate_size", f"{first}mlp.gate_proj.weight", 2)
        prove("vocab_size", "embed_tokens.weight", 2)
        prove("vocab_size", "candidate_selector.predecessor_codebook", 2)
        prove("draft_vocab_size", "lm_head.weight", 2)
        prove("selector_rank", "candidate_selector.predecessor_codebook", 2, axis=1)
        prove("conv_kernel_size", f"{first}attention_conv.base_kernel", 3, axis=1)
        kernel = self.shape(f"{first}attention_conv.base_kernel", 3)
        rows = self.shape(f"{first}attention_conv.kernel_projection.weight", 2)
        if kernel and rows and rows[0] % (2 * kernel[1]) == 0 and kernel[2] % (rows[0] // (2 * kernel[1])) == 0:
            group = kernel[2] * 2 * kernel[1] // rows[0]
            found["conv_group_size"] = Proof(group, self.cite(f"{first}attention_conv.kernel_projection.weight"))
        return found


def read_weights(directory: str) -> Weights:
    """The headers of a drafter's weights: of one file, or of the shards that its index lists."""
    names = sorted(n for n in list_directory(directory) if n.endswith(".safetensors"))
    listed = _read_index(directory) if os.path.lexists(os.path.join(directory, INDEX)) else {}
    names = sorted(set(listed.values())) or names
    if not names:
        raise RefusedError(_no_weights(directory))
    _refuse_missing_shards(directory, names)
    tensors: dict[str, Tensor] = {}
    digests: dict[str, str] = {}
    for name in names:
        header, digests[name] = _read_header(os.path.join(directory, name), name)
        for tensor in header:
            if tensor in tensors:
                others = f"{tensors[tensor].file} and {name}"
                raise RefusedError(f"{directory}: the tensor {tensor} is in two files, {others}")
        tensors.update(header)
    for tensor, name in listed.items():
        if tensor not in tensors:
            raise RefusedError(f"{os.path.join(directory, INDEX)} has {tensor} in {name}, which lacks it")
    return Weights({_engine_name(name): tensor for name, tensor in tensors.items()}, digests)


def _refuse_missing_shards(directory: str, names: list[str]) -> None:
    """A shard says in its name of how many it is, so half a download is told even without an index."""
    for match in filter(None, map(_SHARD.fullmatch, names)):
        stem, total = match.groups()
        there = sum(name.startswith(stem) and name.endswith(f"-of-{total}.safetensors") for name in names)
        if there != int(total):
            raise RefusedError(f"{directory} holds {there} of the {int(total)} shards that {match.group()} is one of")


def list_directory(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError as e:
        raise RefusedError(f"{directory} can't be read: {e.strerror}") from None


def _engine_name(name: str) -> str:
    for old, new in _PREFIXES:
        if name.startswith(old):
            name = new + name[len(old) :]
    return name


def _no_weights(directory: str) -> str:
    pickled = "pickled weights prove nothing without running them; convert them to safetensors"
    remedies = {".gguf": "vLLM reads no config.json beside GGUF weights; take the safetensors release"}
    remedies.update({".bin": pickled, ".pt": pickled, ".pth": pickled})
    for name in sorted(list_directory(directory)):
        remedy = remedies.get(os.path.splitext(name)[1])
        if remedy and name != "mask_embedding.pt":
            return f"{os.path.join(directory, name)}: {remedy}"
    return f"{directory} holds no *.safetensors, and without weights nothing about a config can be proven"


def _read_index(directory: str) -> dict[str, str]:
    path = os.path.join(directory, INDEX)
    raw, _size = _read_start(path, _LIMIT)
    try:
        listed = dict(json.loads(raw.decode("utf-8"))["weight_map"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RefusedError(f"{path} is no index of safetensors, or cut short") from None
    for name in listed.values():
        if not isinstance(name, str) or name != os.path.basename(name) or not name.endswith(".safetensors"):
            raise RefusedError(f"{path} lists {name!r}, which is no safetensors file beside it")
    return listed


def _read_header(path: str, name: str) -> tuple[dict[str, Tensor], str]:
    start, size = _read_start(path, 8)
    if len(start) < 8:
        raise RefusedError(f"{path} is no safetensors file: {size} bytes are too few for a header")
    (length,) = struct.unpack("<Q", start)
    if length > size - 8:
        raise RefusedError(
            f"{path} is broken or cut short: a header of {length} bytes in a file of {size}. Fetch it again"
        )
    if length > _LIMIT:
        raise RefusedError(f"{path} is broken: a header of {length} bytes is beyond the format's limit")
    raw = _read_start(path, 8 + length)[0][8:]
    try:
        header = json.loads(raw.decode("utf-8"))
        header.pop("__metadata__", None)
        tensors = {tensor: _tensor(entry, name) for tensor, entry in header.items()}
        end = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise RefusedError(f"{path} has a broken header, which is no JSON of tensors") from None
    if end > size:
        raise RefusedError(f"{path} is cut short: its tensors end at byte {end}, the file has {size}")
    return tensors, hashlib.sha256(raw).hexdigest()


def _tensor(entry: Any, name: str) -> Tensor:
    shape, dtype, end = tuple(entry["shape"]), entry["dtype"], entry["data_offsets"][1]
    if not isinstance(dtype, str) or not all(is_int(n) and 0 <= n < 2**64 for n in (*shape, end)):
        raise ValueError(entry)
    return Tensor(shape, dtype, name)


def _read_start(path: str, count: int) -> tuple[bytes, int]:
    """The first bytes of a regular file, and its size."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise RefusedError(f"{path} is no regular file")
        with open(path, "rb") as f:
            return f.read(count), os.fstat(f.fileno()).st_size
    except OSError as e:
        raise RefusedError(f"{path} can't be read: {e.strerror}") from None
