"""Other places that the bytes of a model come from: none is believed without the hashes."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import sys
import tarfile
import threading

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._models import listing, snapshot
from ansible_collections.llmops.vllm.tests.hub.hub import Hub
from ansible_collections.llmops.vllm.tests.unit.models.conftest import FILES, NAME

LARGE = "model-00001-of-00002.safetensors"


@pytest.fixture
def laid_down(tmp_path):
    """The files of the model as somebody may have brought them."""
    directory = tmp_path / "brought/some-model"
    for name, data in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory


@pytest.fixture
def cache(tmp_path, hub, python):
    """A cache as huggingface_hub itself lays it out: links into blobs."""
    code = "import sys; from huggingface_hub import snapshot_download as d; print(d(sys.argv[1], cache_dir=sys.argv[2], endpoint=sys.argv[3]))"
    done = subprocess.run(
        [python, "-c", code, NAME, tmp_path / "cache", hub.url],
        check=True, stdout=subprocess.PIPE, text=True,
        env={"HOME": str(tmp_path), "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
    )  # fmt: skip
    hub.forget()
    return done.stdout.strip()


def tarred(laid_down, mode):
    path = laid_down.parent / f"model.tar.{mode}"
    with tarfile.open(path, f"w:{mode}") as tar:
        tar.add(laid_down, "some-model" if mode else ".")
    return str(path)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Python's own web server, which knows no ranges."""

    def log_message(self, *_details):
        pass


@pytest.fixture
def web(laid_down):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(laid_down)))
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("kind", ["directory", "tar", "compressed tar", "web", "cache"])
def test_from_there_and_not_from_the_hub(host, hub, laid_down, kind, request):
    make = {
        "directory": lambda: str(laid_down),
        "tar": lambda: tarred(laid_down, ""),
        "compressed tar": lambda: tarred(laid_down, "gz"),
    }
    source = make[kind]() if kind in make else request.getfixturevalue(kind)
    host.well(source=source)
    assert host.content() == FILES
    assert not any(p.is_symlink() for p in host.path.rglob("*"))
    assert hub.sent == 0
    hub.forget()
    assert not host.well(source=source)["changed"]
    assert hub.asked == []


def test_a_wrong_byte_is_refused_and_named(host, laid_down):
    (laid_down / LARGE).write_bytes(FILES[LARGE][:-1] + b"?")
    assert f"gives other bytes for {LARGE} than were published" in host.refused(source=str(laid_down))
    assert not host.path.exists()


@pytest.mark.parametrize("kind", ["directory", "tar", "web"])
def test_what_lacks_is_named(host, laid_down, kind, request):
    (laid_down / "tokenizer.json").unlink()
    source = {"directory": str(laid_down), "tar": tarred(laid_down, "")}.get(kind) or request.getfixturevalue(kind)
    said = host.refused(source=source)
    assert "tokenizer.json" in said
    assert "or name another source" in said


def test_what_is_no_source_is_named(host, laid_down):
    assert "there is nothing at /nowhere" in host.refused(source="/nowhere").lower()
    assert "a/relative is no source" in host.refused(source="a/relative")
    assert "is no tar archive" in host.refused(source=str(laid_down / "config.json"))
    assert "holds a password. Give it as source_token" in host.refused(source="http://me:secret@127.0.0.1/")


def test_a_cut_archive_is_named(host, laid_down):
    path = tarred(laid_down, "gz")
    with open(path, "r+b") as f:
        f.truncate(1_000_000)
    assert "is damaged" in host.refused(source=path)


def test_without_any_network_the_digest_vouches(host, hub, tmp_path):
    """What one host has goes to another by hand: its directory, and the digest that was told there."""
    digest = host.well()["digest"]
    carried = shutil.copytree(host.path, tmp_path / "carried")
    other = type(host)(tmp_path / "other", hub, host.python)
    other.home.mkdir()
    hub.forget()
    result = other.well(source=str(carried), digest=digest, endpoint="http://hub.invalid")
    assert other.content() == FILES
    assert hub.asked == []
    assert result["digest"] == digest


