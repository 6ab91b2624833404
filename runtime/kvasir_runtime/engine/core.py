"""The engine itself: loads a model, then turns requests into tokens, one step at a time.

It knows no process, no thread and no clock but `time.monotonic`: `LLM` calls `step` in a loop, the
server's engine process does the same.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path

import torch

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine import kv_cache
from kvasir_runtime.engine.block_manager import BlockManager
from kvasir_runtime.engine.device import kv_budget_bytes, pick_device, pick_dtype
from kvasir_runtime.engine.runner import ModelRunner
from kvasir_runtime.engine.sampler import Sampled
from kvasir_runtime.engine.scheduler import Chunk, Scheduler
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.errors import InvalidConfigError, OutOfMemoryError
from kvasir_runtime.messages import ModelInfo, NewRequest, Stats, StepOutputs, TokenOutput
from kvasir_runtime.models.config import ModelConfig, read_model_config
from kvasir_runtime.models.decoder import Decoder
from kvasir_runtime.models.registry import build_model, require_supported
from kvasir_runtime.models.weights import load_weights

logger = logging.getLogger(__name__)

OnProgress = Callable[[str, int], None]


class Engine:
    """A loaded model with its scheduler. Not thread-safe: one caller drives it."""

    def __init__(
        self,
        config: EngineConfig,
        folder: Path,
        on_progress: OnProgress = lambda _stage, _percent: None,
    ) -> None:
        """Load the model in `folder`; raises a StartupError that says what is wrong.

        `on_progress` is told each stage's name and its share done, in percent.
        """
        model_config = read_model_config(folder)
        require_supported(model_config)
        _require_length(config, model_config)
        device = pick_device(config)
        dtype = pick_dtype(config, model_config.dtype, device)
        model = _load(model_config, folder, device, dtype, on_progress)
        on_progress("allocate KV cache", 0)
        length = config.max_model_len or model_config.max_position_embeddings
        self.runner = ModelRunner(model, block_size=config.block_size, max_len=length)
        num_blocks = self._size_pool(config, model_config, device, dtype)
        length = kv_cache.fit_length(config, model_config, num_blocks)
        self.runner.caches = kv_cache.allocate(
            model_config, num_blocks, config.block_size, dtype, device
        )
        self._log_pool(config, num_blocks, length)
        self.blocks = BlockManager(
            num_blocks, config.block_size, prefix_caching=config.enable_prefix_caching
        )
        self.scheduler = Scheduler(
            self.blocks,
            max_num_seqs=config.max_num_seqs,
            max_batched_tokens=config.batched_tokens,
        )
        self.model = ModelInfo(
            architecture=model_config.architecture,
            dtype=str(dtype).removeprefix("torch."),
            vocab_size=model_config.vocab_size,
            max_model_len=length,
            eos_token_ids=model_config.eos_token_ids,
            block_size=config.block_size,
            num_gpu_blocks=num_blocks,
            num_cpu_blocks=0,
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.batched_tokens,
        )
        self._sequences: dict[str, Sequence] = {}
        self._seeds = random.Random(config.seed)
        self._prompt_tokens_total = self._generation_tokens_total = self._steps_total = 0

    def add(self, request: NewRequest) -> None:
        """Queue a request whose length the front has checked."""
        seq = Sequence.from_request(
            request,
            max_model_len=self.model.max_model_len,
            seed=self._seeds.getrandbits(63),
        )
        self._sequences[seq.request_id] = seq
        self.scheduler.add(seq)

    def abort(self, request_ids: tuple[str, ...]) -> None:
        """Forget requests and take their blocks back; unknown ids are those already ended."""
        for request_id in request_ids:
            seq = self._sequences.pop(request_id, None)
            if seq is not None:
                self.scheduler.finish(seq)

    def has_work(self) -> bool:
        """Whether any request is unfinished."""
        return self.scheduler.has_work()

    def step(self) -> StepOutputs:
        """Compute one batch; return the new token of each sequence that got one."""
        batch = self.scheduler.schedule(time.monotonic())
        if not batch:
            return StepOutputs((), self.stats())
        sampled = self.runner.run(batch)
        now = time.monotonic()
        self._steps_total += 1
        outputs = [
            output
            for chunk, token in zip(batch, sampled, strict=True)
            if (output := self._advance(chunk, token, now)) is not None
        ]
        return StepOutputs(tuple(outputs), self.stats())

    def stats(self) -> Stats:
        """Return the figures after the last step."""
        return Stats(
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            gpu_blocks_used=self.blocks.num_used,
            gpu_blocks_total=self.blocks.num_blocks,
            prompt_tokens_total=self._prompt_tokens_total,
            generation_tokens_total=self._generation_tokens_total,
            preemptions_total=self.scheduler.preemptions_total,
            prefix_cache_queries_total=self.blocks.queries_total,
            prefix_cache_hits_total=self.blocks.hits_total,
            steps_total=self._steps_total,
        )

    def _advance(self, chunk: Chunk, sampled: Sampled | None, now: float) -> TokenOutput | None:
        """Record what a step computed of one sequence, and its new token if there is one."""
        seq = chunk.seq
        seq.num_computed = chunk.start + chunk.count
        self.blocks.publish(seq)
        if sampled is None:
            return None
        first = seq.num_generated == 0
        seq.append(sampled.token_id, self.runner.eos, now)
        self._prompt_tokens_total += seq.num_prompt if first else 0
        self._generation_tokens_total += 1
        finished = seq.finish_reason is not None
        if finished:
            del self._sequences[seq.request_id]
            self.scheduler.finish(seq)
        return TokenOutput(
            seq.request_id,
            (sampled.token_id,),
            logprobs=(sampled.logprobs,) if sampled.logprobs else (),
            finish_reason=seq.finish_reason,
            stop_reason=seq.stop_reason,
            num_cached_tokens=seq.num_cached,
            timings=seq.timings(now) if first or finished else None,
        )

    def _size_pool(
        self, config: EngineConfig, model: ModelConfig, device: torch.device, dtype: torch.dtype
    ) -> int:
        block_bytes = kv_cache.bytes_per_block(model, config.block_size, dtype)
        if device.type == "cpu" or config.num_gpu_blocks_override is not None:
            return kv_cache.count_blocks(config, kv_cache.cpu_pool_bytes(config), block_bytes)
        tokens, seqs = config.batched_tokens, config.max_num_seqs
        scratch = tokens // config.block_size + 1
        self.runner.caches = kv_cache.allocate(model, scratch, config.block_size, dtype, device)
        try:
            self.runner.profile(tokens, seqs)
        except torch.OutOfMemoryError as error:
            raise OutOfMemoryError(
                f"a step of {tokens:,} tokens doesn't fit {device} beside the weights: {error}",
                "lower --max-num-batched-tokens or --max-num-seqs, or use a larger GPU",
            ) from error
        available = kv_budget_bytes(config, device)
        self.runner.caches = []
        torch.cuda.empty_cache()
        return kv_cache.count_blocks(config, available, block_bytes)

    def _log_pool(self, config: EngineConfig, num_blocks: int, length: int) -> None:
        tokens = num_blocks * config.block_size
        logger.info("KV cache size: %d blocks", num_blocks)
        logger.info(
            "KV cache: %s tokens in blocks of %d; %.2f sequences of %s tokens fit at once",
            f"{tokens:,}", config.block_size, tokens / length, f"{length:,}",
        )  # fmt: skip


def _require_length(config: EngineConfig, model: ModelConfig) -> None:
    """Refuse a length beyond what the model was trained for."""
    asked, maximum = config.max_model_len, model.max_position_embeddings
    if asked is not None and asked > maximum:
        raise InvalidConfigError(
            f"max_model_len is {asked:,}, the model's maximum is {maximum:,}",
            f"set it to at most {maximum:,}",
        )


def _load(
    config: ModelConfig,
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    on_progress: OnProgress,
) -> Decoder:
    """Return the model with its weights on the device."""
    started = time.monotonic()
    on_progress("load weights", 0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = build_model(config)
        size = load_weights(model, folder, lambda percent: on_progress("load weights", percent))
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(
            f"the weights of {folder} don't fit {device}: {error}",
            "use a smaller model or a larger GPU",
        ) from error
    finally:
        torch.set_default_dtype(default)
    logger.info(
        "Loaded %s in %s on %s: %.2f GiB in %.1f s",
        config.architecture, dtype, device, size / 1024**3, time.monotonic() - started,
    )  # fmt: skip
    return model.eval()
