"""Fills in what the user left out."""

from __future__ import annotations

from kvasir_operator.model.plan import Resolved
from kvasir_operator.model.service import InferenceService
from kvasir_operator.model.spec import Spec
from kvasir_operator.settings import Settings

STARTUP_TIMEOUT_S = 600
CPU_KV_CACHE_GIB = 1.0


def resolve(service: InferenceService, settings: Settings) -> Resolved:
    """The values `service` runs with."""
    spec, engine = service.spec, service.spec.engine
    return Resolved(
        image=engine.image or settings.default_image,
        served_name=spec.model.served_name or service.ref.name,
        tensor=spec.parallelism.tensor or 1,
        pipeline=spec.parallelism.pipeline or 1,
        dtype=_dtype(spec),
        quantization=engine.quantization,
        kv_cache_gib=_kv_cache_gib(spec),
        max_model_len=engine.max_model_len,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        startup_timeout_s=spec.lifecycle.startup_timeout_seconds or STARTUP_TIMEOUT_S,
    )


def _dtype(spec: Spec) -> str:
    if spec.engine.dtype == "auto" and spec.device == "cpu":
        return "float32"
    return spec.engine.dtype


def _kv_cache_gib(spec: Spec) -> float | None:
    if spec.device != "cpu":
        return None
    return spec.engine.kv_cache_gib or CPU_KV_CACHE_GIB
