# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drafter's weights prove. Only safetensors headers are read: 8 bytes of length, then JSON; never a tensor."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import struct
from typing import Any

INDEX = "model.safetensors.index.json"
_LIMIT = 100_000_000  # the format's own limit for a header
_PLAIN = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})  # one element per stored number
_LAYER = re.compile(r"layers\.(\d+)\.")
_RENAMED = (("midlayer.", "layers.0."), ("encoder.output_norm_enc.", "hidden_norm."), ("encoder.fc.", "fc."))


class UnreadableWeightsError(Exception):
    """The weights can't be read; the message is one line that names the file and the cause."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    dtype: str
    file: str


@dataclasses.dataclass(frozen=True)
class Proof:
    """A value that the weights leave no choice about, and where it stands."""

    value: Any
    evidence: str


@dataclasses.dataclass(frozen=True)
class Weights:
    """tensors: by the name that the engine gives them. digests: SHA-256 of each file's header, by file name."""

    tensors: dict[str, Tensor]
    digests: dict[str, str]

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor, if it is stored plainly (a packed one has another shape than what it stands for)."""
        tensor = self.tensors.get(name)
        return tensor.shape if tensor and tensor.dtype in _PLAIN else None

    def cite(self, name: str) -> str:
        tensor = self.tensors[name]
        return f"{tensor.file}: {name} is {list(tensor.shape)}"

    def layers(self) -> list[int]:
        return sorted({int(m.group(1)) for m in map(_LAYER.match, self.tensors) if m})

    def proofs(self) -> dict[str, Proof]:
        """Every value of the config that the shapes prove, by its canonical name."""
        found: dict[str, Proof] = {}

        def prove(fact: str, name: str, value: int) -> None:
            found.setdefault(fact, Proof(value, self.cite(name)))

        layers = self.layers()
        if layers:
            last = max(self.tensors, key=lambda name: _layer_of(name))
            found["num_hidden_layers"] = Proof(
                len(layers), f"{self.tensors[last].file}: the tensors have the layers {layers[0]} to {layers[-1]}"
            )
        for name in ("norm.weight", "hidden_norm.weight"):
            shape = self.shape(name)
            if shape and len(shape) == 1:
                prove("hidden_size", name, shape[0])
        first = f"layers.{layers[0]}." if layers else ""
        head = self.shape(f"{first}self_attn.q_norm.weight")
        if head and len(head) == 1 and head[0] > 0:
            prove("head_dim", f"{first}self_attn.q_norm.weight", head[0])
            for fact, name in (("num_attention_heads", "q_proj"), ("num_key_value_heads", "k_proj")):
                rows = self.shape(f"{first}self_attn.{name}.weight")
                if rows and len(rows) == 2 and rows[0] % head[0] == 0:
                    prove(fact, f"{first}self_attn.{name}.weight", rows[0] // head[0])
        for fact, name in (
            ("intermediate_size", f"{first}mlp.gate_proj.weight"),
            ("vocab_size", "embed_tokens.weight"),
            ("draft_vocab_size", "lm_head.weight"),
        ):
            shape = self.shape(name)
            if shape and len(shape) == 2:
                prove(fact, name, shape[0])
        self._prove_dflash2(first, prove)
        return found

    def _prove_dflash2(self, first: str, prove: Any) -> None:
        base, projection = f"{first}attention_conv.base_kernel", f"{first}attention_conv.kernel_projection.weight"
        kernel, rows = self.shape(base), self.shape(projection)
        if kernel and len(kernel) == 3 and kernel[1] > 0:
            prove("conv_kernel_size", base, kernel[1])
            if rows and len(rows) == 2 and rows[0] and kernel[2] * 2 * kernel[1] % rows[0] == 0:
                prove("conv_group_size", projection, kernel[2] * 2 * kernel[1] // rows[0])
        book = "candidate_selector.predecessor_codebook"
        shape = self.shape(book)
        if shape and len(shape) == 2:
            prove("vocab_size", book, shape[0])
            prove("selector_rank", book, shape[1])

    @property
    def quantised(self) -> bool:
        return any(t.dtype in ("I8", "U8", "I32", "U32", "F8_E4M3", "F8_E5M2") for t in self._projections())

    def _projections(self) -> list[Tensor]:
        return [t for name, t in self.tensors.items() if "_proj." in name and not name.endswith(("shape", "g_idx"))]


def _layer_of(name: str) -> int:
    match = _LAYER.match(name)
    return int(match.group(1)) if match else -1


def read_weights(directory: str) -> Weights:
    """The headers of a drafter's weights: one file, or the shards that its index lists."""
    tensors: dict[str, Tensor] = {}
    digests: dict[str, str] = {}
    listed: dict[str, str] = {}
    names = sorted(n for n in os.listdir(directory) if n.endswith(".safetensors"))
    if os.path.lexists(os.path.join(directory, INDEX)):
        listed = _read_index(directory)
        names = sorted(set(listed.values()))
    if not names:
        raise UnreadableWeightsError(_no_weights(directory))
    for name in names:
        header, digests[name] = _read_header(os.path.join(directory, name))
        for tensor, (shape, dtype) in header.items():
            if tensor in tensors:
                raise UnreadableWeightsError(
                    f"{directory}: both {tensors[tensor].file} and {name} hold the tensor {tensor}"
                )
            tensors[tensor] = Tensor(shape, dtype, name)
    for tensor, name in listed.items():
        if tensor not in tensors:
            raise UnreadableWeightsError(
                f"{os.path.join(directory, INDEX)} promises {tensor} in {name}, which lacks it"
            )
    return Weights({_engine_name(n): t for n, t in tensors.items()}, digests)


