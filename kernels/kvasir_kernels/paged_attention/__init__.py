"""Attention of a ragged batch over a paged KV cache: prefill chunks and decodes in one call."""

from kvasir_kernels.paged_attention.reference import paged_attention

__all__ = ["paged_attention"]
