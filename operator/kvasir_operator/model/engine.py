"""`spec.engine`: how the engine in each pod runs. Names and meanings are those vLLM users know."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from kvasir_operator.model.base import Fields, rules
from kvasir_operator.model.source import KeyRef

TYPED_FLAGS = {
    "model": "model.uri",
    "revision": "model.revision",
    "served-model-name": "model.servedName",
    "host": "nothing: the port and address are fixed",
    "port": "nothing: the port and address are fixed",
    "device": "device",
    "dtype": "engine.dtype",
    "kv-cache-dtype": "engine.kvCacheDtype",
    "quantization": "engine.quantization",
    "gpu-memory-utilization": "engine.gpuMemoryUtilization",
    "max-num-seqs": "engine.maxNumSeqs",
    "max-num-batched-tokens": "engine.maxNumBatchedTokens",
    "max-model-len": "engine.maxModelLen",
    "block-size": "engine.blockSize",
    "enable-prefix-caching": "engine.prefixCaching",
    "no-enable-prefix-caching": "engine.prefixCaching",
    "swap-space": "engine.swapSpaceGiB",
    "kv-cache-gib": "engine.kvCacheGiB",
    "enforce-eager": "engine.enforceEager",
    "tensor-parallel-size": "parallelism.tensor",
    "pipeline-parallel-size": "parallelism.pipeline",
    "drain-seconds": "lifecycle.drainSeconds",
    "tp": "parallelism.tensor",
    "pp": "parallelism.pipeline",
    "q": "engine.quantization",
}
"""Flags that a typed field renders, and the field."""


def _flag_pattern() -> str:
    names = "|".join(flag.replace("-", "[-_]") for flag in TYPED_FLAGS)
    return f"^--?({names})(=.*)?$"


EXTRA_ARGS_RULES = rules(
    (
        f"self.all(a, !a.matches('{_flag_pattern()}'))",
        "extraArgs must not repeat a typed field: use model.*, device, engine.*, parallelism.* or "
        "lifecycle.drainSeconds for it (host and port are fixed)",
    ),
)

ENV_RULES = rules(
    (
        "has(self.value) != has(self.valueFrom)",
        "an environment variable takes either value or valueFrom",
    ),
)

ENV_SOURCE_RULES = rules(
    (
        "has(self.secretKeyRef) != has(self.configMapKeyRef)",
        "valueFrom takes either secretKeyRef or configMapKeyRef",
    ),
)


class EnvSource(Fields):
    """Where an environment variable's value comes from."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": ENV_SOURCE_RULES})

    secret_key_ref: KeyRef | None = None
    """An entry of a Secret."""
    config_map_key_ref: KeyRef | None = None
    """An entry of a ConfigMap."""


class EnvVar(Fields):
    """One environment variable."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": ENV_RULES})

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """The variable's name."""
    value: Annotated[str, Field(max_length=4096)] | None = None
    """The value itself."""
    value_from: EnvSource | None = None
    """Where the value comes from."""


class EngineSpec(Fields):
    """How the engine runs. Every default serves; change what a measurement tells you to."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """The engine's container image. The operator's default image when omitted; a running pod keeps
    the image it was started with until its own fields change."""
    dtype: Literal["auto", "float16", "bfloat16", "float32"] = "auto"
    """Type of weights and activations. auto: what the checkpoint says on cuda, float32 on cpu."""
    kv_cache_dtype: Literal["auto", "fp8"] = "auto"
    """Type of the KV cache. auto: that of the activations; fp8: one byte a number (e4m3), so twice
    the tokens of 16 bits, on GPUs from Ada and Hopper on."""
    quantization: Literal["auto", "none", "awq", "gptq", "int8", "fp8", "compressed-tensors"] = (
        "auto"
    )
    """How the checkpoint's weights are quantized. auto: what the checkpoint says; none: it must
    not be quantized."""
    gpu_memory_utilization: Annotated[float, Field(ge=0.10, le=0.98)] = 0.90
    """Share of a GPU's memory the engine may use for weights, activations and KV cache. Above 0.95
    little is left for other processes and for fragmentation."""
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)] = 256
    """Most sequences that run in one step; more wait. Larger gives throughput, smaller gives each
    request more speed."""
    max_num_batched_tokens: Annotated[int, Field(ge=16, le=1_048_576)] | None = None
    """Most tokens computed in one step, prompts and answers together. Worked out when omitted."""
    max_model_len: Annotated[int, Field(ge=16, le=16_777_216)] | None = None
    """Most tokens of a prompt and its answer together. The model's own maximum, as far as the KV
    cache holds it, when omitted."""
    block_size: Literal[8, 16, 32, 64, 128] = 16
    """Tokens in one block of the KV cache."""
    prefix_caching: bool = True
    """Keep KV blocks of finished prompts and reuse them for prompts that start the same."""
    swap_space_gib: Annotated[int, Field(alias="swapSpaceGiB", ge=0, le=1024)] = 4
    """Host memory per GPU, in GiB, that holds the KV blocks of preempted sequences."""
    kv_cache_gib: Annotated[float, Field(gt=0, le=4096)] | None = Field(
        default=None, alias="kvCacheGiB"
    )
    """Size of the KV cache in GiB with device: cpu (1 when omitted). On cuda it follows from
    gpuMemoryUtilization."""
    enforce_eager: bool = False
    """Run without captured graphs: starts faster, answers slower."""
    extra_args: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=256)], ...],
        Field(
            max_length=32,
            json_schema_extra={
                "x-kubernetes-validations": EXTRA_ARGS_RULES,
                "x-kubernetes-list-type": "atomic",
            },
        ),
    ] = ()
    """Further arguments of the engine, as they are. They must not repeat a typed field."""
    env: Annotated[
        tuple[EnvVar, ...],
        Field(
            max_length=64,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    """Environment variables of the engine's container."""
