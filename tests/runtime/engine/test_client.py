"""The engine process seen from asyncio: real processes, tiny models."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time

import pytest

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.client import AsyncEngine
from kvasir_runtime.errors import (
    CorruptWeightsError,
    EngineDiedError,
    EngineHungError,
    PromptTooLongError,
    UnsupportedArchitectureError,
)
from kvasir_runtime.sampling_params import SamplingParams
from kvasir_runtime.tokenizer import load_tokenizer

GREEDY = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
ENDLESS = SamplingParams(temperature=0, max_tokens=400, ignore_eos=True)


@contextlib.asynccontextmanager
async def running(folder, *, wait=True, **options):
    config = EngineConfig(model=str(folder), device="cpu", kv_cache_gib=0.02)
    engine = AsyncEngine(config, folder, load_tokenizer(folder), **options)
    engine.start()
    try:
        if wait:
            await asyncio.wait_for(engine.wait_ready(), 60)
        yield engine
    finally:
        await engine.stop()
        assert not engine._process.is_alive()


async def collect(engine, prompt, params, name):
    text, tokens, reason = "", [], None
    async for delta in engine.generate(prompt, params, name):
        text, reason = text + delta.text, delta.finish_reason
        tokens += delta.token_ids
    return text, tokens, reason


async def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.02)


async def test_concurrent_requests_get_what_they_get_alone(tiny_models):
    async with running(tiny_models.folder("llama")) as engine:
        prompts = [list(range(n, n + 10 + n)) for n in range(6)]
        alone = [await collect(engine, p, GREEDY, f"a{i}") for i, p in enumerate(prompts)]
        together = await asyncio.gather(
            *(collect(engine, p, GREEDY, f"t{i}") for i, p in enumerate(prompts))
        )
        assert together == alone
        assert all(len(tokens) == 20 for _, tokens, _ in alone)


async def test_a_stop_string_ends_the_stream_and_frees_the_blocks(tiny_models):
    async with running(tiny_models.folder("llama")) as engine:
        text, _, _ = await collect(engine, [1, 2, 3], ENDLESS, "whole")
        stop = text[10:12]
        params = SamplingParams(temperature=0, max_tokens=400, ignore_eos=True, stop=[stop])
        assert await collect(engine, [1, 2, 3], params, "cut") == (
            text[: text.find(stop)], *(await collect(engine, [1, 2, 3], params, "again"))[1:]
        )  # fmt: skip
        await until(lambda: engine.stats.gpu_blocks_used == 0)


async def test_leaving_a_stream_early_frees_its_blocks(tiny_models):
    async with running(tiny_models.folder("llama")) as engine:
        stream = engine.generate([1, 2, 3], ENDLESS, "left")
        await anext(stream)
        await until(lambda: engine.stats.gpu_blocks_used > 0)
        await stream.aclose()
        assert engine.num_unfinished == 0
        await until(lambda: engine.stats.running == 0 and engine.stats.gpu_blocks_used == 0)
        assert engine.stats.generation_tokens_total < 400


async def test_a_prompt_too_long_is_refused_and_nothing_is_queued(tiny_models):
    async with running(tiny_models.folder("llama")) as engine:
        with pytest.raises(PromptTooLongError):
            await collect(engine, [1] * 600, GREEDY, "long")
        assert engine.num_unfinished == 0
        assert (await collect(engine, [1], GREEDY, "next"))[2] == "length"


async def test_startup_errors_cross_the_process_border_as_themselves(tiny_models, tmp_path):
    folder = shutil.copytree(tiny_models.folder("llama"), tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"short")
    async with running(folder, wait=False) as engine:
        with pytest.raises(CorruptWeightsError, match=r"model\.safetensors"):
            await asyncio.wait_for(engine.wait_ready(), 60)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["Mamba"]}))
    async with running(folder, wait=False) as engine:
        with pytest.raises(UnsupportedArchitectureError) as caught:
            await asyncio.wait_for(engine.wait_ready(), 60)
        assert "LlamaForCausalLM" in caught.value.hint


async def test_a_killed_engine_fails_its_requests_and_calls_back(tiny_models):
    async with running(tiny_models.folder("llama")) as engine:
        failures = []
        engine.on_failure(failures.append)
        stream = engine.generate([1, 2, 3], ENDLESS, "doomed")
        await anext(stream)
        os.kill(engine._process.pid, signal.SIGKILL)
        with pytest.raises(EngineDiedError, match="SIGKILL") as caught:
            async for _ in stream:
                pass
        assert failures == [caught.value]
        assert not engine.healthy
        with pytest.raises(EngineDiedError):
            await collect(engine, [1], GREEDY, "later")


async def test_a_frozen_engine_is_found_out_and_ended(tiny_models):
    async with running(tiny_models.folder("llama"), step_timeout_s=5.0) as engine:
        stream = engine.generate([1, 2, 3], ENDLESS, "frozen")
        await anext(stream)
        os.kill(engine._process.pid, signal.SIGSTOP)
        with pytest.raises(EngineHungError, match="bound is 5 s"):
            async for _ in stream:
                pass
        await until(lambda: not engine._process.is_alive())


async def test_loading_that_stands_still_is_found_out(tiny_models):
    async with running(tiny_models.folder("llama"), wait=False, loading_timeout_s=0.1) as engine:
        with pytest.raises(EngineHungError, match="loading made no progress"):
            await asyncio.wait_for(engine.wait_ready(), 60)


async def test_an_idle_engine_stays_healthy_by_its_heartbeat(tiny_models):
    async with running(tiny_models.folder("llama"), step_timeout_s=3.0) as engine:
        started = time.monotonic()
        await until(lambda: time.monotonic() - started > 4.5)
        assert engine.healthy
        assert engine.last_step_age_s < 3.0


async def test_n_completions_come_through_one_stream(tiny_models):
    async with running(tiny_models.folder("llama")) as engine:
        params = SamplingParams(n=3, seed=1, max_tokens=5, ignore_eos=True)
        ends = [
            delta.index
            async for delta in engine.generate([1, 2], params, "many")
            if delta.finish_reason
        ]
        assert sorted(ends) == [0, 1, 2]
