"""hf_snapshot against a hub on loopback, spoken to by the real huggingface_hub."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import time

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._host import processes
from ansible_collections.llmops.vllm.tests.unit.models.conftest import FILES, NAME

LARGE = "model-00001-of-00002.safetensors"
TOTAL = sum(map(len, FILES.values()))
TOKEN = "hf_of_a_user_that_may"
NOBODY = pwd.getpwnam("nobody")


def test_the_first_fetch_brings_all_of_it(host, hub):
    result = host.well()
    assert result["changed"] and result["whole"]
    assert result["path"] == str(host.path)
    assert host.content() == FILES
    assert hub.wanted() == {path: len(data) for path, data in FILES.items() if data}
    assert (result["files"], result["bytes"], result["bytes_to_fetch"]) == (len(FILES), TOTAL, TOTAL)
    assert {p.stat().st_mode & 0o777 for p in host.path.rglob("*") if p.is_file()} == {0o644}
    assert sorted(p.name for p in host.job.iterdir() if p.is_dir()) == [], "nothing of the work is left"


def test_the_second_makes_no_request_at_all(host, hub):
    first = host.well()
    hub.forget()
    second = host.well()
    assert not second["changed"] and second["whole"] and second["bytes_to_fetch"] == 0
    assert second["digest"] == first["digest"]
    assert hub.asked == []


def test_a_host_cut_off_is_content_with_what_it_has(host, hub):
    host.well()
    assert not host.well(endpoint=f"http://127.0.0.1:{unused_port()}")["changed"]


def test_check_mode_says_how_many_bytes_would_come(host, hub):
    result = host.well(check=True)
    assert result["changed"] and not result["whole"]
    assert result["bytes_to_fetch"] == TOTAL
    assert hub.sent == 0
    assert not (host.home / "models").exists()
    assert LARGE in result["diff"]["after"]


def test_patterns_choose_and_the_rest_comes_when_it_is_wanted(host, hub):
    result = host.well(allow=["*.safetensors", "*.json"], ignore=["tokenizer*"])
    assert set(host.content()) == {path for path in FILES if path.endswith(".safetensors")} | {"config.json"}
    assert result["files"] == 3
    hub.forget()
    host.well()
    assert host.content() == FILES
    assert LARGE not in hub.wanted(), "what is there is not fetched again"
    hub.forget()
    assert not host.well(allow=["*.json"])["changed"], "fewer are no reason to ask"
    assert hub.asked == []


def test_patterns_that_choose_nothing_are_named(host):
    assert "no file of someone/some-model is wanted" in host.refused(allow=["*.gguf"]).lower()


@pytest.mark.parametrize("path", [LARGE, "config.json"], ids=["by its SHA-256", "by git's SHA-1"])
def test_a_flipped_byte_is_found_and_only_that_file_comes_again(host, hub, path):
    host.well()
    flip(host.path / path)
    hub.forget()
    assert not host.well()["changed"], "sizes and times are as they were"
    result = host.well(verify="full")
    assert result["changed"]
    assert host.content() == FILES
    assert list(hub.wanted()) == [path]
    assert not host.well(verify="full")["changed"]


def test_what_is_known_to_be_wrong_stays_known(host, hub):
    """Though it can't be fetched again just now."""
    host.well()
    flip(host.path / LARGE)
    hub.refusing = (503, {})
    assert "answers 503" in host.refused(verify="full")
    assert not host.well(fetch=False)["whole"]
    hub.refusing = None
    hub.forget()
    host.well()
    assert host.content() == FILES
    assert list(hub.wanted()) == [LARGE]


def test_what_was_written_to_is_seen_without_being_asked_to_look(host, hub):
    host.well()
    with open(host.path / "config.json", "a") as f:
        f.write(" ")
    hub.forget()
    assert host.well()["changed"]
    assert host.content() == FILES
    assert list(hub.wanted()) == ["config.json"]


def test_a_file_that_was_touched_only_is_hashed_and_stays(host, hub):
    host.well()
    os.utime(host.path / LARGE)
    hub.forget()
    result = host.well()
    assert hub.sent == 0
    assert result["whole"] and not result["changed"]
    hub.forget()
    host.well()
    assert hub.asked == [], "it is known again"


