"""How a server's stream is read, good and broken, from a transport that a test writes."""

import json
import sys

import httpx
import pytest

from kvasir_runtime.bench.openai_server import ServerAddress, ServerTarget, connected
from kvasir_runtime.errors import AnswerError, InvalidConfigError, MissingExtraError

ADDRESS = ServerAddress(base_url="http://server/v1")


async def ask(body, status=200, address=ADDRESS, prompt=(1, 2)):
    """Return the answer, and the request the server saw."""
    seen = []

    def handle(request):
        seen.append((request.url.path, json.loads(request.content)))
        return httpx.Response(status, text=body)

    async with httpx.AsyncClient(
        base_url=address.base_url, transport=httpx.MockTransport(handle)
    ) as client:
        return await ServerTarget(client, address, "tiny").ask(prompt, 4), seen[0]


def events(*chunks, done=True):
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return ": a comment\n\n" + "".join(lines) + ("data: [DONE]\n\n" if done else "")


TEXT = {"choices": [{"text": "a"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}


async def test_tokens_are_the_servers_count_and_moments_are_the_chunks():
    answer, (path, body) = await ask(events(TEXT, TEXT, USAGE))
    assert (answer.output_tokens, answer.prompt_tokens, len(answer.moments)) == (4, 9, 2)
    assert answer.sent_s <= answer.moments[0] <= answer.moments[1]
    assert path == "/v1/completions"
    assert body == {
        "model": "tiny", "prompt": [1, 2], "max_tokens": 4, "temperature": 0.0, "stream": True,
        "stream_options": {"include_usage": True}, "ignore_eos": True,
    }  # fmt: skip


async def test_chunks_are_counted_where_the_server_counts_nothing():
    answer, _ = await ask(events(TEXT, TEXT, TEXT))
    assert (answer.output_tokens, answer.prompt_tokens) == (3, None)


async def test_a_strict_server_gets_no_field_beyond_openais():
    strict = ServerAddress(base_url="http://server/v1", ignore_eos=False)
    _, (_, body) = await ask(events(TEXT), address=strict, prompt="some words")
    assert "ignore_eos" not in body
    assert body["prompt"] == "some words"


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ("busy", 429, "HTTP 429"),
        (events(TEXT, done=False), 200, "StreamCut"),
        (events(USAGE), 200, "NoTokens"),
        (events(TEXT, {"error": {"message": "engine died"}}), 200, "ErrorInStream"),
        ("data: <html>\n\n", 200, "NoJSON"),
    ],
)
async def test_an_answer_that_fails_is_named(body, status, kind):
    with pytest.raises(AnswerError) as caught:
        await ask(body, status)
    assert caught.value.kind == kind


async def test_a_missing_client_is_said_with_the_extra_that_has_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"kvasir\[bench\]"):
        async with connected(ADDRESS):
            pytest.fail("there is no client")


async def test_what_is_no_url_is_refused():
    with pytest.raises(InvalidConfigError, match="http://HOST:PORT/v1"):
        async with connected(ServerAddress(base_url="http://server:port/v1")):
            pytest.fail("there is no such port")
