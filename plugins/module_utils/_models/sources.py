# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the content of a model comes from. Each source lets wanted files grow in a directory; none is believed without their hashes."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
import urllib.error
import urllib.parse
from collections.abc import Sequence
from typing import IO, Any, cast

from ansible_collections.llmops.vllm.plugins.module_utils._host import files
from ansible_collections.llmops.vllm.plugins.module_utils._models import errors, listing, snapshot, web
from ansible_collections.llmops.vllm.plugins.module_utils._models.errors import FetchError
from ansible_collections.llmops.vllm.plugins.module_utils._models.listing import File, Listing
from ansible_collections.llmops.vllm.plugins.module_utils._models.request import Request

PATIENCE = 5  # times that a broken connection is made again before any new byte has come
BUSY = 2.0  # seconds until a host that serves others already is asked again


class Source:
    """Where content comes from, for people: name."""

    name = ""

    def record(self) -> Any:
        """What the source's own record says, as JSON; None if it has none."""
        return None

    def fetch(self, wanted: Sequence[File], parts: str) -> None:
        """Put the files below a directory, where some of each may be already. Raises FetchError, and OSError for the disk."""
        raise NotImplementedError

    def listing(self) -> Listing | None:
        """The listing in the source's own record, if it has one."""
        try:
            return listing.from_plain(self.record())
        except listing.ListingError:
            return None


class Directory(Source):
    """A directory of the host. What in it is a link, as in a hub's cache, is followed."""

    def __init__(self, path: str) -> None:
        self.name = self.path = path

    def record(self) -> Any:
        return files.read_json(os.path.join(self.path, snapshot.RECORD))

    def fetch(self, wanted: Sequence[File], parts: str) -> None:
        for file in wanted:
            found = os.path.join(self.path, file.path)
            if not os.path.isfile(found):
                raise FetchError(f"{self.path} lacks {file.path}", "Complete it, or name another source")
            shutil.copyfile(found, _place(parts, file))


class Tar(Source):
    """A tar archive of the host, compressed or not, with the files at its top or in one directory."""

    def __init__(self, path: str) -> None:
        self.name = self.path = path

    def record(self) -> Any:
        with self._open() as tar:
            for member in tar:
                if os.path.basename(member.name) == snapshot.RECORD and member.isfile():
                    content = cast(IO[bytes], tar.extractfile(member))
                    try:
                        return json.load(content)
                    except ValueError:
                        return None
        return None

    def fetch(self, wanted: Sequence[File], parts: str) -> None:
        lacking = {file.path: file for file in wanted}
        try:
            with self._open() as tar:
                for member in tar:
                    name = os.path.normpath(member.name)
                    file = lacking.get(name) or lacking.get(name.partition("/")[2])
                    if file and member.isfile():
                        content = cast(IO[bytes], tar.extractfile(member))
                        with open(_place(parts, file), "wb") as f:
                            shutil.copyfileobj(content, f, 1 << 20)
                        del lacking[file.path]
        except (tarfile.TarError, EOFError) as e:
            raise FetchError(f"the archive {self.path} is damaged ({e})", "Make it again") from None
        if lacking:
            raise FetchError(f"the archive {self.path} lacks {min(lacking)}", "Complete it, or name another source")

    def _open(self) -> tarfile.TarFile:
        try:
            return tarfile.open(self.path)
        except (tarfile.TarError, EOFError) as e:
            raise FetchError(
                f"{self.path} is no tar archive ({e})", "Name a directory, a tar archive or a URL"
            ) from None


class Mirror(Source):
    """The files under a URL: those of a web server, or of another host of the site."""

    def __init__(self, url: str, secret: str = "") -> None:
        self.url, self.secret = url.rstrip("/"), secret
        self.name = url

    def record(self) -> Any:
        try:
            with web.ask(f"{self.url}/{snapshot.RECORD}", self.secret) as response:
                return json.load(response)
        except urllib.error.HTTPError as e:
            if e.code != 404:
                raise self._refused(e, snapshot.RECORD) from None
            return None
        except ValueError:
            return None
        except web.BROKEN as e:
            raise errors.unreachable_source(self.name, web.reason(e)) from None

    def fetch(self, wanted: Sequence[File], parts: str) -> None:
        for file in wanted:
            self._get(file, _place(parts, file))

    def _get(self, file: File, path: str) -> None:
        url = f"{self.url}/{urllib.parse.quote(file.path)}"
        tries, had = 0, -1
        while True:
            try:
                web.download(url, path, file.size, self.secret)
                return
            except urllib.error.HTTPError as e:
                if e.code != 503 or not e.headers.get("Retry-After"):
                    raise self._refused(e, file.path) from None
                time.sleep(BUSY)  # it serves as many as it may
            except web.BROKEN as e:
                if isinstance(e, OSError) and e.filename:  # of the disk, not of the network
                    raise
                has = os.path.getsize(path) if os.path.exists(path) else 0
                tries = 0 if has > had else tries + 1
                had = has
                if tries >= PATIENCE:
                    raise errors.unreachable_source(self.name, web.reason(e)) from None
                time.sleep(min(2**tries, 10))

    def _refused(self, e: urllib.error.HTTPError, path: str) -> FetchError:
        if e.code in (401, 403):
            return FetchError(
                f"{self.name} refuses access ({e.code})",
                "Give the token, or user:password, that it wants, from a vault (source_token)",
            )
        return FetchError(f"{self.name} answers {e.code} for {path}", "Complete the mirror, or name another source")


def named(request: Request) -> Source | None:
    """The source that a request names; None for the hub. Raises FetchError if there is none."""
    source = request.source
    if not source:
        return None
    if source.startswith(("http://", "https://")):
        return Mirror(source, request.source_token)
    if os.path.isdir(source):
        return Directory(source)
    if os.path.isfile(source):
        return Tar(source)
    raise FetchError(
        f"there is nothing at {source} that the user of the fetch may see",
        "A source is an absolute path of a directory or a tar archive of the host, or a URL that begins with http",
    )


def _place(parts: str, file: File) -> str:
    path = os.path.join(parts, file.path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path
