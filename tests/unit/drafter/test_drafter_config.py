"""What drafter_config writes: an overlay or the file itself, whole or not at all, and nothing twice."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest
from synthetic import DROP, F, S, config, drafter, target

from ansible_collections.llmops.vllm.plugins.module_utils._drafter import overlay
from ansible_collections.llmops.vllm.plugins.module_utils._host import files

MASK = "dflash_config.mask_token_id"
WRONG = config(**{MASK: 4, "layer_types": [F] * 3, "sliding_window": None, "use_sliding_window": False})
VALUES = {"dflash_config": {"mask_token_id": 3}, "layer_types": [S] * 3, "sliding_window": 24}


def snapshot(directory):
    """Everything that a directory holds, to be compared later."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(directory))] = (content, status.st_mode, status.st_mtime_ns, status.st_ino)
    return found


@pytest.fixture
def wrong(tmp_path):
    path = drafter(tmp_path / "drafter", WRONG)
    (path / "README.md").write_text("about")
    (path / ".gitattributes").write_text("")
    (path / "assets").mkdir()
    (path / "assets/a.png").write_bytes(b"png")
    return path


def test_an_overlay_links_everything_but_the_config(wrong, tmp_path, call):
    before = snapshot(wrong)
    result = call("drafter_config", path=wrong, dest=tmp_path / "overlays/drafter-{digest}", values=VALUES)

    made = tmp_path / "overlays" / f"drafter-{result['digest'][:12]}"
    assert (result["path"], result["changed"], result["verified"]) == (str(made), True, True)
    assert {path.name for path in made.iterdir()} == {
        ".overlay.json",
        "README.md",
        "assets",
        "config.json",
        "model.safetensors",
    }
    for name in ("README.md", "assets", "model.safetensors"):
        assert os.readlink(made / name) == str(wrong / name)
    assert not (made / "config.json").is_symlink()
    assert json.loads((made / "config.json").read_text()) == result["config"] == config()
    assert (made.stat().st_mode & 0o777, (made / "config.json").stat().st_mode & 0o777) == (0o755, 0o644)
    assert snapshot(wrong) == before


def test_a_second_run_changes_nothing(wrong, tmp_path, call):
    params = {"path": wrong, "dest": tmp_path / "overlays/drafter-{digest}", "values": VALUES}
    first = call("drafter_config", **params)
    before = snapshot(tmp_path)
    second = call("drafter_config", **params)

    assert (second["changed"], second["verified"], second["path"]) == (False, True, first["path"])
    assert second["findings"] == first["findings"]
    assert [d["before"] == d["after"] for d in second["diff"]] == [True, True]
    assert snapshot(tmp_path) == before


def test_a_right_drafter_gets_an_overlay_of_the_same_bytes(tmp_path, call):
    path = drafter(tmp_path / "drafter", config())
    result = call("drafter_config", path=path, dest=tmp_path / "overlay", target=target(tmp_path / "target"))

    assert result["changed"]
    assert (tmp_path / "overlay/config.json").read_bytes() == (path / "config.json").read_bytes()
    assert not call("drafter_config", path=path, dest=tmp_path / "overlay")["changed"]


def test_an_overlay_is_a_drafter_itself(wrong, tmp_path, call):
    first = call("drafter_config", path=wrong, dest=tmp_path / "one", values=VALUES)
    second = call("drafter_config", path=tmp_path / "one", dest=tmp_path / "two")

    assert second["findings"] == []
    assert second["digest"] == first["digest"]
    assert os.readlink(tmp_path / "two/model.safetensors") == str(wrong / "model.safetensors")


def test_the_digest_is_of_the_content_alone(tmp_path, call):
    """Two hosts with the same files in other places, linked there and plain here."""
    here = drafter(tmp_path / "here/drafter", WRONG)
    there = tmp_path / "there"
    there.mkdir()
    for name in os.listdir(here):
        (there / name).symlink_to(here / name)
    other = drafter(tmp_path / "other", WRONG)
    (other / "extra.txt").write_text("x")
    digests = [
        call("drafter_config", path=path, dest=tmp_path / f"o{i}", values=VALUES)["digest"]
        for i, path in enumerate([here, there, other])
    ]

    assert digests[0] == digests[1] != digests[2]


