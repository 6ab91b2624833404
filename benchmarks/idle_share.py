"""How long the GPU waits for the host in a decode step: a trace of the engine's own loop.

    python benchmarks/idle_share.py MODEL_OR_CONFIG_FOLDER [--seqs 1 32 256]

Random weights, random prompts. For each batch size it decodes until every sequence runs, traces 30
steps with torch's profiler, and prints the time of a step and the share of it in which neither a
kernel nor a copy ran. With and without overlap, with and without CUDA graphs.
"""

from __future__ import annotations

import argparse
import gc
import json
from typing import Any

import torch

from kvasir_runtime import LLM, SamplingParams
from kvasir_runtime.engine.core import Engine
from kvasir_runtime.messages import NewRequest

STEPS = 30
PROMPT = 512


def trace(engine: Engine, seqs: int) -> tuple[float, float]:
    """Return a decode step's wall time in ms, and the GPU's idle share of it."""
    params = SamplingParams(temperature=0, max_tokens=400, ignore_eos=True)
    source = torch.Generator().manual_seed(0)
    names = tuple(f"r{number}" for number in range(seqs))
    for name in names:
        ids = torch.randint(0, engine.model.vocab_size, (PROMPT,), generator=source)
        engine.add(NewRequest(name, tuple(ids.tolist()), params, 0.0))
    prefilled = engine.stats().prompt_tokens_total + PROMPT * seqs
    while engine.stats().prompt_tokens_total < prefilled:
        engine.step()
    for _ in range(5):
        engine.step()
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(STEPS):
            engine.step()
        torch.cuda.synchronize()
    engine.abort(names)
    while engine.has_work():
        engine.step()
    return _read(profile)


def _read(profile: Any) -> tuple[float, float]:
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profile.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )
    busy, end = 0.0, spans[0][0]
    for start, stop in spans:
        busy += max(0.0, stop - max(start, end))
        end = max(end, stop)
    whole = end - spans[0][0]
    return whole / STEPS / 1000, 1 - busy / whole


def main() -> None:
    """Print a line for each way and batch size, as text and as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--seqs", type=int, nargs="+", default=[1, 32, 256])
    args = parser.parse_args()
    for eager, overlap in ((False, True), (False, False), (True, True)):
        llm = LLM(
            args.model, load_format="dummy", skip_tokenizer_init=True, use_tqdm=False,
            enforce_eager=eager, async_scheduling=overlap, enable_prefix_caching=False,
            max_num_seqs=max(args.seqs), max_num_batched_tokens=8192,
        )  # fmt: skip
        for seqs in args.seqs:
            step_ms, idle = trace(llm.engine, seqs)
            line = {"graphs": not eager, "overlap": overlap, "seqs": seqs}
            line |= {"step_ms": round(step_ms, 3), "idle_share": round(idle, 4)}
            print(json.dumps(line), flush=True)
        llm.shutdown()
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
