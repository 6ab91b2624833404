"""The histograms of single requests: latencies and lengths, with vLLM's names and buckets.

Enters: each delta of each choice, as it arrives. Leaves: observations. Latencies up to the first
token and between tokens are what the server saw; queue, prefill and decode are the engine's times.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, takewhile

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kvasir_runtime.messages import OutputDelta, Timings

LABELS = ("model_name", "engine")
FINISHED_REASONS = ("stop", "length", "abort", "error")

FIRST_TOKEN_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
    20, 40, 80, 160, 640, 2560,
)  # fmt: skip
BETWEEN_TOKENS_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
)  # fmt: skip
REQUEST_S = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip


def token_buckets(longest: int) -> tuple[int, ...]:
    """Return 1, 2, 5, 10, 20, 50, … up to `longest` tokens."""
    steps = (mantissa * 10**power for power in count() for mantissa in (1, 2, 5))
    return tuple(takewhile(lambda bound: bound <= longest, steps))


class RequestHistograms:
    """All histograms of one served model."""

    def __init__(self, registry: CollectorRegistry, model_name: str, longest: int) -> None:
        """Register them for a model whose sequences have at most `longest` tokens."""
        labels = (model_name, "0")

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            family = Histogram(f"vllm:{name}", text, LABELS, registry=registry, buckets=buckets)
            return family.labels(*labels)

        self.first_token_s = histogram(
            "time_to_first_token_seconds", "From arrival to the first token.", FIRST_TOKEN_S
        )
        self.between_tokens_s = histogram(
            "inter_token_latency_seconds", "Between one token and the next.", BETWEEN_TOKENS_S
        )
        registry.register(OtherName("time_per_output_token_seconds", self.between_tokens_s, labels))
        self.whole_s = histogram(
            "e2e_request_latency_seconds", "From arrival to the last token.", REQUEST_S
        )
        self.queue_s = histogram(
            "request_queue_time_seconds", "From arrival to the first step.", REQUEST_S
        )
        self.prefill_s = histogram(
            "request_prefill_time_seconds", "From the first step to the first token.", REQUEST_S
        )
        self.decode_s = histogram(
            "request_decode_time_seconds", "From the first token to the last.", REQUEST_S
        )
        self.inference_s = histogram(
            "request_inference_time_seconds", "From the first step to the last token.", REQUEST_S
        )
        lengths = token_buckets(longest)
        self.prompt_tokens = histogram("request_prompt_tokens", "Tokens of a prompt.", lengths)
        self.generation_tokens = histogram(
            "request_generation_tokens", "Tokens of an answer.", lengths
        )
        success = Counter(
            "vllm:request_success", "Requests that ended, by why.",
            (*LABELS, "finished_reason"), registry=registry,
        )  # fmt: skip
        self.finished = {reason: success.labels(*labels, reason) for reason in FINISHED_REASONS}

    def observe_timings(self, timings: Timings) -> None:
        """Observe the engine's own times of a request that ended."""
        scheduled_s, first_s, last_s = (
            timings.scheduled_s, timings.first_token_s, timings.last_token_s,
        )  # fmt: skip
        if scheduled_s is None:
            return
        self.queue_s.observe(scheduled_s - timings.arrived_s)
        if first_s is None or last_s is None:
            return
        self.prefill_s.observe(first_s - scheduled_s)
        self.decode_s.observe(last_s - first_s)
        self.inference_s.observe(last_s - scheduled_s)


class OtherName(Collector):
    """A histogram under a second name, observed once: tokens are many."""

    def __init__(self, name: str, child: Histogram, labels: tuple[str, str]) -> None:
        """Show the labelled `child` as `vllm:name`."""
        self._name, self._child, self._labels = f"vllm:{name}", child, labels

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram's samples, renamed."""
        labels = dict(zip(LABELS, self._labels, strict=True))
        for metric in self._child.collect():
            renamed = Metric(self._name, "The older name of the inter-token latency.", metric.type)
            for sample in metric.samples:
                suffix = sample.name.removeprefix(metric.name)
                renamed.add_sample(self._name + suffix, labels | sample.labels, sample.value)
            yield renamed


class ChoiceTimer:
    """Observes one choice of one request while its deltas arrive."""

    __slots__ = ("_arrived_s", "_histograms", "_last_s", "_tokens", "ended")

    def __init__(self, histograms: RequestHistograms, arrived_s: float) -> None:
        """Begin at the request's arrival, on the monotonic clock."""
        self._histograms = histograms
        self._arrived_s = arrived_s
        self._last_s: float | None = None
        self._tokens = 0
        self.ended = False

    def observe(self, delta: OutputDelta, now_s: float) -> None:
        """Take a delta that arrived at `now_s`."""
        gained = len(delta.token_ids)
        if gained:
            self._observe_tokens(gained, now_s)
        if delta.finish_reason is not None:
            self.end(delta.finish_reason, now_s, delta.timings)

    def _observe_tokens(self, gained: int, now_s: float) -> None:
        histograms = self._histograms
        self._tokens += gained
        if self._last_s is None:
            histograms.first_token_s.observe(now_s - self._arrived_s)
        else:
            histograms.between_tokens_s.observe(now_s - self._last_s)
        self._last_s = now_s

    def end(self, reason: str, now_s: float, timings: Timings | None = None) -> None:
        """Count the choice as ended; a second call changes nothing."""
        if self.ended:
            return
        self.ended = True
        histograms = self._histograms
        histograms.finished[reason].inc()
        histograms.generation_tokens.observe(self._tokens)
        if reason in ("stop", "length"):
            histograms.whole_s.observe(now_s - self._arrived_s)
        if timings is not None:
            histograms.observe_timings(timings)