def test_a_name_that_is_no_text_is_linked_and_told(wrong, tmp_path, call):
    Path(os.fsdecode(os.fsencode(wrong) + b"/\xff.txt")).touch()
    result = call("drafter_config", path=wrong, dest=tmp_path / "overlay", values=VALUES)
    assert b"\xff.txt" in os.listdir(os.fsencode(tmp_path / "overlay"))
    assert json.dumps(result, ensure_ascii=False).encode("utf-8")


def damage_config(made):
    (made / "config.json").write_text("{}")


def damage_link(made):
    (made / "model.safetensors").unlink()
    (made / "model.safetensors").symlink_to("/nowhere")


def damage_no_link(made):
    (made / "model.safetensors").unlink()


def damage_no_config(made):
    (made / "config.json").unlink()


def damage_config_is_a_link(made):
    (made / "config.json").rename(made.parent / "elsewhere.json")
    (made / "config.json").symlink_to(made.parent / "elsewhere.json")


def damage_one_link_too_many(made):
    (made / "model-00001.safetensors").symlink_to("/nowhere")


def damage_killed_writer(made):
    (made / ".config.json.abcdefgh.tmp").write_text("{")


@pytest.mark.parametrize(
    "damage",
    [
        damage_config,
        damage_link,
        damage_no_link,
        damage_no_config,
        damage_config_is_a_link,
        damage_one_link_too_many,
        damage_killed_writer,
    ],
)
def test_a_damaged_overlay_is_repaired(damage, wrong, tmp_path, call):
    params = {"path": wrong, "dest": tmp_path / "o/overlay", "values": VALUES}
    call("drafter_config", **params)
    made = tmp_path / "o/overlay"
    names = set(os.listdir(made))
    damage(made)

    checked = call("drafter_config", check=True, **params)
    assert (checked["changed"], checked["verified"]) == (True, False)
    assert call("drafter_config", **params)["changed"]
    assert set(os.listdir(made)) == names
    assert json.loads((made / "config.json").read_text()) == config()
    assert (made / "model.safetensors").exists()
    assert not call("drafter_config", **params)["changed"]


def foreign_file(place):
    place.write_text("mine")


def foreign_directory(place):
    place.mkdir()
    (place / "config.json").write_text("{}")


def foreign_link(place):
    (place.parent / "real").mkdir()
    place.symlink_to(place.parent / "real")


def foreign_file_inside(place):
    overlay.write(overlay.Overlay(str(place), {}, b"{}", b"{}"))
    (place / "model.safetensors").write_text("mine")


@pytest.mark.parametrize("occupy", [foreign_file, foreign_directory, foreign_link, foreign_file_inside])
def test_what_is_not_ours_is_left_alone(occupy, wrong, tmp_path, call):
    occupy(tmp_path / "overlay")
    before = snapshot(tmp_path)
    result = call("drafter_config", path=wrong, dest=tmp_path / "overlay", values=VALUES)

    assert result["failed"]
    assert str(tmp_path / "overlay") in result["msg"]
    assert snapshot(tmp_path) == before


def test_an_empty_directory_may_become_the_overlay(wrong, tmp_path, call):
    (tmp_path / "overlay").mkdir()
    assert call("drafter_config", path=wrong, dest=tmp_path / "overlay", values=VALUES)["changed"]


@pytest.mark.parametrize("dest", ["drafter", "drafter/overlay", "drafter/assets/../x"])
def test_an_overlay_inside_its_drafter_is_refused(dest, wrong, tmp_path, call):
    before = snapshot(wrong)
    result = call("drafter_config", path=wrong, dest=tmp_path / dest, values=VALUES)
    assert "would lie in the drafter's own directory" in result["msg"]
    assert snapshot(wrong) == before


def test_check_mode_writes_nothing_and_says_what_it_would(wrong, tmp_path, call):
    params = {"path": wrong, "dest": tmp_path / "overlays/drafter-{digest}", "values": VALUES}
    before = snapshot(tmp_path)
    checked = call("drafter_config", check=True, **params)
    assert snapshot(tmp_path) == before

    done = call("drafter_config", **params)
    same = ("changed", "config", "diff", "digest", "effective", "findings", "path")
    assert {name: checked[name] for name in same} == {name: done[name] for name in same}
    assert (checked["verified"], done["verified"]) == (False, True)


