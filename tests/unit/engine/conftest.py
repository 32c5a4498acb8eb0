from __future__ import annotations

import http.server
import threading

import pytest

from ansible_collections.llmops.vllm.tests.unit.engine.double import Engine, Handler


@pytest.fixture
def engine():
    engine = Engine()
    handler = type("Bound", (Handler,), {"engine": engine})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *args: None  # a client that leaves at its deadline is what is tested
    engine.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield engine
    engine.ended.set()
    server.shutdown()
    server.server_close()
    thread.join()
