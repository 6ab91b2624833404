"""`kvasir-runtime bench serving`: latency under requests that arrive over time."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from kvasir_runtime.bench import plot
from kvasir_runtime.bench.arrivals import Arrival
from kvasir_runtime.bench.in_process import running_engine
from kvasir_runtime.bench.latency import Latencies, percentile
from kvasir_runtime.bench.openai_server import connected
from kvasir_runtime.bench.replay import Planned, Replayed, Target, replay, warm_up
from kvasir_runtime.bench.report import Line, Report, reporting
from kvasir_runtime.bench.serving_options import Load, ServingOptions, parse_options
from kvasir_runtime.bench.workload import random_ids, random_words
from kvasir_runtime.config import EngineConfig

COLUMNS = (
    "rate", "requests", "errors", "output_tokens_per_s", "ttft_p50", "ttft_p99", "tpot_p50",
    "tpot_p99", "itl_p99", "e2e_p50", "e2e_p99",
)  # fmt: skip
WARM_UP = 8  # requests before the first that counts


def main(argv: Sequence[str]) -> int:
    """Print one JSON line a rate, then a table; return 1 if a run had no answer at all."""
    options = parse_options(argv)
    with reporting(options.json_file, COLUMNS) as report:
        drawn = asyncio.run(_run(options, report))
    if options.plot_file is not None:
        plot.draw(drawn, options.plot_file)
    return 0 if all(latencies.e2e for _, latencies in drawn) else 1


async def _run(options: ServingOptions, report: Report) -> list[tuple[str, Latencies]]:
    """Measure every load on one target; return each one's name and latencies."""
    drawn = []
    async with _open(options) as (target, vocab_size, settings):
        source = random.Random(options.seed)
        first = options.loads[0].arrivals[:WARM_UP]
        await warm_up(target, _plan(first, options, vocab_size, source))
        for load in options.loads:
            run = await replay(target, _plan(load.arrivals, options, vocab_size, source))
            report.add(settings | line(load, run))
            for kind in run.errors_by_kind:
                example = next(error for error in run.errors if error.kind == kind)
                sys.stderr.write(f"{kind}, for example: {example}\n")
            drawn.append((f"{load.rate:g}", Latencies.of(run.answers)))
    return drawn


@contextlib.asynccontextmanager
async def _open(options: ServingOptions) -> AsyncIterator[tuple[Target, int, Line]]:
    """Yield what is measured, the size of its vocabulary, and what names it in a result."""
    if isinstance(options.target, EngineConfig):
        async with running_engine(options.target) as engine:
            model = engine.model
            yield engine, model.vocab_size, {
                "engine": "kvasir",
                "model": Path(options.target.model).name,
                "start_s": round(engine.start_s, 2),
                "max_num_batched_tokens": model.max_num_batched_tokens,
                "max_num_seqs": model.max_num_seqs,
                "dtype": model.dtype,
            }  # fmt: skip
    else:
        async with connected(options.target) as server:
            named = {"base_url": options.target.base_url, "model": server.model}
            yield server, options.vocab_size, named


def _plan(
    arrivals: Sequence[Arrival], options: ServingOptions, vocab_size: int, source: random.Random
) -> list[Planned]:
    """Give every arrival its prompt; all are drawn beforehand, so that none delays a request."""
    return [
        Planned(
            arrival.offset_s,
            random_words(source, arrival.input_len)
            if options.prompt_type == "words"
            else random_ids(source, arrival.input_len, vocab_size),
            arrival.output_len,
        )
        for arrival in arrivals
    ]


def line(load: Load, run: Replayed) -> Line:
    """Return a run's result; times in seconds, rates per second."""
    output = sum(answer.output_tokens for answer in run.answers)
    asked = sum(arrival.output_len for arrival in load.arrivals)
    return {
        "arrivals": load.source,
        "rate": round(load.rate, 4),
        "requests": len(load.arrivals),
        "input_len": _mean([arrival.input_len for arrival in load.arrivals]),
        "output_len": _mean([arrival.output_len for arrival in load.arrivals]),
        "completed": len(run.answers),
        "errors": run.errors_by_kind,
        "complete": output == asked,
        "elapsed_s": round(run.elapsed_s, 3),
        "output_tokens": output,
        "prompt_tokens": _prompt_tokens(run),
        "requests_per_s": round(len(run.answers) / run.elapsed_s, 3),
        "output_tokens_per_s": round(output / run.elapsed_s, 1),
        "late_p99": round(percentile(run.late_s, 99) or 0.0, 5),
    } | Latencies.of(run.answers).figures()


def _prompt_tokens(run: Replayed) -> int | None:
    """Return the prompts' tokens as counted by the target; None where one answer lacks it."""
    counts = [answer.prompt_tokens for answer in run.answers]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _mean(lengths: Sequence[int]) -> int:
    return round(sum(lengths) / len(lengths))
