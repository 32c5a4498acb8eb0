"""A hub of models on this machine: the protocol that huggingface_hub speaks, from the standard library, with faults to be had on demand.

It has what a client sees of the real one: the revision and the tree of a repository, in pages; files by HEAD and GET with ranges, those in
LFS by a redirect to another origin; commits, sizes and hashes in headers; gated and private repositories, tokens, limits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PAGE = 3  # entries of a tree
LFS = (".safetensors", ".bin")


def blob(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


@dataclasses.dataclass
class Repository:
    """revisions: the files of each commit, by path. names: branches and tags."""

    name: str
    revisions: dict[str, dict[str, bytes]] = dataclasses.field(default_factory=dict)
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    gated: bool = False
    private: bool = False
    xet: bool = False

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        sha = hashlib.sha1(repr(sorted((path, blob(data)) for path, data in files.items())).encode()).hexdigest()
        self.revisions[sha] = files
        self.names[branch] = sha
        return sha

    def find(self, revision: str) -> str | None:
        return revision if revision in self.revisions else self.names.get(revision)


@dataclasses.dataclass(frozen=True)
class Asked:
    host: str
    method: str
    path: str
    token: str
    file: str
    sent: int
    """Bytes of the file's content."""
    start: int
    """Where in it they begin."""


class Hub:
    """The hub at `url`, as long as its block lasts.

    tokens: what each may read besides what all may. asked: every request. altered: files that come with other bytes than are listed.
    cut: after so many bytes of a file its connection breaks, once, and then all answers are `after_cut`. refusing: status and headers of
    every answer. speed: bytes a second of all together. origin: what it calls itself in links, as a mirror may.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.repositories: dict[str, Repository] = {}
        self.tokens: dict[str, set[str]] = {}
        self.asked: list[Asked] = []
        self.cut: dict[str, int] = {}
        self.altered: dict[str, bytes] = {}
        self.refusing: tuple[int, dict[str, str]] | None = None
        self.after_cut: tuple[int, dict[str, str]] | None = None
        self.speed = 0
        self.lock = threading.Lock()
        self._free_at = 0.0

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            hub = self

        self.server = Server((address, 0), Handler)
        port = self.server.server_address[1]
        self.url = self.origin = f"http://{address}:{port}"
        # Another origin, as that of a content network is, where there is another name for it.
        self.content = f"http://localhost:{port}" if address == "127.0.0.1" else self.url

    def add(self, name: str, files: dict[str, bytes], **details: Any) -> Repository:
        repository = self.repositories[name] = Repository(name, **details)
        repository.commit(files)
        return repository

    def add_directory(self, name: str, directory: Path, **details: Any) -> Repository:
        files = {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}
        return self.add(name, files, **details)

    @property
    def sent(self) -> int:
        """Bytes of content that have left."""
        return sum(asked.sent for asked in self.asked)

    def wanted(self) -> dict[str, int]:
        """Bytes sent of each file."""
        sent: dict[str, int] = {}
        for asked in self.asked:
            if asked.sent:
                sent[asked.file] = sent.get(asked.file, 0) + asked.sent
        return sent

    def forget(self) -> None:
        self.asked.clear()

    def pause(self, count: int) -> None:
        """As long as so many bytes take on the line that all share."""
        if self.speed:
            with self.lock:
                self._free_at = max(self._free_at, time.monotonic()) + count / self.speed
                until = self._free_at
            time.sleep(max(0.0, until - time.monotonic()))

    def __enter__(self) -> Hub:
        threading.Thread(target=self.server.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_details: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    @property
    def hub(self) -> Hub:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    @property
    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def do_HEAD(self) -> None:
        self.handle_one()

    def do_GET(self) -> None:
        self.handle_one()

    def handle_one(self) -> None:
        self.file, self.sent, self.start = "", 0, 0
        try:
            self.route(urllib.parse.urlsplit(self.path))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            self.hub.asked.append(
                Asked(self.client_address[0], self.command, self.path, self.token, self.file, self.sent, self.start)
            )

    def route(self, url: urllib.parse.SplitResult) -> None:
        if self.hub.refusing:
            status, headers = self.hub.refusing
            return self.answer(status, b"{}", **headers)
        path = urllib.parse.unquote(url.path)
        if found := re.fullmatch(r"/api/models/(.+)/revision/(.+)", path):
            return self.revision(*found.groups())
        if found := re.fullmatch(r"/api/models/(.+)/tree/([^/]+)", path):
            return self.tree(*found.groups(), urllib.parse.parse_qs(url.query))
        if found := re.fullmatch(r"/api/models/(.+)/xet-read-token/([^/]+)", path):
            cas = {
                "X-Xet-Cas-Url": f"{self.hub.url}/cas",
                "X-Xet-Access-Token": "x",
                "X-Xet-Token-Expiration": "9999999999",
            }
            return self.answer(200, b"{}", **cas)
        if found := re.fullmatch(r"/lfs/([^/]+/[^/]+)/([0-9a-f]{40})/(.+)", path):
            return self.content(self.hub.repositories[found[1]].revisions[found[2]][found[3]], found[3], {})
        if found := re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", path):
            return self.resolve(*found.groups())
        # Of the transfer backend there is nothing but its address.
        return self.answer(500 if path.startswith("/cas") else 404, b"")

    def repository(self, name: str) -> Repository | None:
        """The repository, if whoever asks may know of it; else the refusal is sent."""
        if self.token and self.token not in self.hub.tokens:
            self.answer(401, b"{}", **{"X-Error-Message": "Invalid credentials in Authorization header"})
            return None
        found = self.hub.repositories.get(name)
        if found is None or (found.private and name not in self.hub.tokens.get(self.token, ())):
            # Whoever is nobody is not told whether it is there.
            self.answer(
                404 if self.token else 401,
                b"{}",
                **{"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"},
            )
            return None
        return found

    def commit(self, name: str, revision: str) -> tuple[Repository, str] | None:
        repository = self.repository(name)
        if repository is None:
            return None
        sha = repository.find(revision)
        if sha is None:
            self.answer(
                404, b"{}", **{"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"Invalid rev id: {revision}"}
            )
            return None
        return repository, sha

    def revision(self, name: str, revision: str) -> None:
        if found := self.commit(name, revision):
            repository, sha = found
            siblings = [{"rfilename": path} for path in sorted(repository.revisions[sha])]
            self.answer(200, json.dumps({"id": name, "modelId": name, "sha": sha, "siblings": siblings}).encode())

    def tree(self, name: str, revision: str, query: dict[str, list[str]]) -> None:
        if found := self.commit(name, revision):
            repository, sha = found
            entries = list(self.entries(repository, sha))
            start = int(query.get("cursor", ["0"])[0])
            more = {}
            if start + PAGE < len(entries):
                more["Link"] = (
                    f'<{self.hub.origin}/api/models/{name}/tree/{revision}?recursive=true&cursor={start + PAGE}>; rel="next"'
                )
            self.answer(200, json.dumps(entries[start : start + PAGE]).encode(), **more)

    def entries(self, repository: Repository, sha: str) -> Iterator[dict[str, Any]]:
        files = repository.revisions[sha]
        for directory in sorted({str(Path(path).parent) for path in files} - {"."}):
            yield {"type": "directory", "path": directory, "oid": "0" * 40, "size": 0}
        for path, content in sorted(files.items()):
            entry: dict[str, Any] = {"type": "file", "path": path, "oid": blob(content), "size": len(content)}
            if path.endswith(LFS):
                digest = hashlib.sha256(content).hexdigest()
                pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"
                entry["oid"] = blob(pointer.encode())
                entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": len(pointer)}
                if repository.xet:
                    entry["xetHash"] = digest
            yield entry

    def resolve(self, name: str, revision: str, path: str) -> None:
        found = self.commit(name, revision)
        if not found:
            return
        repository, sha = found
        if repository.gated and name not in self.hub.tokens.get(self.token, ()):
            message = f"Access to model {name} is restricted."
            return self.answer(
                403 if self.token else 401, b"{}", **{"X-Error-Code": "GatedRepo", "X-Error-Message": message}
            )
        content = repository.revisions[sha].get(path)
        if content is None:
            return self.answer(404, b"{}", **{"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        headers = {"X-Repo-Commit": sha}
        if not path.endswith(LFS):
            return self.content(content, path, {**headers, "ETag": f'"{blob(content)}"'})
        digest = hashlib.sha256(content).hexdigest()
        headers.update({"X-Linked-Size": str(len(content)), "X-Linked-Etag": f'"{digest}"'})
        if repository.xet:
            headers["X-Xet-Hash"] = digest
            headers["Link"] = f'<{self.hub.url}/api/models/{name}/xet-read-token/{sha}>; rel="xet-auth"'
        headers["Location"] = f"{self.hub.content}/lfs/{name}/{sha}/{urllib.parse.quote(path)}"
        return self.answer(302, b"", **headers)

    def content(self, content: bytes, path: str, headers: dict[str, str]) -> None:
        self.file = path
        content = self.hub.altered.get(path, content)
        start, end, status = 0, len(content), 200
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end, status = int(asked[1]), min(int(asked[2] or len(content)) + bool(asked[2]), len(content)), 206
            self.start = start
            if start >= len(content):
                return self.answer(416, b"", **{"Content-Range": f"bytes */{len(content)}"})
            headers = {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}
        return self.answer(status, content[start:end], path, **{"Accept-Ranges": "bytes", **headers})

    def answer(self, status: int, body: bytes, path: str = "", **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/octet-stream" if path else "application/json",
            **headers,
        }.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        with self.hub.lock:
            stop = self.hub.cut.pop(path, None) if path else None
        for at in range(0, len(body), 1 << 16):
            chunk = body[at : at + (1 << 16)]
            if stop is not None and at + len(chunk) > stop:
                chunk = body[at : max(stop, at)]
            if path:
                self.hub.pause(len(chunk))
                self.sent += len(chunk)
            with contextlib.suppress(BrokenPipeError):
                self.wfile.write(chunk)
            if stop is not None and at + len(chunk) >= stop:
                self.wfile.flush()
                self.hub.refusing = self.hub.after_cut
                self.close_connection = True
                self.connection.close()
                return
