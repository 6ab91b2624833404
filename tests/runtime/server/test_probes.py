from kvasir_runtime.errors import EngineDiedError
from kvasir_runtime.messages import Progress
from runtime.server.conftest import connected, new_state


async def statuses(client):
    return {path: (await client.get(path)).status_code for path in ("/health", "/ready", "/live")}


async def test_a_loaded_server_is_healthy_ready_and_live(client):
    assert await statuses(client) == {"/health": 200, "/ready": 200, "/live": 200}
    assert (await client.post("/ping")).status_code == 200
    assert (await client.get("/version")).json()["version"]


async def test_a_loading_server_is_live_and_says_how_far_it_is(engine):
    state = new_state()
    async with connected(state) as client:
        state.enter_stage("download")
        assert (await client.get("/ready")).json()["stage"] == "download"
        state.engine = engine
        engine.progress = Progress("load weights", 40)
        assert await statuses(client) == {"/health": 503, "/ready": 503, "/live": 200}
        report = (await client.get("/ready")).json()
    assert report["stage"] == "load weights"
    assert report["percent"] == 40
    assert report["seconds"] >= 0


async def test_a_draining_server_is_not_ready_but_alive(client, state):
    state.draining = True
    assert await statuses(client) == {"/health": 200, "/ready": 503, "/live": 200}
    assert (await client.get("/ready")).json()["stage"] == "draining"


async def test_a_frozen_step_fails_every_probe(client, engine):
    engine.healthy = False
    assert await statuses(client) == {"/health": 503, "/ready": 503, "/live": 503}
    assert (await client.get("/live")).json()["stage"] == "stalled"


async def test_a_failed_engine_is_explained(client, state):
    state.failure = EngineDiedError("killed", "raise the memory")
    assert await statuses(client) == {"/health": 503, "/ready": 503, "/live": 503}
    report = (await client.get("/ready")).json()
    assert (report["reason"], report["hint"]) == ("EngineDied", "raise the memory")
