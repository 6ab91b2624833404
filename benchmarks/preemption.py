"""What becomes of requests that must make room: swapped, computed again, or the cheaper of the two.

    python benchmarks/preemption.py MODEL_OR_CONFIG_FOLDER [--blocks 2048] [--requests 256]

Random weights, chat-like lengths, and a KV pool far too small for the requests that run at once, so
that many are preempted. One line a mode: how often it chose each way, and the rate.
"""

from __future__ import annotations

import argparse
import gc
import json
import time

import torch
from lengths import chat_lengths

from kvasir_runtime import LLM, SamplingParams


def measure(llm: LLM, lengths: list[tuple[int, int]]) -> dict[str, float]:
    """Run prompts and outputs of `lengths`; return the rate and how often each way was chosen."""
    source = torch.Generator().manual_seed(0)
    vocab = llm.engine.model.vocab_size
    prompts = [torch.randint(0, vocab, (p,), generator=source).tolist() for p, _ in lengths]
    params = [SamplingParams(temperature=0, ignore_eos=True, max_tokens=out) for _, out in lengths]
    scheduler = llm.engine.scheduler
    swaps, recomputes = scheduler.swaps_total, scheduler.recomputes_total
    started = time.perf_counter()
    llm.generate(prompts, params, use_tqdm=False)
    seconds = time.perf_counter() - started
    return {
        "seconds": round(seconds, 2),
        "output_tokens_per_s": round(sum(out for _, out in lengths) / seconds, 1),
        "swaps": scheduler.swaps_total - swaps,
        "recomputes": scheduler.recomputes_total - recomputes,
    }


def main() -> None:
    """Print one JSON line a mode, with what was measured at start-up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=2048, help="of 16 tokens, in the KV pool")
    parser.add_argument("--modes", nargs="+", default=["auto", "swap", "recompute"])
    args = parser.parse_args()
    lengths = chat_lengths(args.requests, seed=3)
    for mode in args.modes:
        llm = LLM(
            args.model, load_format="dummy", skip_tokenizer_init=True, use_tqdm=False,
            enable_prefix_caching=False, num_gpu_blocks_override=args.blocks, max_model_len=8192,
            max_num_batched_tokens=8192, preemption_mode=mode, swap_space=16,
        )  # fmt: skip
        measure(llm, lengths[:16])
        costs = llm.engine.scheduler.costs
        line = (
            {
                "mode": mode,
                "round_trip_overhead_ms": round(costs.copy.overhead_s * 1e3, 3),
                "round_trip_gb_per_s": round(costs.copy.bytes_per_s / 1e9, 2),
                "prefill_tokens_per_s": round(costs.prefill_tokens_per_s),
                "kib_per_token": round(costs.block_bytes / llm.engine.model.block_size / 1024, 1),
            }
            if mode == "auto"
            else {"mode": mode}
        )
        print(json.dumps(line | measure(llm, lengths)), flush=True)
        llm.shutdown()
        del llm
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