def test_another_digest_is_refused(host, tmp_path):
    host.well()
    carried = shutil.copytree(host.path, tmp_path / "carried")
    shutil.rmtree(host.path)
    assert f"not {'0' * 64}" in host.refused(source=str(carried), digest="0" * 64)
    # Who changes a file and its record beside it changes the digest.
    record = json.loads((carried / ".snapshot.json").read_text())
    digest = record["digest"]
    (carried / "config.json").write_bytes(b"{}\n")
    record["files"]["config.json"] = [3, "0" * 40]
    (carried / ".snapshot.json").write_text(json.dumps(record))
    assert (
        "no way through the network"
        in host.refused(source=str(carried), digest=digest, endpoint="http://hub.invalid").lower()
    )


def test_without_a_hub_and_a_digest_the_source_vouches_for_itself_and_that_is_said(host, tmp_path):
    host.well()
    carried = shutil.copytree(host.path, tmp_path / "carried")
    shutil.rmtree(host.path)
    result = host.well(source=str(carried), endpoint="http://hub.invalid")
    with open(result["log"]) as f:
        assert "only the source itself vouches for what it holds; digest " in f.read()


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a//x", "", "a\\x", "."])
def test_a_listing_that_leads_elsewhere_is_refused(path):
    with pytest.raises(listing.ListingError, match="leads elsewhere"):
        listing.from_plain({"repo": "a/b", "revision": "0" * 40, "files": {path: [1, "0" * 40]}})


def test_a_record_that_was_torn_is_none(tmp_path):
    (tmp_path / ".snapshot.json").write_text('{"repo": "a/b", "revis')
    assert snapshot.read(str(tmp_path)) is None


def test_the_overlay_of_a_cached_drafter_changes_no_blob(tmp_path, python):
    """The next download by the hub's own client neither notices nor undoes it."""
    from pathlib import Path

    from ansible_collections.llmops.vllm.tests.unit.models.conftest import PROFILED

    clone = Path(__file__).parents[3]
    pair = clone / "playbooks/files/tiny-pair"
    code = "import sys; from huggingface_hub import snapshot_download as d; print(d(sys.argv[1], cache_dir=sys.argv[2], endpoint=sys.argv[3]))"

    def download(hub, revision="main"):
        done = subprocess.run(
            [python, "-c", code.replace("(sys.argv[1],", f"(sys.argv[1], revision={revision!r},"), "tiny/drafter", tmp_path / "cache", hub.url],
            check=True, stdout=subprocess.PIPE, text=True,
            env={"HOME": str(tmp_path), "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        )  # fmt: skip
        return Path(done.stdout.strip())

    def state():
        blobs = tmp_path / "cache/models--tiny--drafter/blobs"
        return {p.name: (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_ino) for p in blobs.iterdir()}

    def mend(path):
        right = {
            "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]},
            "layer_types": ["sliding_attention"] * 3,
            "sliding_window": 24,
        }
        args = {
            "path": str(path),
            "dest": str(tmp_path / "overlays/{digest}"),
            "target": str(pair / "target"),
            "values": right,
        }
        args |= {
            "engine": {"version": "0.32.0"},
            "_ansible_tmpdir": str(tmp_path),
            "_ansible_remote_tmp": str(tmp_path),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROFILED.format(module=clone / "plugins/modules/drafter_config.py")],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": args}), stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)}, check=False,
        )  # fmt: skip
        return json.loads(done.stdout)

    with Hub() as hub:
        hub.add_directory("tiny/drafter", pair / "drafter")
        found = download(hub)
        assert (found / "config.json").is_symlink()
        before = state()
        mended = mend(found)
        assert mended["changed"]
        overlay = Path(mended["path"])
        config = (overlay / "config.json").read_bytes()
        assert json.loads(config)["dflash_config"]["mask_token_id"] == 3
        assert not (overlay / "config.json").is_symlink()
        assert state() == before

        assert download(hub) == found
        assert state() == before
        assert (overlay / "config.json").read_bytes() == config
        assert not mend(found)["changed"]

        # The publisher retrains in place, and that is fetched too.
        files = hub.repositories["tiny/drafter"].revisions[found.name]
        hub.repositories["tiny/drafter"].commit({**files, "README.md": b"retrained\n"})
        assert download(hub) != found
        assert {name: state()[name] for name in before} == before
        assert (overlay / "config.json").read_bytes() == config
