"""/metrics: the engine's figures in Prometheus' format, under the names vLLM users know.

Enters: the engine's newest `Stats` at each scrape, and the requests' histograms. Leaves: one
registry for one served model, which exists only once the model is loaded, so that no autoscaler
takes a loading pod for an idle one. docs/metrics.md lists every name.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.messages import ModelInfo, Stats
from kvasir_runtime.server.engine_port import Engine
from kvasir_runtime.server.histograms import LABELS, RequestHistograms
from kvasir_runtime.server.throughput import Rates, Throughput

disable_created_metrics()  # type: ignore[no-untyped-call]

COUNTERS = {
    "vllm:prompt_tokens": ("Prompt tokens computed or found in the cache.", "prompt_tokens_total"),
    "vllm:generation_tokens": ("Tokens generated.", "generation_tokens_total"),
    "vllm:num_preemptions": ("Requests put back to make room.", "preemptions_total"),
    "vllm:prefix_cache_queries": ("Tokens looked up in the cache.", "prefix_cache_queries_total"),
    "vllm:prefix_cache_hits": ("Tokens found in the cache.", "prefix_cache_hits_total"),
    "kvasir:late_kernel_compiles": ("Kernels not ready before serving.", "late_kernels_total"),
}


class Metrics:
    """Everything /metrics shows for one loaded model."""

    def __init__(
        self, model_name: str, engine: Engine, model: ModelInfo, config: EngineConfig
    ) -> None:
        """Register the collectors; the engine is read at each scrape."""
        self.registry = CollectorRegistry()
        self.throughput = Throughput()
        self.histograms = RequestHistograms(self.registry, model_name, model.max_model_len)
        self._engine = engine
        self.registry.register(EngineCollector(model_name, self, model, config))
        self.sample()

    @property
    def stats(self) -> Stats:
        """The engine's newest figures."""
        return self._engine.stats

    def sample(self) -> Rates:
        """Take a throughput sample now, and return the averages."""
        self.throughput.add(time.monotonic(), self.stats)
        return self.throughput.rates()

    def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)


class EngineCollector(Collector):
    """Reads the engine's figures when Prometheus asks."""

    def __init__(
        self, model_name: str, metrics: Metrics, model: ModelInfo, config: EngineConfig
    ) -> None:
        """Label everything with `model_name` and engine 0."""
        self._labels = (model_name, "0")
        self._metrics = metrics
        self._cache_config = {
            "block_size": str(model.block_size),
            "num_gpu_blocks": str(model.num_gpu_blocks),
            "num_cpu_blocks": str(model.num_cpu_blocks),
            "cache_dtype": config.kv_cache_dtype,
            "enable_prefix_caching": str(config.enable_prefix_caching),
            "gpu_memory_utilization": str(config.gpu_memory_utilization),
            "swap_space": str(config.swap_space),
        }

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge and counter."""
        stats = self._metrics.stats
        for name, (text, value) in self._gauges(stats, self._metrics.sample()).items():
            gauge = GaugeMetricFamily(f"vllm:{name}", text, labels=LABELS)
            gauge.add_metric(self._labels, value)
            yield gauge
        for name, (text, field) in COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=LABELS)
            counter.add_metric(self._labels, getattr(stats, field))
            yield counter
        info = InfoMetricFamily("vllm:cache_config", "How the KV cache is set up.", labels=LABELS)
        info.add_metric(self._labels, self._cache_config)
        yield info

    def _gauges(self, stats: Stats, rates: Rates) -> dict[str, tuple[str, float]]:
        gpu_share = _share(stats.gpu_blocks_used, stats.gpu_blocks_total)
        cpu_share = _share(stats.cpu_blocks_used, stats.cpu_blocks_total)
        prompt = ("Prompt tokens a second, over 10 s.", rates.prompt)
        generation = ("Generated tokens a second, over 10 s.", rates.generation)
        return {
            "num_requests_running": ("Requests in the running batch.", stats.running),
            "num_requests_waiting": ("Requests waiting for room.", stats.waiting),
            "num_requests_swapped": ("Requests kept in host memory.", stats.swapped),
            "gpu_cache_usage_perc": ("Share of the device's KV blocks in use, 0 to 1.", gpu_share),
            "kv_cache_usage_perc": ("The newer name of the same.", gpu_share),
            "cpu_cache_usage_perc": ("Share of the host's KV blocks in use, 0 to 1.", cpu_share),
            "avg_prompt_throughput": prompt,
            "avg_prompt_throughput_toks_per_s": prompt,
            "avg_generation_throughput": generation,
            "avg_generation_throughput_toks_per_s": generation,
            "num_gpu_blocks": ("KV blocks on the device.", stats.gpu_blocks_total),
            "num_cpu_blocks": ("KV blocks in host memory.", stats.cpu_blocks_total),
        }


def _share(used: int, total: int) -> float:
    return used / total if total else 0.0
