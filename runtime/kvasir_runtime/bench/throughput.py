"""`kvasir-runtime bench throughput`: the engine in this process, on batches of requests.

Random token prompts, greedy, end-of-sequence ignored: the same work for every engine that is
measured this way. With `--load-format dummy` a folder with a config.json alone is enough.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import time
from collections.abc import Sequence
from pathlib import Path

from kvasir_runtime.bench.report import Line, reporting
from kvasir_runtime.bench.workload import Workload, parse_workloads, random_ids
from kvasir_runtime.config import EngineConfig, add_engine_flags, from_args, settle_model
from kvasir_runtime.llm import LLM
from kvasir_runtime.messages import ModelInfo
from kvasir_runtime.sampling_params import SamplingParams

COLUMNS = (
    "workload", "run", "seconds", "output_tokens_per_s", "total_tokens_per_s", "requests_per_s",
)  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """Return the parser: this benchmark's options, and the engine's."""
    parser = argparse.ArgumentParser(
        prog="kvasir-runtime bench throughput",
        description="Measure the engine in this process; --seed draws the prompts, too.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--workloads", default="256:512:256,32:512:256,1:512:256",
        help="N:in:out,…: N prompts of `in` tokens at once, `out` tokens of output each",
    )  # fmt: skip
    parser.add_argument("--repeat", type=int, default=1, help="runs of each workload")
    parser.add_argument("--json", metavar="FILE", help="write the JSON lines there as well")
    add_engine_flags(parser)
    # Prompts are token ids, each its own: neither would do anything but cost time.
    parser.set_defaults(skip_tokenizer_init=True, enable_prefix_caching=False)
    return parser


def main(argv: Sequence[str]) -> int:
    """Print one JSON line a run, then a table; return 1 if an answer was short."""
    parser = build_parser()
    args = parser.parse_args(argv)
    settle_model(parser, args)
    workloads, config = parse_workloads(args.workloads), from_args(args, EngineConfig)
    with reporting(args.json, COLUMNS) as report:
        started = time.perf_counter()
        settings = dataclasses.asdict(config)
        llm = LLM(settings.pop("model"), use_tqdm=False, **settings)
        model = _loaded(llm)
        start_s = time.perf_counter() - started
        measure(llm, model, _warm_up(workloads), random.Random(config.seed))
        source = random.Random(config.seed)
        for workload in workloads:
            for run in range(args.repeat):
                line = measure(llm, model, workload, source)
                report.add(_named(config, model, start_s, run) | line)
    return 0 if all(line["complete"] for line in report.lines) else 1


def measure(llm: LLM, model: ModelInfo, workload: Workload, source: random.Random) -> Line:
    """Run one workload; return its wall time, its rates, and whether every answer was whole."""
    prompts = [
        random_ids(source, workload.input_len, model.vocab_size) for _ in range(workload.requests)
    ]
    params = SamplingParams(temperature=0, max_tokens=workload.output_len, ignore_eos=True)
    started = time.perf_counter()
    answers = llm.generate(prompts, params, use_tqdm=False)
    seconds = time.perf_counter() - started
    output = sum(len(answer.outputs[0].token_ids) for answer in answers)
    total = output + workload.requests * workload.input_len
    return {
        "workload": str(workload),
        "seconds": round(seconds, 4),
        "output_tokens_per_s": round(output / seconds, 1),
        "total_tokens_per_s": round(total / seconds, 1),
        "requests_per_s": round(workload.requests / seconds, 3),
        "complete": output == workload.requests * workload.output_len,
    }


def _loaded(llm: LLM) -> ModelInfo:
    assert llm.engine is not None  # it was just loaded
    return llm.engine.model


def _warm_up(workloads: Sequence[Workload]) -> Workload:
    """Return a small workload that fits wherever all the others do."""
    shortest = min(workload.input_len for workload in workloads)
    return Workload(8, min(64, shortest), min(8, *(w.output_len for w in workloads)))


def _named(config: EngineConfig, model: ModelInfo, start_s: float, run: int) -> Line:
    """Return what says which engine, model and settings a figure belongs to."""
    return {
        "engine": "kvasir",
        "model": Path(config.model).name,
        "run": run,
        "start_s": round(start_s, 2),
        "max_num_batched_tokens": model.max_num_batched_tokens,
        "max_num_seqs": model.max_num_seqs,
        "max_model_len": model.max_model_len,
        "dtype": model.dtype,
        "quantization": config.quantization,
        "num_gpu_blocks": model.num_gpu_blocks,
        "block_size": model.block_size,
    }
