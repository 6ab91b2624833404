"""How much of the KV cache holds nothing: paged blocks against a preallocation for each request.

    python benchmarks/kv_waste.py [--requests 2000] [--blocks 4096]

Runs the real scheduler and block manager, without a model, on chat-like lengths with more requests
waiting than fit. Prints, over all steps under load: the slots that are allotted and empty, and the
share of the pool in use. Beside it, the same lengths where each request holds its longest possible
length from the start, as engines without paging do.
"""

from __future__ import annotations

import argparse
import json

from lengths import chat_lengths

from kvasir_runtime.engine.block_manager import BlockManager
from kvasir_runtime.engine.scheduler import Scheduler
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import SamplingParams

MAX_LEN = 4096


def paged(lengths: list[tuple[int, int]], num_blocks: int, block_size: int) -> dict[str, float]:
    """Return the mean waste and use, in percent, while requests wait."""
    blocks = BlockManager(num_blocks, block_size)
    scheduler = Scheduler(blocks, max_num_seqs=1024, max_batched_tokens=2048)
    for number, (prompt, output) in enumerate(lengths):
        # Every prompt is its own: shared prefixes would only make the waste look smaller.
        tokens = tuple(number * 10_000 + i for i in range(prompt))
        request = NewRequest(str(number), tokens, SamplingParams(max_tokens=output), 0.0)
        scheduler.add(Sequence.from_request(request, max_model_len=MAX_LEN, seed=0))
    wastes, uses = [], []
    while scheduler.waiting:
        plan = scheduler.schedule(0.0)
        allotted = sum(len(seq.blocks) for seq in scheduler.running) * block_size
        written = sum(seq.num_computed for seq in scheduler.running)
        if len(wastes) or blocks.num_used > 0.9 * num_blocks:
            wastes.append(1 - written / allotted)
            uses.append(blocks.num_used / num_blocks)
        for chunk in plan.chunks:
            blocks.publish(chunk.seq)
            if chunk.samples:
                chunk.seq.append(1, frozenset(), 0.0)
            if chunk.seq.finish_reason:
                scheduler.finish(chunk.seq)
    return {"waste": 100 * sum(wastes) / len(wastes), "in use": 100 * sum(uses) / len(uses)}


def preallocated(
    lengths: list[tuple[int, int]], num_blocks: int, block_size: int
) -> dict[str, float]:
    """Return the same where each running request holds MAX_LEN slots from its first step on."""
    places = num_blocks * block_size // MAX_LEN
    # A request is there for its output's steps; on average half of the output is written.
    held = sum(output for _, output in lengths)
    written = sum((prompt + output / 2) * output for prompt, output in lengths) / held
    return {
        "waste": 100 * (1 - written / MAX_LEN),
        "in use": 100 * places * MAX_LEN / (num_blocks * block_size),
    }


def main() -> None:
    """Print the table, and the figures as JSON in the last line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--blocks", type=int, default=4096)
    args = parser.parse_args()
    lengths = chat_lengths(args.requests, seed=1)
    rows = {
        f"paged, blocks of {size}": paged(lengths, args.blocks * 16 // size, size)
        for size in (16, 32)
    }
    rows[f"preallocated, {MAX_LEN} a request"] = preallocated(lengths, args.blocks, 16)
    print(f"{'':32}{'allotted and empty':>20}{'pool in use':>14}")
    for name, row in rows.items():
        print(f"{name:32}{row['waste']:>18.1f} %{row['in use']:>12.1f} %")
    print(
        json.dumps({name: {k: round(v, 2) for k, v in row.items()} for name, row in rows.items()})
    )


if __name__ == "__main__":
    main()
