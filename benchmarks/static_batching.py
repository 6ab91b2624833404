"""Continuous batching against transformers' static batching, on a CPU, in one run.

    python benchmarks/static_batching.py MODEL [--requests 64] [--batch 8 16 32]

The same prompts and output lengths for both, greedy, end-of-sequence ignored. transformers pads
each batch to its longest prompt and runs it until its longest output is done; its best batch size
counts.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
import transformers
from lengths import chat_lengths

from kvasir_runtime import LLM, SamplingParams


def static(model_folder: str, prompts: list[list[int]], outputs: list[int], batch: int) -> float:
    """Return the wall time of transformers' generate over all prompts, in seconds."""
    model = transformers.AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    started = time.perf_counter()
    for start in range(0, len(prompts), batch):
        part, wanted = prompts[start : start + batch], outputs[start : start + batch]
        width = max(map(len, part))
        ids = torch.tensor([[0] * (width - len(p)) + p for p in part])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in part])
        length = max(wanted)
        model.generate(
            ids, attention_mask=mask, do_sample=False, max_new_tokens=length,
            min_new_tokens=length, pad_token_id=0,
        )  # fmt: skip
    return time.perf_counter() - started


def continuous(model_folder: str, prompts: list[list[int]], outputs: list[int]) -> float:
    """Return the wall time of the same work by this engine, in seconds."""
    llm = LLM(model_folder, device="cpu", kv_cache_gib=2, max_num_seqs=len(prompts), use_tqdm=False)
    params = [
        SamplingParams(temperature=0, ignore_eos=True, max_tokens=output) for output in outputs
    ]
    started = time.perf_counter()
    llm.generate(prompts, params, use_tqdm=False)
    return time.perf_counter() - started


def main() -> None:
    """Run both, print the comparison, and the figures as JSON in the last line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--batch", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--scale", type=float, default=0.35, help="lengths, as a share of chat's")
    args = parser.parse_args()
    lengths = chat_lengths(args.requests, seed=2, scale=args.scale)
    source = torch.Generator().manual_seed(0)
    prompts = [torch.randint(100, 40_000, (p,), generator=source).tolist() for p, _ in lengths]
    outputs = [output for _, output in lengths]
    tokens = sum(outputs)
    print(f"{args.requests} requests, {sum(map(len, prompts))} prompt and {tokens} output tokens")
    ours = continuous(args.model, prompts, outputs)
    print(f"{'kvasir':28}{tokens / ours:10.1f} tokens/s", flush=True)
    theirs = {}
    for batch in args.batch:
        theirs[batch] = static(args.model, prompts, outputs, batch)
        name = f"transformers, static {batch}"
        print(f"{name:28}{tokens / theirs[batch]:10.1f} tokens/s", flush=True)
    best = min(theirs.values())
    print(f"{'ratio to the best':28}{best / ours:10.2f}")
    figures = {str(batch): round(tokens / seconds, 1) for batch, seconds in theirs.items()}
    print(
        json.dumps(
            {"kvasir": round(tokens / ours, 1), "static": figures, "ratio": round(best / ours, 2)}
        )
    )


if __name__ == "__main__":
    main()