def test_a_broken_connection_is_gone_on_with(host, hub):
    hub.cut[LARGE] = 2_500_000
    host.well()
    assert host.content() == FILES
    assert max(asked.start for asked in hub.asked if asked.file == LARGE) >= 1 << 20


def test_a_killed_fetch_is_gone_on_with(host, hub):
    hub.speed = 500_000
    started = host.well(wait=False)
    assert started["started"] and started["changed"] and not started.get("whole")
    part = host.job / "parts" / LARGE
    wait_until(lambda: part.exists() and part.stat().st_size >= 1 << 20)
    record = processes.read_pidfile(started["pidfile"])
    os.kill(record.pid, signal.SIGKILL)
    wait_until(lambda: not processes.session_members(record), "the client ends with its job")
    assert not host.path.exists(), "half a model has no name"
    hub.speed = 0
    host.well()
    assert host.content() == FILES
    assert max(asked.start for asked in hub.asked if asked.file == LARGE) >= 1 << 20


def test_a_running_fetch_is_joined(host, hub):
    hub.speed = 100_000
    assert host.well(wait=False)["log"] == host.well(wait=False)["log"]
    hub.speed = 0
    host.well()
    assert host.content() == FILES
    assert hub.wanted()[LARGE] == len(FILES[LARGE]), "it came once"


def test_a_request_leaves_no_secret_behind(host, hub):
    hub.tokens[TOKEN] = set()
    host.well(token=TOKEN, environment=json.dumps({"SOME_SECRET": "sesame-open-up"}))
    assert any(asked.token == TOKEN for asked in hub.asked)
    assert all(asked.token == "" for asked in hub.asked if asked.path.startswith("/lfs/")), "another origin gets none"
    for path in host.home.rglob("*"):
        if path.is_file():
            assert TOKEN.encode() not in path.read_bytes()
            assert b"sesame" not in path.read_bytes()


def test_no_process_shows_the_token(host, hub):
    hub.tokens[TOKEN] = set()
    hub.speed = 100_000
    started = host.well(wait=False, token=TOKEN)
    wait_until((host.job / "parts" / LARGE).exists)
    record = processes.read_pidfile(started["pidfile"])
    members = processes.session_members(record)
    assert len(members) == 2
    for pid in members:
        shown = "\n".join(processes.command_line(pid))
        with open(f"/proc/{pid}/environ") as f:
            shown += f.read()
        assert TOKEN not in shown


def test_a_mirror_that_names_its_origin_is_asked_on(host, hub):
    hub.origin = "http://origin.invalid"
    host.well()
    assert host.content() == FILES


def test_a_branch_becomes_the_commit_that_it_is_at(host, hub):
    first = host.well(revision="main")
    assert first["revision"] == host.revision
    assert not host.well(revision="main")["changed"]
    new = hub.repositories[NAME].commit({**FILES, "config.json": b"{}\n"})
    second = host.well(revision="main")
    assert second["revision"] == new != first["revision"]
    assert second["changed"]


def test_bytes_that_are_not_the_published_ones_get_no_name(host, hub):
    hub.altered[LARGE] = FILES[LARGE][:-1] + b"?"
    said = host.refused()
    assert f"gives other bytes for {LARGE} than were published" in said
    assert not host.path.exists()
    hub.altered.clear()
    hub.forget()
    host.well()
    assert list(hub.wanted()) == [LARGE]


def test_without_the_transfer_backend_when_that_is_what_fails(host, hub):
    """The hub names a backend that answers 500 to all; the real hf-xet meets it."""
    hub.repositories[NAME].xet = True
    soon = {"HF_XET_CLIENT_RETRY_MAX_ATTEMPTS": "1", "HF_XET_CLIENT_RETRY_BASE_DELAY": "10ms"}
    result = host.well(environment=json.dumps(soon))
    assert host.content() == FILES
    with open(result["log"]) as f:
        assert "WARNING: the transfer backend failed" in f.read()
    assert any(asked.path.startswith("/cas") for asked in hub.asked), "it was tried"