def _engine_name(name: str) -> str:
    name = name[len("model.") :] if name.startswith("model.") else name
    for old, new in _RENAMED:
        if name.startswith(old):
            return new + name[len(old) :]
    return name


def _no_weights(directory: str) -> str:
    names = os.listdir(directory)
    for suffix, remedy in (
        (".gguf", "a GGUF drafter carries no config.json that vLLM reads; take the safetensors release"),
        (".bin", "pickled weights prove nothing without running them; convert them to safetensors"),
        (".pt", "pickled weights prove nothing without running them; convert them to safetensors"),
    ):
        found = sorted(n for n in names if n.endswith(suffix) and n != "mask_embedding.pt")
        if found:
            return f"{os.path.join(directory, found[0])}: {remedy}"
    return f"{directory} holds no *.safetensors: without weights nothing about the config can be proven"


def _read_index(directory: str) -> dict[str, str]:
    path = os.path.join(directory, INDEX)
    try:
        with open(path, "rb") as f:
            index = json.loads(f.read(_LIMIT))
        listed = index["weight_map"]
        if not all(
            isinstance(n, str) and n == os.path.basename(n) and n.endswith(".safetensors") for n in listed.values()
        ):
            raise ValueError("weight_map names something else than files beside it")
    except OSError as e:
        raise UnreadableWeightsError(f"{path} can't be read: {e.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise UnreadableWeightsError(f"{path} is no index of safetensors: {e}") from None
    return dict(listed)


def _read_header(path: str) -> tuple[dict[str, tuple[tuple[int, ...], str]], str]:
    try:
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            start = f.read(8)
            if len(start) < 8:
                raise UnreadableWeightsError(f"{path} is no safetensors file: {size} bytes are too few for a header")
            (length,) = struct.unpack("<Q", start)
            if length > size - 8:
                raise UnreadableWeightsError(
                    f"{path} is broken or cut short: its header should be {length} bytes, the file has {size}"
                )
            if length > _LIMIT:
                raise UnreadableWeightsError(f"{path}: a header of {length} bytes is beyond what safetensors allows")
            raw = f.read(length)
    except OSError as e:
        raise UnreadableWeightsError(f"{path} can't be read: {e.strerror}") from None
    try:
        header = json.loads(raw.decode("utf-8"))
        header.pop("__metadata__", None)
        tensors = {name: _tensor(entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise UnreadableWeightsError(f"{path} has a broken header: {e}") from None
    end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if 8 + length + end > size:
        raise UnreadableWeightsError(
            f"{path} is cut short: its tensors end at byte {8 + length + end}, the file has {size}"
        )
    return tensors, hashlib.sha256(raw).hexdigest()


def _tensor(entry: Any) -> tuple[tuple[int, ...], str]:
    shape, dtype, end = tuple(entry["shape"]), entry["dtype"], entry["data_offsets"][1]
    if not isinstance(dtype, str) or not all(type(n) is int and n >= 0 for n in (*shape, end)):
        raise ValueError("a tensor's entry is not {dtype, shape, data_offsets}")
    return shape, dtype
