# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetches a model: aside, verified, and only then named. Runs as a job of the host, in a directory of its own.

It says what it does in lines that log_wait follows: ``[2/4] ...`` for each step, ``WHOLE ...`` or ``FAILED: cause. remedy.`` at the end.
What has come of an interrupted fetch stays in the job's directory: ``parts/`` what grows, ``whole/`` what will be the snapshot.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.llmops.vllm.plugins.module_utils._host import files, locks
from ansible_collections.llmops.vllm.plugins.module_utils._models import errors, request, snapshot, sources
from ansible_collections.llmops.vllm.plugins.module_utils._models.errors import FetchError, amount
from ansible_collections.llmops.vllm.plugins.module_utils._models.hub import Hub
from ansible_collections.llmops.vllm.plugins.module_utils._models.huggingface import HuggingFace
from ansible_collections.llmops.vllm.plugins.module_utils._models.listing import File, Listing

STEPS = 4
RESERVE = 64 << 20  # bytes of the disk that stay free
BALLAST = 1 << 16
"""Bytes that are thrown off when the disk is full, so that the log can say it."""
PULSE = 2.0  # seconds between two looks at what has come


def _write(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main(directory: str) -> int:
    """0 if there is a whole snapshot when it ends."""
    os.umask(0o022)  # the server's user has to read it
    try:
        asked = request.take(os.path.join(directory, "request.json"))
    except (OSError, ValueError) as e:
        _write(f"FAILED: there is no request to follow ({e}).")
        return 1

    def say(words: str) -> None:
        _write(asked.masked(words))

    os.environ.update(asked.environment)
    ballast = os.path.join(directory, "ballast")
    try:
        files.write(ballast, bytes(BALLAST))
        with locks.locked(os.path.join(directory, "lock")):
            last = Fetch(asked, say).ensure()
    except FetchError as e:
        last = f"FAILED: {e}"
    except OSError as e:
        last = f"FAILED: {errors.of_system(e, asked.models)}"
    except Exception as e:
        say("".join(f"    {line}" for line in traceback.format_exc().splitlines(keepends=True)))
        last = f"FAILED: a fault of the fetch itself: {e!r}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(ballast)
    say(last)
    return 1 if last.startswith("FAILED: ") else 0


class Fetch:
    """One revision of one model."""

    def __init__(self, asked: request.Request, say: Callable[[str], None]) -> None:
        self.asked, self.say, self.place = asked, say, asked.place
        self.hub = Hub(asked.endpoint, asked.repo, asked.token)
        self.parts = os.path.join(self.place.job, "parts")
        self.whole = os.path.join(self.place.job, "whole")
        self.client = os.path.join(self.place.job, "client")
        self.source = sources.named(asked)
        self._step = 0

    def step(self, words: str) -> None:
        self._step += 1
        self.say(f"[{self._step}/{STEPS}] {words}")

    def ensure(self) -> str:
        """Make the snapshot whole; what to say at the end."""
        began = time.monotonic()
        self.step("see what is there and what should be")
        listing = self.listing()
        wanted = listing.wanted(self.asked.allow, self.asked.ignore)
        if not wanted:
            raise FetchError(f"no file of {self.asked.repo} is wanted", "Check the patterns of allow and ignore")
        right = self.right(self.place.path, wanted) | self.right(self.whole, wanted)
        lacking = [file for file in wanted if file.path not in right]
        if lacking:
            self.get(lacking)
        self.step("name it")
        self.put_name(listing, {file.path for file in wanted})
        size = amount(sum(file.size for file in wanted))
        came = f"{len(lacking)} files fetched" if lacking else "nothing fetched"
        return f"WHOLE {self.asked.repo} {self.asked.revision}: {size}, {came}, {time.monotonic() - began:.1f} s"

    def listing(self) -> Listing:
        """What the revision consists of: as recorded, as the source says if its digest is known, or else as the hub says."""
        record = snapshot.read(self.place.path)
        if record and self.fits(record.listing):
            return record.listing
        told = self.source.listing() if self.source and self.asked.digest else None
        if told and self.fits(told):
            return told
        try:
            told = self.hub.listing(self.hub.resolve(self.asked.revision))
        except FetchError as e:
            told = self.source.listing() if self.source and not self.asked.digest else None
            if not told or not self.fits(told):
                raise
            self.say(
                f"WARNING: {e} So only the source itself vouches for what it holds; digest {told.digest} would pin it."
            )
        if not self.fits(told):
            raise FetchError(
                f"{self.asked.repo} at {told.revision} has the digest {told.digest}, not {self.asked.digest}",
                "Check the digest and the revision",
            )
        return told

    def fits(self, told: Listing) -> bool:
        mine = told.repo == self.asked.repo and told.revision == self.asked.revision
        return mine and self.asked.digest in ("", told.digest)

    def right(self, directory: str, wanted: Sequence[File]) -> set[str]:
        """Of the wanted files, those that are right in a directory. What is not known is hashed, what is wrong there is named."""
        known = set() if self.asked.deep else snapshot.untouched(directory, snapshot.read(directory), wanted)
        there = [f for f in wanted if f.path not in known and snapshot.state(os.path.join(directory, f.path))]
        if there:
            self.say(f"    hashing {len(there)} files, {amount(sum(f.size for f in there))}")
        fits = self.hashed(directory, there)
        if directory == self.place.path:
            self.forget([file for file, right in zip(there, fits) if not right])
        return known | {file.path for file, right in zip(there, fits) if right}

    def forget(self, wrong: Sequence[File]) -> None:
        """Take what is wrong out of the record, so that it is known to be even if it can't be fetched now."""
        for file in wrong:
            path = os.path.join(self.place.path, file.path)
            self.say(f"WARNING: {path} is not what was published; it is fetched again.")
        record = snapshot.read(self.place.path)
        if record and wrong:
            names = {file.path for file in wrong}
            kept = {path: state for path, state in record.verified.items() if path not in names}
            snapshot.write(self.place.path, snapshot.Record(record.listing, kept))

    def hashed(self, directory: str, them: Sequence[File]) -> list[bool]:
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            return list(pool.map(lambda file: file.fits(os.path.join(directory, file.path)), them))

    def get(self, lacking: Sequence[File]) -> None:
        """Let the files come, and refuse those that are wrong twice."""
        if not self.source:
            self.hub.refuse_without_access(self.asked.revision, lacking[0].path)
        self.refuse_a_small_disk(lacking)
        source = self.source or HuggingFace(self.asked, self.client, self.say)
        total = sum(file.size for file in lacking)
        self.step(f"fetch {len(lacking)} files, {amount(total)}, from {source.name}")
        wrong = list(lacking)
        for last in (False, True):
            with _Progress(self, total):
                source.fetch(wrong, self.parts)
            if not last:
                self.step("verify what has come")
            wrong = self.keep(wrong)
            if not wrong:
                return
            self.say(f"WARNING: {wrong[0].path} came with other bytes than were published, so it is fetched once more.")
        raise FetchError(
            f"{source.name} gives other bytes for {wrong[0].path} than were published",
            "Mend that source, or name another",
        )

    def keep(self, came: Sequence[File]) -> list[File]:
        """Put what is right aside; what is wrong is removed and returned."""
        wrong = []
        for file, fits in zip(came, self.hashed(self.parts, came)):
            part, whole = os.path.join(self.parts, file.path), os.path.join(self.whole, file.path)
            if fits:
                os.makedirs(os.path.dirname(whole), exist_ok=True)
                os.chmod(part, 0o644)
                os.replace(part, whole)
            else:
                os.unlink(part)
                wrong.append(file)
        return wrong

    def refuse_a_small_disk(self, lacking: Sequence[File]) -> None:
        there = self.place.job
        while not os.path.isdir(there):  # in check mode
            there = os.path.dirname(there)
        free = os.statvfs(there)
        begun = [snapshot.state(os.path.join(self.parts, file.path)) for file in lacking]
        needed = sum(file.size for file in lacking) - sum(state[0] for state in begun if state)
        if needed + RESERVE > free.f_bavail * free.f_frsize:
            raise errors.full(self.asked.models, needed, free.f_bavail * free.f_frsize)

    def put_name(self, listing: Listing, wanted: set[str]) -> None:
        """Everything wanted lies in one of the two directories. A snapshot that is there gets what it lacks, a new one its name."""
        os.makedirs(self.whole, exist_ok=True)
        old = snapshot.read(self.place.path)
        if os.path.isdir(self.place.path):
            for path in sorted(wanted):
                new = os.path.join(self.whole, path)
                if os.path.exists(new):
                    os.makedirs(os.path.dirname(os.path.join(self.place.path, path)), exist_ok=True)
                    os.replace(new, os.path.join(self.place.path, path))
            os.sync()
            seen = snapshot.seen(self.place.path, wanted)
            snapshot.write(self.place.path, snapshot.Record(listing, {**(old.verified if old else {}), **seen}))
        else:
            os.sync()  # else a power loss could leave the record and not what it stands for
            snapshot.write(self.whole, snapshot.Record(listing, snapshot.seen(self.whole, wanted)))
            os.rename(self.whole, self.place.path)
        for left in (self.whole, self.parts, self.client):
            shutil.rmtree(left, ignore_errors=True)

    def came(self) -> int:
        """Bytes that lie there so far."""
        sizes = 0
        for parent, _directories, names in os.walk(self.parts):
            states = (snapshot.state(os.path.join(parent, name)) for name in names)
            sizes += sum(state[0] for state in states if state)
        return sizes


class _Progress:
    """Says every tenth of a transfer, with its speed, while it goes on."""

    def __init__(self, fetch: Fetch, total: int) -> None:
        self.fetch, self.total = fetch, total
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_details: object) -> None:
        self.over.set()
        self.thread.join()

    def _watch(self) -> None:
        began, first, said = time.monotonic(), self.fetch.came(), 0
        while not self.over.wait(PULSE):
            came = self.fetch.came()
            tenths = came * 10 // self.total if self.total else 0
            if tenths > said and came > first:
                said = tenths
                speed = (came - first) / (time.monotonic() - began)
                left = (self.total - came) / speed / 60
                self.fetch.say(
                    f"[{self.fetch._step}/{STEPS}] fetched {tenths}0 % of {amount(self.total)}, {amount(int(speed))} a second, {left:.0f} min left"
                )