REFUSALS = {
    "no such repo": (lambda hub: {"repo": "someone/else"}, "there is no model someone/else at {url}, or it is private and no token was given"),
    "no such revision": (lambda hub: {"revision": "0" * 40}, "has no revision " + "0" * 40),
    "no such branch": (lambda hub: {"revision": "dev"}, "has no revision dev"),
    "gated, no token": (lambda hub: gated(hub, None), "is gated, and no token was given. Ask for access at {url}/someone/some-model"),
    "gated, not granted": (lambda hub: gated(hub, set()), "is gated, and this token was not granted access"),
    "private": (lambda hub: private(hub, set()), "or it is private and this token was not granted access"),
    "bad token": (lambda hub: {"token": "hf_made_up_token"}, "{url} refuses the token. Make a new one"),
    "rate limit": (lambda hub: refuse(hub, 429, {"RateLimit": '"api";r=0;t=55'}), "limits how often it is asked (429). Run it again in 55 s"),
    "unwell": (lambda hub: refuse(hub, 503, {}), "{url} answers 503. Run it again later"),
    "no network": (lambda hub: {"endpoint": f"http://127.0.0.1:{unused_port()}"}, "no way through the network to http://127.0.0.1:"),
    "no such host": (lambda hub: {"endpoint": "http://hub.invalid"}, "no way through the network to http://hub.invalid: "),
    "not a hub": (lambda hub: refuse(hub, 200, {}), "does not speak as a hub does: it names no commit"),
}  # fmt: skip


@pytest.mark.parametrize("check", [True, False], ids=["in check mode", "for real"])
@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_wrong_is_said_with_a_remedy(host, hub, case, check):
    make, words = REFUSALS[case]
    said = host.refused(check=check, **make(hub))
    assert words.format(url=hub.url).lower() in said.lower()
    assert said.count(". ") >= 1, "a remedy follows"
    assert not host.path.exists()


def test_a_refusal_in_the_middle_is_the_same(host, hub):
    """The client meets it, since the listing has gone well."""
    hub.cut[LARGE], hub.after_cut = 500_000, (403, {"X-Error-Code": "GatedRepo"})
    assert "is gated, and no token was given" in host.refused()


def test_a_full_disk_is_seen_before_anything_comes(host, hub, monkeypatch):
    """A listing of more bytes than any disk has: such a disk can't be had here, and the check only reads sizes."""
    from ansible_collections.llmops.vllm.plugins.module_utils._models import errors, fetcher, listing, request

    monkeypatch.setattr(
        os, "statvfs", lambda path: os.statvfs_result((4096, 4096, 10**6, 10**5, 10**4, 0, 0, 0, 0, 255))
    )
    fetch = fetcher.Fetch(request.Request(str(host.home), NAME, host.revision, hub.url), print)
    host.home.joinpath("parts").mkdir()
    with pytest.raises(
        errors.FetchError, match=r"1\.0 TB are to come, and the disk of .* has 41\.0 MB free\. Free some"
    ):
        fetch.refuse_a_small_disk([listing.File("x", 10**12, "0" * 64)])


def test_a_record_that_was_published_with_the_model_is_left_out(host, hub):
    """As by somebody who uploaded a snapshot: its name is that of our own record."""
    hub.add(NAME, {**FILES, ".snapshot.json": b'{"verified": {}}'})
    assert host.well()["files"] == len(FILES)
    assert host.content() == FILES
    hub.forget()
    assert not host.well()["changed"]
    assert hub.asked == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("place", ["{name}", "{name}/.{revision}", ".jobs/{name}/{revision}"])
def test_root_gives_nothing_away_that_a_link_leads_to(host, place):
    victim = host.home / "victim"
    victim.mkdir()
    link = host.home / "models" / place.format(name="someone--some-model", revision=host.revision)
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    if link.parent.name == "someone--some-model":
        os.chown(link.parent, NOBODY.pw_uid, NOBODY.pw_gid)
    host.call(user="nobody")
    assert victim.stat().st_uid == 0
    assert not list(victim.iterdir())


def flip(path) -> None:
    """Change a bit of it as a failing disk does: neither its size nor its times tell."""
    was = path.stat()
    with open(path, "r+b") as f:
        f.seek(was.st_size // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def gated(hub, granted):
    hub.repositories[NAME].gated = True
    if granted is None:
        return {}
    hub.tokens[TOKEN] = granted
    return {"token": TOKEN}


def private(hub, granted):
    hub.repositories[NAME].private = True
    hub.tokens[TOKEN] = granted
    return {"token": TOKEN}


def refuse(hub, status, headers):
    hub.refusing = (status, headers)
    return {}


def unused_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(condition, what="it came to that"):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
