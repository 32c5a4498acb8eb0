"""Input that can't be judged: one line that names the file and the cause, no traceback, the original untouched."""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
from pathlib import Path

import pytest
from synthetic import TINY, config, drafter, target

from ansible_collections.llmops.vllm.plugins.module_utils._drafter.drafter import read_drafter
from ansible_collections.llmops.vllm.plugins.module_utils._drafter.refusal import RefusedError

RIGHT = json.dumps(config())


@pytest.fixture(params=["drafter_info", "drafter_config"])
def refuse(request, call, tmp_path):
    """The one line that both modules refuse an input with."""

    def run(path, **params):
        if request.param == "drafter_config":
            params["dest"] = tmp_path / "overlay"
        before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size < 10**6}
        result = call(request.param, path=path, **params)
        assert result["failed"]
        assert {p: p.read_bytes() for p in before} == before
        assert not (tmp_path / "overlay").exists()
        assert "\n" not in result["msg"]
        return result["msg"]

    return run


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        pytest.param(b"", "is empty.", id="empty"),
        pytest.param(b" \n", "is empty.", id="blank"),
        pytest.param(b"mask_token_id: 3", "is no JSON, or cut short: Expecting value at line 1.", id="no JSON"),
        pytest.param(RIGHT[:-40].encode(), "is no JSON, or cut short: ", id="cut short"),
        pytest.param(
            b"\xef\xbb\xbf" + RIGHT.encode(), "begins with a byte order mark, which transformers refuses.", id="BOM"
        ),
        pytest.param(RIGHT.encode("utf-16"), "is not UTF-8: invalid start byte at byte 0.", id="UTF-16"),
        pytest.param(b"[]", "is no JSON object but a list.", id="a list"),
        pytest.param(b"3", "is no JSON object but a int.", id="a number"),
        pytest.param(b"[" * 10**6, "is no usable JSON: ", id="a deep nest"),
        pytest.param(b'{"a": ' + b"9" * 10000 + b"}", "is no usable JSON: ", id="an endless number"),
        pytest.param(
            b'{"a": ' + b"[" * 50 + b"]" * 50 + b"}", "is no usable JSON: it is nested over 50 deep.", id="a nest"
        ),
        pytest.param(rb'{"a": "\ud800"}', "is no usable JSON: it has half a character", id="half a character"),
        pytest.param(rb'{"\ud800": 3}', "is no usable JSON: it has half a character", id="half a character in a key"),
        pytest.param(
            b'{"a": 1' + b"0" * 100 + b"}", "is no usable JSON: it has a whole number of over", id="a long number"
        ),
        pytest.param(
            b'{"speculators_model_type": "eagle3"}', "is no DFlash drafter's: it has neither", id="another drafter's"
        ),
        pytest.param(b'{"speculators_model_type": ["dflash"]}', "is no DFlash drafter's: it has neither", id="no kind"),
        pytest.param(b"{}", "is no DFlash drafter's: it has neither a dflash_config", id="another model's"),
    ],
)
def test_a_config_that_is_none(content, cause, tmp_path, refuse):
    path = drafter(tmp_path / "drafter", RIGHT)
    (path / "config.json").write_bytes(content)
    assert f"{path}/config.json {cause}" in refuse(path)


def test_a_config_of_100_megabytes(tmp_path, refuse):
    path = drafter(tmp_path / "drafter", RIGHT)
    os.truncate(path / "config.json", 10**8)
    assert refuse(path) == f"{path}/config.json is no config: it has 100000000 bytes, and none has over 4194304."


def test_a_pipe_in_the_place_of_a_config(tmp_path, refuse):
    path = drafter(tmp_path / "drafter", RIGHT)
    (path / "config.json").unlink()
    os.mkfifo(path / "config.json")
    assert refuse(path) == f"{path}/config.json is no regular file."


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("nowhere", "is not there."),
        ("drafter/model.safetensors", "is neither a directory nor a config.json."),
        ("empty", "/config.json can't be read: No such file or directory."),
        ("empty/config.json", "is not there."),
    ],
)
def test_no_drafter_at_all(name, cause, tmp_path, refuse):
    drafter(tmp_path / "drafter", RIGHT)
    (tmp_path / "empty").mkdir()
    assert refuse(tmp_path / name) == f"{tmp_path}/{name}{'' if cause[0] == '/' else ' '}{cause}"


