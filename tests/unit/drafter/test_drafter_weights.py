"""What the weights prove, and the weights that can't be read."""

from __future__ import annotations

import json
import os
import struct

import pytest
from published import PUBLISHED
from synthetic import TINY, write_safetensors

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.weights import read_weights


def proofs(directory):
    return {fact: proof.value for fact, proof in read_weights(str(directory)).proofs.items()}


def shard(directory, tensors, count):
    """The tensors spread over so many files, with their index."""
    listed = {}
    for i in range(count):
        name = f"model-{i + 1:05}-of-{count:05}.safetensors"
        part = dict(list(tensors.items())[i::count])
        write_safetensors(directory / name, part)
        listed.update(dict.fromkeys(part, name))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": listed}))


TINY_PROOFS = {
    "num_hidden_layers": 3,
    "hidden_size": 64,
    "head_dim": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
}


def test_the_shapes_prove_the_sizes(tmp_path):
    write_safetensors(tmp_path / "model.safetensors", TINY)
    assert proofs(tmp_path) == TINY_PROOFS


@pytest.mark.parametrize("count", [2, 7])
def test_shards_prove_the_same(count, tmp_path):
    shard(tmp_path, TINY, count)
    assert proofs(tmp_path) == TINY_PROOFS


def test_a_dflash2_drafter_proves_its_convolutions_and_its_selector(tmp_path):
    (published,) = [p for p in PUBLISHED if "DFlash2" in p.name]
    write_safetensors(tmp_path / "model.safetensors", published.tensors)
    found = proofs(tmp_path)

    wanted = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 256, "vocab_size": 248320}
    assert {fact: found[fact] for fact in wanted} == wanted


def test_names_are_those_of_the_engine(tmp_path):
    renamed = {"model." + name: shape for name, shape in TINY.items() if not name.startswith(("fc.", "hidden_norm."))}
    renamed |= {"encoder.fc.weight": TINY["fc.weight"], "encoder.output_norm_enc.weight": TINY["hidden_norm.weight"]}
    write_safetensors(tmp_path / "model.safetensors", renamed)
    assert set(read_weights(str(tmp_path)).tensors) == set(TINY)


def test_packed_tensors_prove_nothing_but_that_they_are_quantised(tmp_path):
    packed = {name: ("U8", shape) if "_proj." in name or "fc." in name else shape for name, shape in TINY.items()}
    write_safetensors(tmp_path / "model.safetensors", packed)
    weights = read_weights(str(tmp_path))

    assert weights.quantised
    assert {fact: proof.value for fact, proof in weights.proofs.items()} == {
        "num_hidden_layers": 3,
        "hidden_size": 64,
        "head_dim": 32,
    }


def test_a_header_of_several_megabytes_is_read(tmp_path):
    many = {f"layers.0.experts.{i}.{'x' * 200}.weight": [1] for i in range(20_000)}
    write_safetensors(tmp_path / "model.safetensors", {**TINY, **many})
    assert (tmp_path / "model.safetensors").stat().st_size > 5_000_000
    assert proofs(tmp_path) == TINY_PROOFS


def header(raw, data=b"", length=None):
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


TENSOR = b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        pytest.param(b"", "too few for a header", id="empty"),
        pytest.param(b"\0\0\0", "too few for a header", id="three bytes"),
        pytest.param(
            header(TENSOR, length=10**6), "a header of 1000000 bytes in a file of", id="length beyond the file"
        ),
        pytest.param(struct.pack("<q", -1) + TENSOR, "a header of 18446744073709551615 bytes", id="negative length"),
        pytest.param(header(b"nonsense"), "broken header", id="no JSON"),
        pytest.param(header(b"\xff\xfe"), "broken header", id="no UTF-8"),
        pytest.param(header(b"[]"), "broken header", id="a list"),
        pytest.param(header(b"[" * 100_000), "broken header", id="a deep nest"),
        pytest.param(header(b'{"a": 1}'), "broken header", id="a tensor that is none"),
        pytest.param(header(TENSOR.replace(b"[2]", b"[-2]"), b"12345678"), "broken header", id="a negative shape"),
        pytest.param(
            header(TENSOR.replace(b"[2]", b"[18446744073709551616]"), b"12345678"), "broken header", id="a huge shape"
        ),
        pytest.param(header(TENSOR.replace(b"[0, 8]", b"[]"), b"12345678"), "broken header", id="no offsets"),
        pytest.param(header(TENSOR, b"1234"), "is cut short", id="half of a download"),
        pytest.param(
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "is broken", id="a Git LFS pointer"
        ),
    ],
)
def test_a_broken_file_is_named_with_its_cause(content, cause, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(RefusedError, match=cause) as caught:
        read_weights(str(tmp_path))
    assert str(tmp_path / "model.safetensors") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("pytorch_model.bin", "pytorch_model.bin: pickled weights prove nothing"),
        ("drafter.gguf", "drafter.gguf: vLLM reads no config.json beside GGUF"),
        ("mask_embedding.pt", r"holds no \*\.safetensors"),
        ("README.md", r"holds no \*\.safetensors"),
    ],
)
def test_other_weights_are_named_with_what_to_do(name, cause, tmp_path):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(RefusedError, match=cause):
        read_weights(str(tmp_path))


@pytest.mark.parametrize(
    ("index", "cause"),
    [
        ("{", "no index of safetensors"),
        ('{"weight_map": []}', r"holds no \*\.safetensors"),
        ('{"weight_map": 3}', "no index of safetensors"),
        ('{"weight_map": {"a": "../x.safetensors"}}', "no safetensors file beside it"),
        ('{"weight_map": {"a": "absent.safetensors"}}', "absent.safetensors can't be read: No such file"),
        ('{"weight_map": {"absent": "one.safetensors"}}', "has absent in one.safetensors, which lacks it"),
    ],
)
def test_a_broken_index_is_named(index, cause, tmp_path):
    if "one." in index:
        write_safetensors(tmp_path / "one.safetensors", TINY)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(RefusedError, match=cause):
        read_weights(str(tmp_path))


@pytest.mark.parametrize("lost", [1, 2])
def test_half_a_download_is_named_without_an_index(lost, tmp_path):
    """Else its layers would be taken for all of them."""
    shard(tmp_path, TINY, 3)
    (tmp_path / "model.safetensors.index.json").unlink()
    assert proofs(tmp_path) == TINY_PROOFS
    for i in range(lost):
        (tmp_path / f"model-{i + 1:05}-of-00003.safetensors").unlink()
    with pytest.raises(RefusedError, match=f"holds {3 - lost} of the 3 shards that model-0000.-of-00003.safetensors"):
        read_weights(str(tmp_path))


def test_a_tensor_in_two_files_is_named(tmp_path):
    for name in ("a.safetensors", "b.safetensors"):
        write_safetensors(tmp_path / name, {"norm.weight": [64]})
    with pytest.raises(RefusedError, match=r"norm\.weight is in two files, a\.safetensors and b\.safetensors"):
        read_weights(str(tmp_path))


def test_a_pipe_in_the_place_of_weights_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(RefusedError, match="no regular file"):
        read_weights(str(tmp_path))
