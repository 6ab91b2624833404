"""From settings and a model folder to a runner with a sized KV cache: what happens before serving.

Each stage is reported as it begins; a model, a size or a device that can't work ends in a
StartupError with the numbers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from kvasir_kernels.kv_scales import E4M3
from kvasir_runtime.config import GIB, EngineConfig
from kvasir_runtime.engine import kv_cache
from kvasir_runtime.engine.device import kv_budget_bytes, pick_device, pick_dtype, pick_kv_dtype
from kvasir_runtime.engine.graphs import GraphPool
from kvasir_runtime.engine.host_memory import memory_limit_bytes, require_swap_fits
from kvasir_runtime.engine.kernel_watch import KERNELS
from kvasir_runtime.engine.preemption import ALWAYS_RECOMPUTE, ALWAYS_SWAP, PreemptionCosts
from kvasir_runtime.engine.runner import ModelRunner
from kvasir_runtime.engine.swap import HostCache
from kvasir_runtime.engine.warm_up import LONGEST_PROMPT, run_prompts, run_steps, warm_up
from kvasir_runtime.errors import InvalidConfigError, OutOfMemoryError
from kvasir_runtime.models.config import ModelConfig, read_model_config
from kvasir_runtime.models.decoder import Decoder
from kvasir_runtime.models.kv_scales import warn_of_unscaled
from kvasir_runtime.models.registry import build_model, require_supported
from kvasir_runtime.models.weights import load_weights, randomise_weights
from kvasir_runtime.sampling_params import SamplingParams

logger = logging.getLogger(__name__)

OnProgress = Callable[[str, int], None]
PROFILE_TOKENS = 512  # enough to know a CPU's speed without a long start
PROFILED = SamplingParams(max_tokens=1, top_p=0.9, logprobs=20)  # most memory, but for penalties
RISKY_UTILIZATION = 0.95


@dataclass(frozen=True, slots=True)
class Built:
    """A runner that can step, and what was found out on the way."""

    runner: ModelRunner
    config: ModelConfig
    dtype: torch.dtype
    num_blocks: int
    num_host_blocks: int
    max_model_len: int
    costs: PreemptionCosts


def build(config: EngineConfig, folder: Path, on_progress: OnProgress) -> Built:
    """Load the model in `folder`, size its cache to the device, and warm everything up."""
    model_config = read_model_config(folder)
    require_supported(model_config)
    _require_length(config, model_config)
    device = pick_device(config)
    if device.type == "cuda":
        KERNELS.install()
    if device.type == "cuda" and config.gpu_memory_utilization > RISKY_UTILIZATION:
        logger.warning(
            "gpu_memory_utilization is %.2f: above %.2f a fragmented allocation can fail while "
            "serving", config.gpu_memory_utilization, RISKY_UTILIZATION,
        )  # fmt: skip
    dtype = pick_dtype(config, model_config.dtype, device)
    kv_dtype = pick_kv_dtype(config, dtype, device)
    model = _load(config, model_config, folder, device, dtype, on_progress)
    if kv_dtype == E4M3:
        warn_of_unscaled(model)
    on_progress("profile", 0)
    runner = _new_runner(config, model)
    block_bytes = kv_cache.bytes_per_block(model_config, config.block_size, kv_dtype)
    available, tokens_per_s = _profile(config, runner, kv_dtype)
    num_blocks = config.num_gpu_blocks_override or max(0, available) // block_bytes
    length = kv_cache.fit_length(config, model_config, num_blocks, block_bytes)
    on_progress("allocate KV cache", 0)
    runner.pool = kv_cache.allocate(model_config, num_blocks, config.block_size, kv_dtype, device)
    _log_pool(config, num_blocks, length, kv_dtype)
    host_blocks = _host_blocks(config, device, num_blocks, block_bytes)
    require_swap_fits(host_blocks * block_bytes, memory_limit_bytes())
    if host_blocks:
        on_progress("allocate swap space", 0)
        runner.host = HostCache(runner.pool, host_blocks)
    costs = _costs(config, runner.host, tokens_per_s, block_bytes)
    if device.type == "cuda":
        on_progress("warm up", 0)
        warm_up(runner)
    if device.type == "cuda" and not config.enforce_eager:
        on_progress("capture CUDA graphs", 0)
        runner.graphs = GraphPool()
        runner.graphs.capture(
            runner.forward, runner.inputs, config.batched_tokens, config.max_num_seqs
        )
    return Built(runner, model_config, dtype, num_blocks, host_blocks, length, costs)


def _require_length(config: EngineConfig, model: ModelConfig) -> None:
    """Refuse a length beyond what the model was trained for."""
    asked, maximum = config.max_model_len, model.max_position_embeddings
    if asked is not None and asked > maximum:
        raise InvalidConfigError(
            f"max_model_len is {asked:,}, the model's maximum is {maximum:,}",
            f"set it to at most {maximum:,}",
        )


def _load(
    settings: EngineConfig,
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
        torch.set_default_dtype(default)
        with _compiling(settings, model, pick_kv_dtype(settings, dtype, device)):
            size = _fill(settings, model, folder, on_progress)
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(
            f"the weights of {folder} don't fit {device}: {error}",
            "use a smaller model or a larger GPU",
        ) from error
    finally:
        torch.set_default_dtype(default)
    logger.info(
        "Loaded %s in %s on %s: %.2f GiB in %.1f s",
        config.architecture, dtype, device, size / GIB, time.monotonic() - started,
    )  # fmt: skip
    return model.eval()


def _fill(settings: EngineConfig, model: Decoder, folder: Path, on_progress: OnProgress) -> int:
    """Give the model its checkpoint's weights, or random ones; return their bytes."""
    if settings.load_format == "dummy":
        return randomise_weights(model)
    return load_weights(model, folder, lambda percent: on_progress("load weights", percent))


