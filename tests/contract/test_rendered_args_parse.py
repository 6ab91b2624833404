"""What the operator renders, the runtime's real parser reads, and reads as it was meant."""

from typing import Any

import pytest

from kvasir_operator import names, render
from kvasir_operator.model.engine import TYPED_FLAGS
from kvasir_operator.model.plan import Resolved
from kvasir_operator.plan import plan
from kvasir_operator.settings import Settings
from kvasir_runtime.config import EngineConfig, ServerConfig, build_parser, from_args
from support.objects import service

SETTINGS = Settings(default_image="engine:1")
ENGINE: dict[str, Any] = {
    "dtype": "bfloat16",
    "quantization": "none",
    "kvCacheDtype": "fp8",
    "gpuMemoryUtilization": 0.5,
    "maxNumSeqs": 3,
    "maxNumBatchedTokens": 64,
    "maxModelLen": 128,
    "blockSize": 32,
    "prefixCaching": False,
    "swapSpaceGiB": 2,
    "kvCacheGiB": 0.25,
    "enforceEager": True,
    "extraArgs": ["--seed=7"],
}


def rendered_args(**spec: Any) -> list[str]:
    wanted = service(**spec)
    resolved = plan(wanted, SETTINGS)
    assert isinstance(resolved, Resolved)
    template = render.pod_template(wanted, resolved)
    args: list[str] = template["spec"]["containers"][0]["args"]
    return args


def parsed(**spec: Any) -> tuple[EngineConfig, ServerConfig]:
    args = build_parser().parse_args(rendered_args(**spec))
    return from_args(args, EngineConfig), from_args(args, ServerConfig)


def test_shortest_manifest() -> None:
    engine, server = parsed()
    assert (engine.model, engine.device, engine.dtype) == ("/models/smollm2", "cpu", "float32")
    assert engine.kv_cache_gib == 1.0
    assert server.served_model_name == ("chat",)
    assert (server.host, server.port) == ("0.0.0.0", names.PORT)
    assert server.drain_seconds == 120


def test_every_engine_field_arrives() -> None:
    engine, server = parsed(engine=ENGINE, lifecycle={"drainSeconds": 9})
    assert (engine.dtype, engine.quantization) == ("bfloat16", "none")
    assert engine.kv_cache_dtype == "fp8"
    assert (engine.gpu_memory_utilization, engine.kv_cache_gib) == (0.5, 0.25)
    assert (engine.max_num_seqs, engine.max_num_batched_tokens) == (3, 64)
    assert (engine.max_model_len, engine.block_size, engine.swap_space) == (128, 32, 2)
    assert (engine.enable_prefix_caching, engine.enforce_eager, engine.seed) == (False, True, 7)
    assert server.drain_seconds == 9


def test_hub_model_with_revision() -> None:
    engine, server = parsed(
        model={"uri": "hf://org/name", "revision": "abc", "servedName": "gpt"}, device="cuda"
    )
    assert (engine.model, engine.revision, engine.device) == ("org/name", "abc", "cuda")
    assert server.served_model_name == ("gpt",)


@pytest.mark.parametrize(
    "field", ["maxNumSeqs", "blockSize", "gpuMemoryUtilization", "swapSpaceGiB"]
)
def test_defaults_of_both_sides_are_the_same(field: str) -> None:
    """A default is not rendered, so the two must agree."""
    attribute = {
        "maxNumSeqs": ("max_num_seqs", "max_num_seqs"),
        "blockSize": ("block_size", "block_size"),
        "gpuMemoryUtilization": ("gpu_memory_utilization", "gpu_memory_utilization"),
        "swapSpaceGiB": ("swap_space_gib", "swap_space"),
    }[field]
    ours = getattr(service().spec.engine, attribute[0])
    assert getattr(parsed()[0], attribute[1]) == ours


def test_booleans_that_are_not_rendered_have_the_documented_default() -> None:
    engine, _ = parsed()
    assert engine.enable_prefix_caching is service().spec.engine.prefix_caching
    assert engine.enforce_eager is service().spec.engine.enforce_eager


def test_flags_that_extra_args_must_not_repeat_are_flags_of_the_runtime() -> None:
    known = set(build_parser()._option_string_actions)
    assert {f"-{flag}" if len(flag) < 3 else f"--{flag}" for flag in TYPED_FLAGS} <= known


@pytest.mark.parametrize("quantization", ["auto", "none"])
def test_what_planning_accepts_the_engine_accepts(quantization: str) -> None:
    assert parsed(engine={"quantization": quantization})[0].quantization == quantization
