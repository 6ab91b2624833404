"""How near each kernel comes to what the card can do, at the sizes that serving runs it at.

    python benchmarks/kernels.py [--models qwen2.5-7b llama-2-13b] [--only attention]

Prints one JSON line a case, and the same as a table on standard error. The card's limits are
measured first, by a large copy and a large matrix product, or given with `--limits TB/S,TFLOP/S`. A
kernel's share is the least time its bytes and operations could take by those limits, over the time
it took. Launches are timed inside a CUDA graph, over so many sets of operands that none is still in
the card's cache when its turn comes again.

Needs a CUDA GPU; exits with 2 where there is none.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence

import torch
from kernel_cases import Call, Case, Cases, serving_cases
from kernel_costs import SHAPES, Cost, Limits

LONGEST = {"qwen2.5-7b": 32_000, "llama-2-13b": 4_096}
COPIED_BYTES = 4 * 1024**3
PRODUCT = 8192  # rows, columns and depth
LAUNCHES = 24  # of one graph, at least
REPLAYS = 7
MOST_SETS = 512


def num_sets(cost: Cost, cache_bytes: int, free_bytes: int) -> int:
    """Return how many sets of operands push each other out of a cache, and fit the memory."""
    wanted = -(-3 * cache_bytes // cost.num_bytes) + 1
    return max(1, min(wanted, MOST_SETS, free_bytes // (2 * cost.num_bytes)))


def time_s(calls: Sequence[Call], launches: int = LAUNCHES) -> float:
    """Return the median seconds of one call, all of them launched in turn by one CUDA graph."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    order = [calls[number % len(calls)] for number in range(max(launches, len(calls)))]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        # Held until the end, so that every launch writes to memory of its own.
        results = [call() for call in order]
    del results
    times = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / len(order))
    return statistics.median(times[1:])


def measure_limits() -> Limits:
    """Return what a large copy and a large matrix product reach on this card."""
    halves = torch.empty((2, COPIED_BYTES // 2), dtype=torch.uint8, device="cuda")
    copy_s = time_s([lambda: halves[0].copy_(halves[1])], 4)
    a, b = torch.randn((2, PRODUCT, PRODUCT), dtype=torch.bfloat16, device="cuda")
    product_s = time_s([lambda: a @ b], 4)
    return Limits(COPIED_BYTES / copy_s, 2 * PRODUCT**3 / product_s)


def measure(case: Case, limits: Limits) -> dict[str, float | str]:
    """Time a case and compare it with the limits."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    seconds = time_s([case.make() for _ in range(num_sets(case.cost, cache, free))])
    return {"kernel": case.kernel, "size": case.size, **compare(case.cost, seconds, limits)}


def compare(cost: Cost, seconds: float, limits: Limits) -> dict[str, float | str]:
    """Return the rates that a time means, and its share of what the card can do."""
    return {
        "us": round(seconds * 1e6, 2),
        "tb_per_s": round(cost.num_bytes / seconds / 1e12, 3),
        "tflop_per_s": round(cost.flops / seconds / 1e12, 1),
        "bound": limits.bound(cost),
        "share": round(limits.least_s(cost) / seconds, 3),
    }


def table_line(row: dict[str, float | str]) -> str:
    """Return one line of the table."""
    rate = (
        f"{row['tb_per_s']} TB/s" if row["bound"] == "memory" else f"{row['tflop_per_s']} TFLOP/s"
    )
    share = f"{100 * float(row['share']):.0f} %"
    name = f"{row['model']:12} {row['kernel']:18} {row['size']:32}"
    return f"{name} {row['us']:>10} us {rate:>15} {share:>6}"


def _limits(text: str) -> Limits:
    terabytes, teraflops = (float(part) for part in text.split(","))
    return Limits(terabytes * 1e12, teraflops * 1e12)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--only", default="", help="kernels whose name holds this")
    parser.add_argument("--limits", type=_limits, metavar="TB/S,TFLOP/S", help="not measured")
    args = parser.parse_args(argv)
    if not torch.cuda.is_available():
        print("kernels.py times CUDA kernels, and torch finds no GPU here", file=sys.stderr)
        return 2
    limits = args.limits or measure_limits()
    reached = {
        "gpu": torch.cuda.get_device_name(),
        "limit_tb_per_s": round(limits.bytes_per_s / 1e12, 2),
        "limit_tflop_per_s": round(limits.flops_per_s / 1e12),
    }
    print("{gpu}: {limit_tb_per_s} TB/s, {limit_tflop_per_s} TFLOP/s".format_map(reached),
          file=sys.stderr)  # fmt: skip
    for model in args.models:
        cases = Cases(SHAPES[model], "cuda", torch.bfloat16)
        for case in serving_cases(cases, LONGEST[model]):
            if args.only in case.kernel:
                row = {"model": model, **measure(case, limits)}
                print(json.dumps(reached | row), flush=True)
                print(table_line(row), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