def test_the_diff_shows_the_mend_and_the_links(wrong, tmp_path, call):
    result = call("drafter_config", path=wrong, dest=tmp_path / "overlay", values=VALUES)
    mend, links = result["diff"]

    assert mend["before_header"] == str(wrong / "config.json")
    assert (json.loads(mend["before"]), json.loads(mend["after"])) == (WRONG, config())
    assert links["before"] == ""
    assert f"model.safetensors -> {wrong}/model.safetensors\n" in links["after"]


def test_in_place_keeps_mode_owner_and_every_other_byte(tmp_path, call):
    text = '{"model_type": "qwen3", "name": "人", "e": 1.0e-6,\n   "odd":[1,\n2],' + json.dumps(WRONG, indent=1)[1:]
    path = drafter(tmp_path / "drafter", text)
    os.chmod(path / "config.json", 0o640)
    os.chown(path / "config.json", os.getuid(), os.getgid())
    result = call("drafter_config", path=path, in_place=True, values={"dflash_config.mask_token_id": 3})

    mended = text.replace('"mask_token_id": 4', '"mask_token_id": 3')
    assert (path / "config.json").read_text(encoding="utf-8") == mended
    assert (path / "config.json").stat().st_mode & 0o777 == 0o640
    assert (result["changed"], result["path"], result["verified"]) == (True, str(path), True)
    assert set(os.listdir(path)) == {"config.json", "model.safetensors"}
    assert not call("drafter_config", path=path, in_place=True)["changed"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a file away")
def test_in_place_keeps_another_owner(tmp_path, call):
    path = drafter(tmp_path / "drafter", WRONG)
    os.chown(path / "config.json", 12345, 54321)
    call("drafter_config", path=path, in_place=True, values=VALUES)
    status = (path / "config.json").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


def test_a_backup_is_kept_beside(tmp_path, call):
    path = drafter(tmp_path / "drafter", WRONG)
    os.chmod(path / "config.json", 0o640)
    before = (path / "config.json").read_text()
    result = call("drafter_config", path=path, in_place=True, backup=True, values=VALUES)
    assert Path(result["backup_file"]).read_text() == before
    assert Path(result["backup_file"]).stat().st_mode & 0o777 == 0o640
    assert "backup_file" not in call("drafter_config", path=path, in_place=True, backup=True, values=VALUES)


@pytest.fixture
def meanwhile(monkeypatch):
    """Writes a file after the judgement and before the mend. A double: so short a time can't be met for sure."""
    real = files.sole_writer

    def run(path, text):
        def late(directory):
            path.write_text(text)
            return real(directory)

        monkeypatch.setattr(files, "sole_writer", late)

    return run


def test_what_somebody_else_wrote_meanwhile_is_kept(tmp_path, call, meanwhile):
    path = drafter(tmp_path / "drafter", WRONG)
    meanwhile(path / "config.json", "{}")
    result = call("drafter_config", path=path, in_place=True, backup=True, values=VALUES)
    assert "was changed by somebody else while it was judged; nothing was written" in result["msg"]
    assert {p.name: p.read_text() for p in path.glob("*config*")} == {"config.json": "{}"}


def test_the_same_mend_by_somebody_else_is_no_change(tmp_path, call, meanwhile):
    path = drafter(tmp_path / "drafter", WRONG)
    meanwhile(path / "config.json", json.dumps(config(), indent=2) + "\n")
    result = call("drafter_config", path=path, in_place=True, backup=True, values=VALUES)
    assert (result["changed"], result["verified"], "backup_file" in result) == (False, True, False)


def test_in_place_clears_what_a_killed_writer_left(tmp_path, call):
    path = drafter(tmp_path / "drafter", WRONG)
    (path / ".config.json.abcdefgh.tmp").write_text("{")
    (path / ".other.json.abcdefgh.tmp").write_text("{")
    call("drafter_config", path=path, in_place=True, values=VALUES)
    assert {p.name for p in path.iterdir()} == {".other.json.abcdefgh.tmp", "config.json", "model.safetensors"}


def test_in_place_check_mode_writes_nothing(tmp_path, call):
    path = drafter(tmp_path / "drafter", WRONG)
    before = snapshot(path)
    result = call("drafter_config", check=True, path=path, in_place=True, values=VALUES)
    assert (result["changed"], result["verified"], snapshot(path)) == (True, False, before)


def test_a_link_into_blobs_is_never_written_through(tmp_path, call):
    path = drafter(tmp_path / "drafter", WRONG)
    (path / "config.json").rename(tmp_path / "blob")
    (path / "config.json").symlink_to(tmp_path / "blob")
    result = call("drafter_config", path=path, in_place=True, values=VALUES)

    assert result["msg"] == (
        f"{path}/config.json is a link to {tmp_path}/blob, which other revisions may share; nothing was written. "
        "Write an overlay instead, with dest."
    )
    assert json.loads((tmp_path / "blob").read_text()) == WRONG


def test_a_file_in_a_hubs_cache_is_never_written(tmp_path, call):
    path = drafter(tmp_path / "models--a--b/snapshots/f00d", WRONG)
    result = call("drafter_config", path=path, in_place=True, values=VALUES)
    assert "lies in a hub's cache, where the next download would undo the mend" in result["msg"]
    assert json.loads((path / "config.json").read_text()) == WRONG


def test_a_right_file_in_a_hubs_cache_may_be_served_in_place(tmp_path, call):
    path = drafter(tmp_path / "models--a--b/snapshots/f00d", config())
    assert call("drafter_config", path=path, in_place=True)["changed"] is False


@pytest.mark.parametrize("in_place", [False, True])
def test_what_cannot_be_mended_fails_and_writes_nothing(in_place, tmp_path, call):
    path = drafter(tmp_path / "drafter", config(**{MASK: -1, "use_sliding_window": False}))
    before = snapshot(path)
    where = {"in_place": True} if in_place else {"dest": tmp_path / "overlay"}
    result = call("drafter_config", path=path, **where)

    assert result["msg"].splitlines() == [
        f"The drafter in {path} can't be served as it is, and nothing was written:",
        "  dflash_config.mask_token_id: found -1 — the embedding has the rows 0 to 511: the server dies at its first request; "
        "assert the drafter's mask token in values (the config itself: vocab_size)",
    ]
    assert {f["key"] for f in result["findings"]} == {MASK, "use_sliding_window"}
    assert result["config"] == json.loads((path / "config.json").read_text())
    assert (snapshot(path), (tmp_path / "overlay").exists()) == (before, False)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "Say where to write"),
        ({"dest": "/nowhere", "in_place": True}, "Say where to write"),
        ({"dest": "/nowhere", "backup": True}, "backup goes with in_place=true"),
    ],
)
def test_options_that_contradict_each_other(params, message, wrong, call):
    assert message in call("drafter_config", path=wrong, values=VALUES, **params)["msg"]


