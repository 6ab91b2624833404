"""Requests and limits of the engine container."""

from __future__ import annotations

import math
from typing import Any

from kvasir_operator import names
from kvasir_operator.model.plan import Resolved
from kvasir_operator.model.spec import Spec


def resources(spec: Spec, resolved: Resolved) -> dict[str, Any]:
    """`resources:` of the container. A memory limit only where the user gave a figure: a guessed
    one would kill a healthy engine. No CPU limit: throttling stalls every stream."""
    requests = {
        "cpu": spec.resources.cpu or _cpu(spec, resolved),
        "memory": spec.resources.memory or _memory(spec, resolved),
    }
    limits: dict[str, str] = {}
    if spec.resources.memory:
        limits["memory"] = spec.resources.memory
    if spec.device == "cuda":
        limits[names.GPU_RESOURCE] = str(resolved.tensor)
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _cpu(spec: Spec, resolved: Resolved) -> str:
    return "500m" if spec.device == "cpu" else str(2 * resolved.tensor)


def _memory(spec: Spec, resolved: Resolved) -> str:
    if resolved.kv_cache_gib is not None:
        return f"{math.ceil(2 + resolved.kv_cache_gib)}Gi"
    return f"{(4 + spec.engine.swap_space_gib) * resolved.tensor}Gi"
