# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hub says of a model, before anything of it is fetched: which commit a revision is, and what that consists of."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
from typing import Any

from ansible_collections.llmops.vllm.plugins.module_utils._models import errors, listing, web
from ansible_collections.llmops.vllm.plugins.module_utils._models.errors import FetchError
from ansible_collections.llmops.vllm.plugins.module_utils._models.listing import Listing


class Hub:
    """One repository of models at one endpoint, in the protocol of the Hugging Face hub."""

    def __init__(self, endpoint: str, repo: str, token: str = "") -> None:
        self.endpoint, self.repo, self.token = endpoint.rstrip("/"), repo, token

    def resolve(self, revision: str) -> str:
        """The commit (40 hex digits) that a branch, a tag or a commit is."""
        path = f"/api/models/{self.repo}/revision/{urllib.parse.quote(revision, safe='')}"
        data, _next = self._json(f"{self.endpoint}{path}", revision)
        sha = data.get("sha") if isinstance(data, dict) else None
        if not isinstance(sha, str) or not listing.SHA.fullmatch(sha):
            raise self._strange("it names no commit")
        return sha

    def listing(self, revision: str) -> Listing:
        """The files of a commit."""
        entries: list[dict[str, Any]] = []
        url = f"{self.endpoint}/api/models/{self.repo}/tree/{revision}?recursive=true&expand=false"
        while url:
            page, url = self._json(url, revision)
            if not isinstance(page, list):
                raise self._strange("its tree is no list")
            entries += page
        try:
            return listing.from_tree(self.repo, revision, entries)
        except listing.ListingError as e:
            raise self._strange(str(e)) from None

    def refuse_without_access(self, revision: str, path: str) -> None:
        """Ask for a file without its content: of a gated model all may see the listing, and only some the files.

        Who is sent on to where the content lies has access. There is no asking there: that address may be good for a GET only.
        """
        url = f"{self.endpoint}/{self.repo}/resolve/{revision}/{urllib.parse.quote(path)}"
        self._ask(url, revision, "HEAD").close()

    def _json(self, url: str, revision: str) -> tuple[Any, str]:
        """What a page holds, and the address of the next one. That is at the same endpoint, though a mirror may name its origin."""
        with self._ask(url, revision) as response:
            following = re.search(r'<([^>]+)>;\s*rel="next"', response.headers.get("Link") or "")
            try:
                data = json.load(response)
            except ValueError:
                raise self._strange("it answers no JSON") from None
        after = following[1].rpartition("/api/models/")[2] if following else ""
        return data, f"{self.endpoint}/api/models/{after}" if after else ""

    def _ask(self, url: str, revision: str, method: str = "GET") -> Any:
        try:
            return web.ask(url, self.token, method=method, follow=method == "GET")
        except urllib.error.HTTPError as e:
            if e.code // 100 == 3:
                return e
            with e:
                headers = e.headers
                wait = errors.waiting(headers.get("Retry-After") or "", headers.get("RateLimit") or "")
                answer = errors.Answer(
                    e.code, headers.get("X-Error-Code") or "", headers.get("X-Error-Message") or "", wait
                )
            place = errors.Place(self.endpoint, self.repo, revision, bool(self.token))
            raise errors.refused(answer, place) from None
        except web.BROKEN as e:
            raise errors.unreachable(self.endpoint, web.reason(e)) from None

    def _strange(self, why: str) -> FetchError:
        return FetchError(
            f"{self.endpoint} does not speak as a hub does: {why}",
            "Check vllm_models_endpoint: a proxy or a login page may answer in its place",
        )