def in_processes(count, work):
    """Runs something in several processes at once and gives back what each returned."""
    context = multiprocessing.get_context("fork")
    with context.Pool(count) as pool:
        return pool.map(work, range(count))


class Writers:
    """What a forked process runs: many overlays or many whole files, over and over, at the same place as the others."""

    def __init__(self, source, place):
        self.source, self.place = source, place

    def overlay(self, number):
        text = (self.source / "config.json").read_bytes()
        wanted = overlay.plan(str(self.source), str(self.place), text, "d" * 64)
        results = []
        for _unused in range(20):
            results.append(overlay.write(wanted))
            results.append(overlay.present(wanted) == wanted)
        return results

    def file(self, number):
        seen = set()
        for _unused in range(100):
            files.write(str(self.place), bytes([65 + number]) * 100_000)
            seen.add(len(set(self.place.read_bytes())))
        return seen


def test_many_at_once_make_one_overlay(wrong, tmp_path):
    results = in_processes(6, Writers(wrong, tmp_path / "o/overlay").overlay)

    assert sum(written for process in results for written in process[0::2]) == 1
    assert all(whole for process in results for whole in process[1::2])
    assert os.listdir(tmp_path / "o") == ["overlay"]


def test_many_at_once_never_leave_half_a_file(tmp_path):
    assert in_processes(4, Writers(None, tmp_path / "file").file) == [{1}] * 4
    assert os.listdir(tmp_path) == ["file"]


