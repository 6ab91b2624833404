"""The server around a scripted engine: in memory, and on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from kvasir_runtime.config import EngineConfig, ServerConfig
from kvasir_runtime.server.app import build_app
from kvasir_runtime.server.metrics import Metrics
from kvasir_runtime.server.state import Loaded, ServerState
from kvasir_runtime.server.supervisor import Supervisor
from kvasir_runtime.tokenizer import load_tokenizer
from runtime.server.scripted_engine import MODEL, ScriptedEngine
from support.tiny_models import save_byte_tokenizer


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    save_byte_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tokenizer_folder):
    return load_tokenizer(tokenizer_folder)


@pytest.fixture
def engine(tokenizer):
    return ScriptedEngine(tokenizer)


def new_state(**server):
    server = {"served_model_name": ("tiny", "alias"), "host": "127.0.0.1", "port": 0} | server
    return ServerState(EngineConfig(model="/models/tiny"), ServerConfig(**server))


def loaded_with(state, engine, defaults=None):
    """Put a model into the server's state, as start-up does."""
    metrics = Metrics(state.names[0], engine, MODEL, state.engine_config)
    state.engine = engine
    state.loaded = Loaded(engine, engine.tokenizer, MODEL, metrics, defaults or {})
    return state.loaded


@pytest.fixture
def state(engine):
    state = new_state()
    loaded_with(state, engine)
    return state


@pytest.fixture
async def client(state):
    async with connected(state) as client:
        yield client


@contextlib.asynccontextmanager
async def connected(state) -> AsyncIterator[httpx.AsyncClient]:
    """Talk to the server's application without a socket."""
    transport = httpx.ASGITransport(build_app(state), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        yield client


@pytest.fixture
async def listening(engine, monkeypatch, tmp_path):
    """Return a starter of servers on real sockets; they are stopped at the test's end."""
    monkeypatch.setenv("KVASIR_TERMINATION_LOG", str(tmp_path / "termination.json"))
    async with contextlib.AsyncExitStack() as stack:

        async def start(load=None, **server):
            async def default(state):
                return loaded_with(state, engine)

            supervisor = Supervisor(new_state(**server), load or default)
            running = asyncio.create_task(supervisor.run())
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{supervisor.port}", timeout=20)
            await stack.enter_async_context(client)
            stack.push_async_callback(_end, supervisor, running)
            await until(lambda: _answers(client))
            return supervisor, running, client

        yield start


async def _answers(client):
    try:
        return (await client.get("/version")).status_code == 200
    except httpx.ConnectError:
        return False


async def _end(supervisor, running):
    supervisor.stop()
    await asyncio.wait([running], timeout=10)
    running.cancel()


async def until(condition, timeout_s=10.0):
    """Wait for a condition, a plain or an asynchronous one."""
    async with asyncio.timeout(timeout_s):
        while True:
            value = condition()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.01)


def events(text):
    """Return the bodies of a stream's events; the last one must be `[DONE]`."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.fixture(scope="session")
def eventually():
    """Return a function that waits until a condition holds."""

    def wait(condition, timeout_s=60.0):
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    return wait
