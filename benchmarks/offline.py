"""Output tokens a second of the engine alone, on random weights.

    python benchmarks/offline.py MODEL_OR_CONFIG_FOLDER --workloads 256:512:256,1:512:256

A workload is N:in:out, N prompts of `in` random tokens with `out` tokens of output each.

Greedy, end-of-sequence ignored: the same work for every engine that is measured this way.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

from kvasir_runtime import LLM, SamplingParams


def measure(llm: LLM, workload: str, vocab: int) -> dict[str, float | str]:
    """Run one workload, N:in:out, and return its wall time and rate."""
    count, prompt, output = (int(part) for part in workload.split(":"))
    source = torch.Generator().manual_seed(count)
    prompts = [torch.randint(0, vocab, (prompt,), generator=source).tolist() for _ in range(count)]
    params = SamplingParams(temperature=0, max_tokens=output, ignore_eos=True)
    started = time.perf_counter()
    llm.generate(prompts, params, use_tqdm=False)
    seconds = time.perf_counter() - started
    rate = count * output / seconds
    return {"workload": workload, "seconds": round(seconds, 3), "tokens_per_s": round(rate, 1)}


def main() -> None:
    """Print one JSON line a workload, each measured `--repeat` times after one that warms up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--workloads", default="256:512:256,32:512:256,1:512:256")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--max-num-batched-tokens", type=int, default=8192)
    args = parser.parse_args()
    started = time.perf_counter()
    llm = LLM(
        args.model, load_format="dummy", skip_tokenizer_init=True, use_tqdm=False,
        enable_prefix_caching=False, max_num_seqs=args.max_num_seqs,
        max_num_batched_tokens=args.max_num_batched_tokens,
    )  # fmt: skip
    vocab = llm.engine.model.vocab_size
    print(json.dumps({"model": args.model, "start_s": round(time.perf_counter() - started, 1)}))
    measure(llm, "8:64:8", vocab)
    for workload in args.workloads.split(","):
        for _ in range(args.repeat):
            print(json.dumps(measure(llm, workload, vocab)), flush=True)


if __name__ == "__main__":
    main()
