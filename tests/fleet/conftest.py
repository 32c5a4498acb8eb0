"""`fleets` makes fleets; all go when the module's tests are over. Where there can be none, the tests are skipped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.llmops.vllm.tests.fleet.fleet import Fleet, unable


@pytest.fixture(scope="module")
def fleets(request: pytest.FixtureRequest) -> Iterator[Callable[..., Fleet]]:
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    if lack := unable(say):
        pytest.skip(lack)
    with contextlib.ExitStack() as made:
        yield lambda *counts, **options: made.enter_context(Fleet(*counts, say=say, **options))
