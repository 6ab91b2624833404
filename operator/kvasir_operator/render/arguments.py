"""The engine's command line: what the user typed and what planning decided, nothing else."""

from __future__ import annotations

from kvasir_operator import names
from kvasir_operator.model.plan import Resolved
from kvasir_operator.model.spec import Spec
from kvasir_operator.render.storage import model_argument


def arguments(spec: Spec, resolved: Resolved) -> list[str]:
    """`args:` of the engine's container."""
    return [
        *("--model", model_argument(spec.model.uri)),
        *_optional("--revision", spec.model.revision),
        *("--served-model-name", resolved.served_name),
        *("--host", "0.0.0.0"),
        *("--port", str(names.PORT)),
        *("--device", spec.device),
        *("--drain-seconds", str(spec.lifecycle.drain_seconds)),
        *_planned(resolved),
        *_typed(spec),
        *spec.engine.extra_args,
    ]


def _planned(resolved: Resolved) -> list[str]:
    degrees = {
        "--tensor-parallel-size": resolved.tensor,
        "--pipeline-parallel-size": resolved.pipeline,
    }
    return [
        *("--dtype", resolved.dtype),
        *_optional("--kv-cache-gib", resolved.kv_cache_gib),
        *_optional("--max-model-len", resolved.max_model_len),
        *_optional("--max-num-batched-tokens", resolved.max_num_batched_tokens),
        *(part for flag, degree in degrees.items() if degree > 1 for part in (flag, str(degree))),
    ]


def _typed(spec: Spec) -> list[str]:
    """Flags of the engine fields that differ from their default."""
    typed = spec.engine.model_dump(exclude_defaults=True)
    flags = {
        "kv_cache_dtype": "--kv-cache-dtype",
        "quantization": "--quantization",
        "gpu_memory_utilization": "--gpu-memory-utilization",
        "max_num_seqs": "--max-num-seqs",
        "block_size": "--block-size",
        "swap_space_gib": "--swap-space",
    }
    out = [part for field, flag in flags.items() for part in _optional(flag, typed.get(field))]
    if "prefix_caching" in typed:
        out.append("--no-enable-prefix-caching")
    if "enforce_eager" in typed:
        out.append("--enforce-eager")
    return out


def _optional(flag: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return (flag, shown)