def without_room(write):
    """Runs a write in a process that may not make a file of over 100 bytes, and gives back its result, or the error it met."""

    def child(pipe):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            pipe.send(write())
        except OSError as e:
            pipe.send(e.errno)

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    answer = ours.recv()
    process.join()
    return answer


def test_no_room_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("before")
    assert without_room(lambda: files.write(str(path), b"x" * 1000)) == errno.EFBIG
    assert (path.read_text(), os.listdir(tmp_path)) == ("before", ["config.json"])


@pytest.mark.parametrize("backup", [False, True])
def test_no_room_for_a_mend_or_its_backup(backup, tmp_path, call):
    path = drafter(tmp_path / "drafter", WRONG)
    before = snapshot(path)
    result = without_room(lambda: call("drafter_config", path=path, in_place=True, backup=backup, values=VALUES))
    assert result["msg"] == f"{path}/config.json: File too large. The drafter is as it was."
    assert snapshot(path) == before


def test_no_room_leaves_no_half_overlay(wrong, tmp_path):
    wanted = overlay.plan(str(wrong), str(tmp_path / "o/overlay"), b"x" * 1000, "d" * 64)
    assert without_room(lambda: overlay.write(wanted)) == errno.EFBIG
    assert os.listdir(tmp_path / "o") == []


def test_what_a_killed_writer_left_is_cleared(wrong, tmp_path):
    wanted = overlay.plan(str(wrong), str(tmp_path / "o/overlay"), b"{}", "d" * 64)
    (tmp_path / "o/.overlay.12345678.new").mkdir(parents=True)
    (tmp_path / "o/.other.12345678.new").mkdir()
    overlay.write(wanted)
    assert sorted(os.listdir(tmp_path / "o")) == [".other.12345678.new", "overlay"]


def test_a_place_that_cannot_hold_it_is_named(wrong, tmp_path, call):
    """A parent that is a file can't hold an overlay, not even for root."""
    (tmp_path / "file").write_text("")
    result = call("drafter_config", path=wrong, dest=tmp_path / "file/overlay", values=VALUES)
    assert result["msg"] == (
        f"{tmp_path}/file: File exists. A file, or a link that leads nowhere, lies where a directory should be: move it away. "
        "The drafter is as it was."
    )


def test_a_place_where_nothing_can_be_made_is_named(wrong, call):
    """Not the temporary file that couldn't be made; in /proc not even root may make one."""
    result = call("drafter_config", path=wrong, dest="/proc/overlay", values=VALUES)
    assert result["msg"].startswith("/proc/overlay: ")
    with pytest.raises(OSError, match=r"'/proc/config\.json'"):
        files.write("/proc/config.json", b"")


def test_a_dangling_link_beside_the_weights_is_named(wrong, tmp_path, call):
    (wrong / "tokenizer.json").symlink_to("/nowhere/tokenizer.json")
    result = call("drafter_config", path=wrong, dest=tmp_path / "overlay", values=VALUES)
    assert result["msg"] == f"{wrong}/tokenizer.json: No such file or directory. The drafter is as it was."


def test_what_is_served_with_a_doubt_is_warned_of(tmp_path, judge):
    judged = judge(drafter(tmp_path / "drafter", config(**{"block_size": DROP, MASK: 4})), values=VALUES)
    assert [str(finding) for finding in judged.lasting_warnings] == [
        "block_size: found nothing — without it nobody knows how many tokens to speculate; assert it in values (the config itself)"
    ]
    assert judged.public()["num_speculative_tokens"] is None


def test_it_can_be_removed_like_any_directory(wrong, tmp_path, call):
    call("drafter_config", path=wrong, dest=tmp_path / "overlay", values=VALUES)
    shutil.rmtree(tmp_path / "overlay")
    assert (wrong / "assets/a.png").exists()
