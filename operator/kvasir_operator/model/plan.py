"""What planning says about a service: values to run it with, or why it cannot run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resolved:
    """The values a service runs with, defaults filled in. None: the engine works it out."""

    image: str
    served_name: str
    tensor: int
    pipeline: int
    dtype: str
    quantization: str
    kv_cache_gib: float | None
    """Size of the KV pool on cpu; None on cuda."""
    max_model_len: int | None
    max_num_batched_tokens: int | None
    startup_timeout_s: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no pod is made for a service: one CamelCase word and a sentence that says what to do."""

    reason: str
    message: str
