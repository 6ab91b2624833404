"""Mixed load on the engine for minutes: does anything break, leak, or compile while serving?

    python benchmarks/soak.py MODEL [--minutes 8] [--clients 300] [the engine's own flags]

Clients send random requests one after the other, with every kind of sampling parameter; a quarter
of them leave early, at any moment of a request's life. The last line is a JSON object; the exit
status is 1 if a request went wrong, a kernel came late, blocks were not given back, or memory grew
by more than `--most-growth-mib` between a quarter of the time and the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from soak_load import SoakRequest, soak_requests

from kvasir_runtime.config import EngineConfig, add_flags, from_args
from kvasir_runtime.engine.client import AsyncEngine
from kvasir_runtime.errors import KvasirError
from kvasir_runtime.models.resolve import resolve_model
from kvasir_runtime.tokenizer import load_tokenizer

MIB = 1024**2
SETTLE_TIMEOUT_S = 30.0  # after the load: how long the engine may take to be empty


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in use: of this process and the engine's, and on the GPU by whoever uses it."""

    process: int
    device: int

    @classmethod
    def now(cls) -> Memory:
        """Measure."""
        children = [child.pid for child in multiprocessing.active_children()]
        resident = sum(resident_bytes(pid) for pid in [os.getpid(), *children])
        if not torch.cuda.is_available():
            return cls(resident, 0)
        free, total = torch.cuda.mem_get_info()
        return cls(resident, total - free)


@dataclass(slots=True)
class Tally:
    """What became of the requests."""

    requests: int = 0
    aborted: int = 0
    tokens: int = 0
    errors: Counter[str] = field(default_factory=Counter)


def resident_bytes(pid: int | None) -> int:
    """Return a process's resident memory (proc(5))."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def send(engine: AsyncEngine, request: SoakRequest, name: str, tally: Tally) -> None:
    """Run one request to its end, or until its client leaves, and check what comes."""
    counts: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    tally.requests += 1
    try:
        async with asyncio.timeout(request.patience_s):
            async with aclosing(engine.generate(request.prompt, request.params, name)) as stream:
                async for delta in stream:
                    counts[delta.index] += len(delta.token_ids)
                    ended[delta.index] += delta.finish_reason in ("stop", "length")
    except TimeoutError:
        tally.aborted += 1
    except KvasirError as error:
        tally.errors[error.reason] += 1
    else:
        if list(ended.values()) != [1] * request.params.n:
            tally.errors["not every choice ended once"] += 1
    if max(counts.values(), default=0) > (request.params.max_tokens or 0):
        tally.errors["more tokens than asked for"] += 1
    tally.tokens += sum(counts.values())


async def soak(engine: AsyncEngine, seconds: float, clients: int) -> dict[str, Any]:
    """Load a ready engine for some time; return what happened."""
    if engine.model is None:
        raise RuntimeError("the engine is not ready")
    requests = soak_requests(engine.model, seed=0)
    tally, started = Tally(), time.monotonic()

    async def client(number: int) -> None:
        while time.monotonic() < started + seconds and engine.failure is None:
            await send(engine, next(requests), f"{number}-{tally.requests}", tally)

    running = [asyncio.create_task(client(number)) for number in range(clients)]
    await asyncio.sleep(seconds / 4)
    before = Memory.now()
    await asyncio.gather(*running)
    elapsed = time.monotonic() - started
    if not await _is_empty(engine):
        tally.errors["blocks or sequences left over"] += 1
    stats, after = engine.stats, Memory.now()
    return {
        "seconds": round(elapsed, 1), "requests": tally.requests, "aborted": tally.aborted,
        "errors": dict(tally.errors), "late_kernels": stats.late_kernels_total,
        "prompt_tokens": stats.prompt_tokens_total, "output_tokens": stats.generation_tokens_total,
        "received_tokens": tally.tokens, "preemptions": stats.preemptions_total,
        "swaps": stats.swaps_total, "prefix_hits": stats.prefix_cache_hits_total,
        "process_mib": [before.process // MIB, after.process // MIB],
        "device_mib": [before.device // MIB, after.device // MIB],
    }  # fmt: skip


async def _is_empty(engine: AsyncEngine) -> bool:
    """Wait for the engine to say that nothing runs and nobody owns a block."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline:
        await asyncio.sleep(1.0)  # an idle engine reports each second
        stats = engine.stats
        if stats.running + stats.waiting + stats.swapped + stats.gpu_blocks_used == 0:
            return True
    return False


def failures(report: dict[str, Any], most_growth_mib: int) -> list[str]:
    """Return what is wrong with a report, as sentences; empty for a good one."""
    found = [f"{count} x {name}" for name, count in report["errors"].items()]
    if report["late_kernels"]:
        found.append(f"{report['late_kernels']} kernels were not ready before serving")
    for name in ("process_mib", "device_mib"):
        before, after = report[name]
        if after - before > most_growth_mib:
            found.append(f"{name} grew from {before} to {after}, bound {most_growth_mib}")
    return found


async def run(config: EngineConfig, seconds: float, clients: int) -> dict[str, Any]:
    """Start the engine, load it, and end it."""
    folder = resolve_model(config.model, config.revision)
    decoder = None if config.skip_tokenizer_init else load_tokenizer(config.tokenizer or folder)
    engine = AsyncEngine(config, folder, decoder)
    engine.start()
    try:
        await engine.wait_ready()
        return await soak(engine, seconds, clients)
    finally:
        await engine.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Soak, print the report, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="MODEL")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--clients", type=int, default=300, help="requests at once")
    parser.add_argument("--most-growth-mib", type=int, default=256)
    add_flags(parser.add_argument_group("engine"), EngineConfig)
    args = parser.parse_args(argv)
    args.model = args.folder
    report = asyncio.run(run(from_args(args, EngineConfig), 60 * args.minutes, args.clients))
    wrong = failures(report, args.most_growth_mib)
    print(json.dumps(report | {"failures": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
