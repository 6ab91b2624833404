"""Every ten seconds of load, one line in the log that says how it goes."""

from __future__ import annotations

import asyncio
import logging

from kvasir_runtime.messages import Stats
from kvasir_runtime.server.metrics import Metrics
from kvasir_runtime.server.throughput import Rates

SAMPLE_S = 1.0
SAMPLES_PER_LINE = 10

logger = logging.getLogger(__name__)


async def report_load(metrics: Metrics) -> None:
    """Sample the throughput each second, for ever, and log it while there is load."""
    busy = False
    while True:
        for _ in range(SAMPLES_PER_LINE):
            await asyncio.sleep(SAMPLE_S)
            rates = metrics.sample()
        was_busy, busy = busy, has_load(metrics.stats, rates)
        if busy or was_busy:
            logger.info("%s", load_line(metrics.stats, rates))


def has_load(stats: Stats, rates: Rates) -> bool:
    """Whether anything runs, waits, or ran within the window."""
    return bool(stats.running or stats.waiting or rates.prompt or rates.generation)


def load_line(stats: Stats, rates: Rates) -> str:
    """Return the line, worded as vLLM words its own."""
    usage = 100 * stats.gpu_blocks_used / (stats.gpu_blocks_total or 1)
    hits = 100 * stats.prefix_cache_hits_total / (stats.prefix_cache_queries_total or 1)
    return (
        f"Avg prompt throughput: {rates.prompt:.1f} tokens/s, "
        f"Avg generation throughput: {rates.generation:.1f} tokens/s, "
        f"Running: {stats.running} reqs, Waiting: {stats.waiting} reqs, "
        f"GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: {hits:.1f}%"
    )
