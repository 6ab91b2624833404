"""CUDA graphs of a whole step, sampling included, over padded sizes: it costs one launch.

Decode steps (one token a sequence) are captured for many batch sizes, mixed steps for a few token
counts with every sequence row in place. All graphs share one memory pool: only one runs at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kvasir_runtime.engine.step_inputs import InputBuilder, StepInputs, StepOutput

logger = logging.getLogger(__name__)

Forward = Callable[[StepInputs], StepOutput]
WARM_UPS = 1


@dataclass(frozen=True, slots=True)
class StepGraph:
    """A captured step of `tokens` rows and `seqs` sequences, and where its results appear."""

    tokens: int
    seqs: int
    graph: torch.cuda.CUDAGraph
    output: StepOutput

    def replay(self) -> StepOutput:
        """Run it on what the input buffers hold; the results last until the next replay."""
        self.graph.replay()
        return self.output


def decode_sizes(max_seqs: int) -> list[int]:
    """Return the batch sizes of decode steps to capture.

    They lie as close as padding costs: a matrix product takes its rows in tiles of 64 and more, so
    sizes above lie farther apart, and each that is left out spares start-up its capture.
    """
    close, middle, far = range(8, 64, 8), range(64, 256, 16), range(256, max_seqs + 1, 32)
    sizes = {1, 2, 4, *close, *middle, *far}
    return sorted({size for size in sizes if size <= max_seqs} | {max_seqs})


def mixed_sizes(max_tokens: int, max_seqs: int) -> list[int]:
    """Return the token counts of mixed steps to capture."""
    step = max(256, max_tokens // 16)
    return sorted({*range(step, max_tokens + 1, step), max_tokens} - set(range(max_seqs + 1)))


class GraphPool:
    """The captured graphs of one runner."""

    def __init__(self) -> None:
        """Begin with none: every step runs eagerly."""
        self._decode: list[StepGraph] = []
        self._mixed: list[StepGraph] = []

    def find(self, tokens: int, seqs: int) -> StepGraph | None:
        """Return the smallest graph that holds such a step; None where there is none."""
        graphs = self._decode if tokens == seqs else self._mixed
        fits = (graph for graph in graphs if graph.tokens >= tokens and graph.seqs >= seqs)
        return next(fits, None)

    def capture(
        self, forward: Forward, inputs: InputBuilder, max_tokens: int, max_seqs: int
    ) -> None:
        """Capture every size, largest first, so that the smaller reuse its memory; log the cost."""
        started, before = time.monotonic(), torch.cuda.memory_reserved()
        inputs.clear()
        pool = torch.cuda.graph_pool_handle()
        for tokens in reversed(mixed_sizes(max_tokens, max_seqs)):
            self._mixed.append(_capture(forward, inputs.view(tokens, max_seqs), pool))
        for seqs in reversed(decode_sizes(max_seqs)):
            self._decode.append(_capture(forward, inputs.view(seqs, seqs), pool))
        self._mixed.reverse()
        self._decode.reverse()
        logger.info(
            "CUDA graphs: decode %s; mixed %s; %.2f GiB, %.1f s",
            [graph.seqs for graph in self._decode],
            [graph.tokens for graph in self._mixed],
            (torch.cuda.memory_reserved() - before) / 1024**3,
            time.monotonic() - started,
        )


def _capture(forward: Forward, inputs: StepInputs, pool: Any) -> StepGraph:
    """Capture one size; what the buffers hold must be a harmless step (padding alone)."""
    for _ in range(WARM_UPS):
        forward(inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph, pool=pool):
        output = forward(inputs)
    return StepGraph(len(inputs.token_ids), len(inputs.context_lens), graph, output)