@contextmanager
def _compiling(settings: EngineConfig, model: Decoder, kv_dtype: torch.dtype) -> Iterator[None]:
    """Compile the model's kernels beside the block, which loads its weights.

    Zeros stand for the weights that aren't there yet.
    """
    device = model.embed_tokens.device
    if device.type != "cuda":
        yield
        return
    for parameter in model.parameters():
        parameter.zero_()

    def run() -> None:
        runner, blocks = _new_runner(settings, model), -(-LONGEST_PROMPT // settings.block_size)
        runner.pool = kv_cache.allocate(model.config, blocks, settings.block_size, kv_dtype, device)
        run_steps(runner)

    with ThreadPoolExecutor(1, "compile", torch.cuda.set_device, (device,)) as beside:
        compiled = beside.submit(run)
        yield
        compiled.result()


def _new_runner(config: EngineConfig, model: Decoder) -> ModelRunner:
    return ModelRunner(
        model,
        block_size=config.block_size,
        max_len=config.max_model_len or model.config.max_position_embeddings,
        max_tokens=config.batched_tokens,
        max_seqs=config.max_num_seqs,
    )


def _profile(config: EngineConfig, runner: ModelRunner, kv_dtype: torch.dtype) -> tuple[int, float]:
    """Run the largest step; return the bytes left for the cache, and prefill tokens a second."""
    on_gpu = runner.device.type == "cuda"
    seqs = config.max_num_seqs if on_gpu else 1
    tokens = config.batched_tokens if on_gpu else min(PROFILE_TOKENS, config.batched_tokens)
    tokens = min(tokens, seqs * (runner.cos.shape[0] - 1))
    scratch = tokens // seqs // config.block_size + 1
    model_config = runner.model.config
    runner.pool = kv_cache.allocate(
        model_config, scratch, config.block_size, kv_dtype, runner.device
    )
    try:
        if on_gpu:
            run_prompts(runner, tokens, seqs, PROFILED)
            torch.cuda.reset_peak_memory_stats(runner.device)
        started = time.perf_counter()
        run_prompts(runner, tokens, seqs, PROFILED)
        tokens_per_s = tokens / (time.perf_counter() - started)
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(
            f"a step of {tokens:,} tokens doesn't fit {runner.device} beside the weights: {error}",
            "lower --max-num-batched-tokens or --max-num-seqs, or use a larger GPU",
        ) from error
    if not on_gpu:
        return kv_cache.cpu_pool_bytes(config), tokens_per_s
    available = kv_budget_bytes(config, runner.device)
    runner.pool = torch.empty(0)
    torch.cuda.empty_cache()
    return available, tokens_per_s


def _host_blocks(
    config: EngineConfig, device: torch.device, num_blocks: int, block_bytes: int
) -> int:
    """Return the host's share: never more than the device's, which could not fill it.

    A CPU has none of its own accord: a larger KV cache is the better use of the same memory.
    """
    on_cpu = device.type == "cpu" and config.preemption_mode != "swap"
    if on_cpu or config.preemption_mode == "recompute":
        return 0
    return min(int(config.swap_space * GIB) // block_bytes, num_blocks)


def _costs(
    config: EngineConfig, host: HostCache | None, tokens_per_s: float, block_bytes: int
) -> PreemptionCosts:
    if host is None:
        return ALWAYS_RECOMPUTE
    if config.preemption_mode == "swap":
        return ALWAYS_SWAP
    copy = host.measure_speed()
    logger.info(
        "Preemption: a round trip to the host takes %.2f ms and %.1f ms a GB, prefill computes "
        "%s tokens/s: the cheaper is chosen for each request",
        copy.overhead_s * 1e3, 1e12 / copy.bytes_per_s, f"{tokens_per_s:,.0f}",
    )  # fmt: skip
    return PreemptionCosts(copy, tokens_per_s, block_bytes)


def _log_pool(config: EngineConfig, num_blocks: int, length: int, dtype: torch.dtype) -> None:
    tokens = num_blocks * config.block_size
    logger.info("KV cache size: %d blocks", num_blocks)
    logger.info(
        "KV cache: %s tokens in blocks of %d, %s; %.2f sequences of %s tokens fit at once",
        f"{tokens:,}", config.block_size, dtype, tokens / length, f"{length:,}",
    )  # fmt: skip
