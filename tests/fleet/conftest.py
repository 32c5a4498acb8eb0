"""`fleets` makes fleets; all go when the module's tests are over. Where there can be none, the tests are skipped, but not in CI."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.llmops.vllm.tests.fleet.base import lacks
from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet


@pytest.fixture(scope="module")
def fleets(request: pytest.FixtureRequest) -> Iterator[Callable[..., Fleet]]:
    lack = lacks()
    if lack and os.environ.get("CI") == "true":
        pytest.fail(f"{lack}; in CI that is no excuse")
    if lack:
        pytest.skip(lack)

    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    with contextlib.ExitStack() as made:
        yield lambda *counts, **options: made.enter_context(Fleet(*counts, say=say, **options))
