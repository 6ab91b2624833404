import asyncio
import json
import socket

import httpx
import pytest

from kvasir_runtime.errors import CorruptWeightsError, EngineDiedError, InvalidConfigError
from kvasir_runtime.server.supervisor import bind
from runtime.server.conftest import events, until

REQUEST = {"prompt": "Say", "max_tokens": 50}


async def begin_stream(client, engine, **body):
    """Start a stream that holds after its first tokens; return the task that reads it whole."""
    engine.hold_after = 2
    engine.gate.clear()
    task = asyncio.create_task(
        client.post("/v1/completions", json=REQUEST | {"stream": True} | body)
    )
    await until(lambda: engine.open)
    return task


def text_of(chunks):
    return "".join(choice["text"] for chunk in chunks for choice in chunk.get("choices", []))


def termination(tmp_path):
    return json.loads((tmp_path / "termination.json").read_text())


@pytest.fixture
def broken_model():
    """A loader that fails once it is released."""
    release = asyncio.Event()

    async def load(state):
        await release.wait()
        raise CorruptWeightsError("model.safetensors is cut short", "copy it again")

    return load, release


async def test_probes_answer_while_the_model_loads(listening, broken_model):
    load, release = broken_model
    _, running, client = await listening(load)
    assert (await client.get("/ready")).status_code == 503
    assert (await client.get("/live")).status_code == 200
    assert not running.done()
    release.set()
    await running


async def test_a_failed_start_ends_with_one_line_and_the_termination_message(
    listening, broken_model, tmp_path, caplog
):
    load, release = broken_model
    _, running, _ = await listening(load)
    release.set()
    assert await running == 1
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in errors] == [
        "CorruptWeights: model.safetensors is cut short: copy it again"
    ]
    assert errors[0].exc_info is None, "no traceback"
    assert termination(tmp_path) == {
        "reason": "CorruptWeights",
        "message": "model.safetensors is cut short",
        "hint": "copy it again",
    }


async def test_a_bug_while_loading_ends_with_a_message_too(listening, tmp_path):
    release = asyncio.Event()

    async def load(state):
        await release.wait()
        raise ZeroDivisionError("no layers")

    _, running, _ = await listening(load)
    release.set()
    assert await running == 1
    assert termination(tmp_path)["message"] == "start-up failed: ZeroDivisionError: no layers"


async def test_a_stop_while_loading_ends_cleanly(listening, broken_model):
    supervisor, running, _ = await listening(broken_model[0])
    supervisor.stop()
    assert await running == 0


async def test_a_drain_lets_a_running_stream_end(listening, engine):
    supervisor, running, client = await listening()
    stream = await begin_stream(client, engine)
    supervisor.stop()
    await until(lambda: supervisor.state.draining)
    assert (await client.get("/ready")).status_code == 503
    assert (await client.get("/live")).status_code == 200
    refused = await client.post("/v1/completions", json=REQUEST)
    assert refused.status_code == 503
    assert refused.headers["retry-after"]
    assert refused.json()["error"]["code"] == "draining"
    engine.gate.set()
    assert text_of(events((await stream).text)) == "Hello, world"
    assert await running == 0
    assert engine.stopped


async def test_answers_of_a_draining_server_end_their_connections(listening, engine):
    supervisor, running, client = await listening()
    before = await client.get("/ready")
    assert "connection" not in before.headers
    task = await begin_stream(client, engine)
    supervisor.stop()
    await until(lambda: supervisor.state.draining)
    for path in ("/ready", "/v1/models"):
        assert (await client.get(path)).headers["connection"] == "close"
    engine.gate.set()
    await task
    assert await running == 0


async def test_a_stream_that_outlasts_the_drain_ends_with_an_error_event(listening, engine):
    supervisor, running, client = await listening(drain_seconds=0.1)
    stream = await begin_stream(client, engine)
    supervisor.stop()
    chunks = events((await stream).text)
    assert text_of(chunks) == "He"
    assert chunks[-1]["error"]["code"] == "draining"
    assert await running == 0
    assert engine.left_early, "the engine was told"


async def test_an_answer_that_outlasts_the_drain_gets_a_status(listening, engine):
    supervisor, running, client = await listening(drain_seconds=0.1)
    answer = await begin_stream(client, engine, stream=False)
    supervisor.stop()
    response = await answer
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "draining"
    assert await running == 0


async def test_a_dying_engine_ends_streams_with_an_error_and_the_process_with_its_cause(
    listening, engine, tmp_path
):
    _, running, client = await listening()
    stream = await begin_stream(client, engine)
    engine.fail(EngineDiedError("the engine process was killed", "raise resources.memory"))
    chunks = events((await stream).text)
    assert text_of(chunks) == "He"
    assert chunks[-1]["error"]["code"] == "engine_failed"
    assert await running == 1
    assert termination(tmp_path) == {
        "reason": "EngineDied", "message": "the engine process was killed",
        "hint": "raise resources.memory",
    }  # fmt: skip


async def test_a_dying_engine_gives_whole_answers_a_status(listening, engine):
    _, running, client = await listening()
    answer = await begin_stream(client, engine, stream=False)
    engine.fail(EngineDiedError("the engine process was killed"))
    assert (await answer).status_code == 503
    assert await running == 1


@pytest.mark.parametrize("body", [{"stream": True}, {"stream": False}, {"prompt": ["a", "b"]}])
async def test_a_client_that_disconnects_aborts_its_request(listening, engine, body):
    _, _, client = await listening()
    answer = await begin_stream(client, engine, **body)
    other = asyncio.create_task(client.post("/v1/completions", json=REQUEST))
    await until(lambda: len(engine.open) > 1)
    mine = set(engine.open)
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    await until(lambda: engine.left_early)
    await until(lambda: len(engine.open) == 1)
    assert engine.left_early == mine - engine.open
    engine.gate.set()
    assert (await other).json()["choices"][0]["text"] == "Hello, world"


async def test_a_client_that_leaves_before_the_first_token_aborts_too(listening, engine):
    _, _, client = await listening()
    engine.gate.clear()
    answer = asyncio.create_task(client.post("/v1/completions", json=REQUEST | {"stream": True}))
    await until(lambda: engine.open)
    answer.cancel()
    await until(lambda: engine.left_early)


async def test_a_stream_is_sent_as_it_is_made(listening, engine):
    _, _, client = await listening()
    engine.hold_after = 2
    engine.gate.clear()
    async with client.stream(
        "POST", "/v1/completions", json=REQUEST | {"stream": True}
    ) as response:
        lines = response.aiter_lines()
        first = json.loads((await anext(lines)).removeprefix("data: "))
        assert first["choices"][0]["text"] == "H"
        engine.gate.set()


async def test_a_port_in_use_is_said_with_a_way_out():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidConfigError, match=f"127.0.0.1:{port} can't be listened on"):
            bind("127.0.0.1", port)


async def test_an_idle_connection_doesnt_hold_up_the_end(listening):
    supervisor, running, client = await listening()
    assert (await client.get("/health")).status_code == 200
    supervisor.stop()
    assert await asyncio.wait_for(running, 5) == 0
    with pytest.raises(httpx.TransportError):
        await client.get("/health")