def test_a_config_without_weights(tmp_path, refuse):
    path = drafter(tmp_path / "drafter", RIGHT)
    (path / "model.safetensors").unlink()
    cause = "holds no *.safetensors, and without weights nothing about a config can be proven."
    assert refuse(path) == f"{path} {cause}"
    assert refuse(path / "config.json") == f"{path} {cause}"


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("config.json", "{", "is no JSON, or cut short. Fetch it again."),
        ("config.json", "[]", "is no JSON object."),
        ("config.json", '{"text_config": ' * 60 + "{}" + "}" * 60, "is no usable JSON: it is nested over 50 deep."),
        ("tokenizer_config.json", "{", "is no JSON, or cut short. Fetch it again."),
        ("tokenizer.json", '{"added_tokens": [', "has no readable list of added_tokens."),
        ("generation_config.json", "", "is no JSON, or cut short. Fetch it again."),
    ],
)
def test_a_target_that_is_none(name, content, cause, tmp_path, refuse):
    beside = target(tmp_path / "target")
    (beside / name).write_text(content)
    assert refuse(drafter(tmp_path / "drafter", RIGHT), target=beside) == f"{beside}/{name} {cause}"


@pytest.mark.parametrize(
    ("name", "cause"), [("nowhere", "can't be read: No such file or directory."), ("", "is no regular file.")]
)
def test_a_reference_that_is_none(name, cause, tmp_path, refuse):
    message = refuse(drafter(tmp_path / "drafter", RIGHT), reference=tmp_path / name)
    assert message == f"reference: {tmp_path / name} {cause}"


def test_a_target_that_is_not_there(tmp_path, refuse):
    message = refuse(drafter(tmp_path / "drafter", RIGHT), target=tmp_path / "nowhere")
    assert message == f"{tmp_path}/nowhere is no target: it has no config.json."


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"a": json.loads("[" * 60 + "]" * 60)}, "values can't be used: it is nested over 50 deep."),
        ({"": 3}, "'' can't be asserted: it is no key."),
        ({"a..b": 3}, "'a..b' can't be asserted: it is no key."),
        ({"mask_token_id": 3, "dflash_config": {"mask_token_id": 5}}, "is asserted twice, once as 3 and once as 5."),
        ({"a": {"b": 1}, "a.b": True}, "a.b is asserted twice, once as 1 and once as True."),
    ],
)
def test_values_that_say_nothing(values, cause, tmp_path, refuse):
    assert refuse(drafter(tmp_path / "drafter", RIGHT), values=values).endswith(cause)


def test_values_may_say_one_thing_twice(tmp_path, call):
    twice = {"mask_token_id": "3", "dflash_config.mask_token_id": 3}
    assert call("drafter_info", path=drafter(tmp_path / "drafter", RIGHT), values=twice)["ok"]


@pytest.mark.parametrize("version", ["new", "32", "0.32.0.1.2", "main"])
def test_a_version_that_is_none(version, tmp_path, refuse):
    message = refuse(drafter(tmp_path / "drafter", RIGHT), engine={"version": version})
    assert message == f"engine.version: {version} is no version of vLLM; it should look like 0.32.0."


@pytest.mark.parametrize(
    ("python", "cause"),
    [
        ("/nowhere/python", "can't be run: No such file or directory."),
        ("/bin/false", "can't be asked about transformers: it said nothing."),
        ("/bin/cat", "can't be asked about transformers: "),
    ],
)
def test_a_python_that_cannot_answer(python, cause, tmp_path, refuse):
    assert f"python: {python} {cause}" in refuse(drafter(tmp_path / "drafter", RIGHT), python=python)


def as_nobody(pipe, paths):
    """What somebody without rights is told about these drafters."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    for path in paths:
        try:
            read_drafter(str(path))
        except RefusedError as e:
            pipe.send(str(e))
        else:
            pipe.send("it could be read")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody who may not read")
def test_files_that_may_not_be_read():
    """As the module meets them under `become_user`."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        paths = [drafter(Path(directory) / name, RIGHT, TINY) for name in ("config", "weights", "directory", "none")]
        os.chmod(paths[0] / "config.json", 0)
        os.chmod(paths[1] / "model.safetensors", 0)
        os.chmod(paths[2], 0o711)
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=as_nobody, args=(theirs, paths))
        process.start()
        answers = [ours.recv() for _path in paths]
        process.join()
    assert answers == [
        f"{paths[0]}/config.json can't be read: Permission denied",
        f"{paths[1]}/model.safetensors can't be read: Permission denied",
        f"{paths[2]} can't be read: Permission denied",
        "it could be read",
    ]
