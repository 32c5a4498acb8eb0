"""What a server that doesn't answer is said to suffer from."""

from __future__ import annotations

import socket
import time

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._engine.requests import Answer, Model, NoAnswerError, Server

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Recite"}], "max_tokens": 64}
# As recorded from vLLM 0.32.0.
DEAD = {
    "error": {
        "message": "EngineCore encountered an issue. See stack trace (above) for the root cause",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
}


def soon(seconds=20.0):
    return time.monotonic() + seconds


def failure(engine, deadline=None):
    with pytest.raises(NoAnswerError) as caught:
        Server(engine.url).generate(BODY, deadline or soon())
    return caught.value


def test_an_answer(engine):
    answer = Server(engine.url + "/").generate(BODY, soon())
    assert answer == Answer(1, 50, answer.first_token, False)
    assert answer.first_token > 0
    assert engine.asked == [
        {**BODY, "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    ]


def test_a_piece_may_end_anywhere(engine):
    def torn(handler, n):
        handler.begin()
        line = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
        for byte in line:
            handler.wfile.write(b"1\r\n%c\r\n" % byte)
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")
        return True

    engine.fault = torn
    assert Server(engine.url).generate(BODY, soon()).tokens == 2


@pytest.mark.parametrize("said", [{"reasoning": "Hm"}, {"reasoning_content": "Hm"}, {"content": "<think>\n"}])
def test_thinking_is_seen(engine, said):
    def thinks(handler, n):
        handler.begin()
        handler.event({"choices": [{"delta": said}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
        handler.wfile.write(b"0\r\n\r\n")
        return True

    engine.fault = thinks
    assert Server(engine.url).generate(BODY, soon()).thinking


def test_nothing_listens():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{s.getsockname()[1]}"
        with pytest.raises(NoAnswerError, match=f"Nothing listens at {url}") as caught:
            Server(url).models(soon())
    assert "Connection refused" in caught.value.evidence
    with pytest.raises(NoAnswerError, match="The engine failed when it was asked") as caught:
        Server(url).generate(BODY, soon())
    assert caught.value.evidence.startswith(
        "The server is gone ([Errno 111] Connection refused); /health gives no answer"
    )


def test_a_server_that_accepts_and_says_nothing_is_left_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as s, pytest.raises(NoAnswerError, match="does not answer") as caught:
        Server(f"http://127.0.0.1:{s.getsockname()[1]}").models(soon(0.2))
    assert caught.value.evidence == "timed out"


def test_a_hang_is_told_from_a_dead_server(engine):
    engine.fault = lambda handler, n: engine.ended.wait()
    e = failure(engine, soon(0.3))
    assert e.cause.startswith("The engine hangs: not one token within")
    assert e.evidence.startswith("/health says 200")


def test_a_hang_in_the_middle_says_how_far_it_came(engine):
    def stalls(handler, n):
        handler.begin()
        handler.event({"choices": [], "usage": handler.usage(BODY, 17)})
        handler.event({"choices": [], "usage": handler.usage(BODY, 23)})
        return engine.ended.wait()

    engine.fault = stalls
    e = failure(engine, soon(0.5))
    assert e.cause.startswith("An answer was not complete within")
    assert "23 tokens of it had come; /health says 200" in e.evidence


def test_a_server_that_only_keeps_the_line_warm_is_left_at_the_deadline(engine):
    """A gateway's comments come faster than any timeout of a socket, so the deadline has to be looked at itself."""

    def chatters(handler, n):
        handler.begin()
        try:
            while not engine.ended.wait(0.02):
                handler.wfile.write(b"7\r\n: ping\n\r\n")
        except OSError:
            pass
        return True

    engine.fault = chatters
    assert failure(engine, soon(0.3)).cause.startswith("The engine hangs")


def test_the_engine_dies_in_the_stream(engine):
    def dies(handler, n):
        handler.begin()
        handler.event(DEAD)
        handler.wfile.write(b"0\r\n\r\n")
        return True

    engine.fault = dies
    e = failure(engine)
    assert e.cause == "The engine failed when it was asked"
    assert e.evidence == f"{DEAD['error']['message']}; /health says 200"
    assert "mask_token_id" in e.remedy


def test_the_engine_is_dead_already(engine):
    engine.fault = lambda handler, n: handler.reply(500, DEAD) or True
    e = failure(engine)
    assert e.evidence == f"/v1/chat/completions answered 500: {DEAD['error']['message']}; /health says 200"


def test_the_connection_is_cut_while_it_answers(engine):
    def cut(handler, n):
        handler.begin()
        handler.event({"choices": [], "usage": handler.usage(BODY, 5)})
        handler.connection.shutdown(socket.SHUT_RDWR)
        return True

    engine.fault = cut
    e = failure(engine)
    assert e.cause == "The engine failed while it answered"
    assert "The answer broke off" in e.evidence


@pytest.mark.parametrize("key", [None, "guess"])
def test_a_key_is_wanted(engine, key):
    engine.key = "right"
    with pytest.raises(NoAnswerError, match="alive but wants another API key") as caught:
        Server(engine.url, key).models(soon())
    assert caught.value.evidence == f"/v1/models answered 401: Unauthorized; a key was {'sent' if key else 'not sent'}"
    assert Server(engine.url, "right").models(soon()) == [Model("tiny", 512)]


def test_a_key_that_no_header_can_carry_is_not_shown():
    with pytest.raises(ValueError, match="api_key holds a character") as caught:
        Server("http://127.0.0.1:1", "s3cret\n")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://host", "http://", "http://user:s3cret@host", "http://host:port"]
)
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the words of a wrong port are Python's own
        Server(url)
    assert "s3cret" not in str(caught.value)


def test_a_url_that_ends_with_v1_is_told(engine):
    with pytest.raises(NoAnswerError, match="There is no /v1/models at") as caught:
        Server(engine.url + "/v1").models(soon())
    assert "without /v1" in caught.value.remedy


def test_a_refused_request_says_why(engine):
    said = "max_tokens=10000 cannot be greater than max_model_len=512"
    engine.fault = lambda handler, n: handler.reply(400, {"error": {"message": said, "code": 400}}) or True
    e = failure(engine)
    assert (e.cause, e.evidence) == ("The server refuses the request", f"/v1/chat/completions answered 400: {said}")


def test_a_gateway_that_drops_the_usage_is_told(engine):
    def drops(handler, n):
        handler.begin()
        handler.event({"choices": [{"delta": {"content": "ne"}}]})
        handler.wfile.write(b"0\r\n\r\n")
        return True

    engine.fault = drops
    assert "how many tokens" in failure(engine).cause


@pytest.mark.parametrize(
    "listing", ["<html>It works!</html>", "[]", {"data": None}, {"data": ["tiny"]}, {"data": [{}]}]
)
def test_a_stranger_is_told_from_vllm(engine, listing):
    engine.listing = listing
    with pytest.raises(NoAnswerError, match="is not vLLM") as caught:
        Server(engine.url).models(soon())
    assert caught.value.evidence.startswith("/v1/models gave ")


def test_http_to_a_port_of_tls_and_the_other_way_round(engine):
    with pytest.raises(NoAnswerError, match="No trusted connection") as caught:
        Server(engine.url.replace("http", "https")).models(soon())
    assert "validate_certs" in caught.value.remedy


def test_the_error_of_a_gateway_is_shortened(engine):
    engine.fault = lambda handler, n: handler.reply(502, "<html>" + "x" * 5000, "text/html") or True
    assert len(failure(engine).evidence) < 400


def test_every_script_arrives(engine):
    Server(engine.url).generate({**BODY, "messages": [{"role": "user", "content": "Grüße 你好\n"}]}, soon())
    assert engine.asked[0]["messages"][0]["content"] == "Grüße 你好\n"
